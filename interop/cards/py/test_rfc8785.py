"""An implementation of RFC 8785 that knows nothing of A2A, and PyJWT: for cards
that have no value that A2A §8.4.1 leaves out."""

import base64
import unittest

import rfc8785
from cards import ALGORITHMS, jwk, signed
from jwt.api_jwk import PyJWK
from jwt.api_jws import PyJWS
from jwt.exceptions import InvalidSignatureError


def payload_of(card):
    card = dict(card)
    signature = card.pop("signatures")[0]
    canonical = rfc8785.dumps(card)
    payload = base64.urlsafe_b64encode(canonical).rstrip(b"=").decode()
    return f"{signature['protected']}.{payload}.{signature['signature']}", canonical


class Verify(unittest.TestCase):
    def test_cards(self):
        for name in ["ascii", "unicode", "empty-parameters", "combined"]:
            for algorithm in ALGORITHMS:
                with self.subTest(card=name, algorithm=algorithm):
                    key = PyJWK.from_dict(jwk(algorithm))
                    token, canonical = payload_of(signed(name, algorithm))
                    self.assertEqual(PyJWS().decode(token, key, [algorithm]), canonical)
                    changed = signed(name, algorithm) | {"description": "x"}
                    with self.assertRaises(InvalidSignatureError):
                        PyJWS().decode(payload_of(changed)[0], key, [algorithm])

    def test_large_integers_are_beyond_this_one(self):
        for name in ["numbers", "integers"]:
            with self.subTest(card=name), self.assertRaises(rfc8785.IntegerDomainError):
                payload_of(signed(name, "ES256"))


if __name__ == "__main__":
    unittest.main()
