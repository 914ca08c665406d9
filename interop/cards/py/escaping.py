"""Versions of the official SDK before 1.1.4 escape what is not ASCII, and verify
no card that has such characters or a number: they write 0 as 0.0."""

import unittest

from cards import ALGORITHMS, NAMES, is_verified, signed

BEYOND = {"unicode", "numbers", "integers", "empty-parameters"}


class Verify(unittest.TestCase):
    def test_cards(self):
        for name in NAMES:
            for algorithm in ALGORITHMS:
                with self.subTest(card=name, algorithm=algorithm):
                    self.assertEqual(is_verified(signed(name, algorithm)), name not in BEYOND)


if __name__ == "__main__":
    unittest.main()
