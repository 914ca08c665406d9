"""The official SDK verifies what handoff signs, and the other way round."""

import json
import unittest

from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import create_agent_card_signer
from cards import ALGORITHMS, NAMES, SERVED, handoff_verify, is_verified, plain, signed
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from google.protobuf.json_format import MessageToDict
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

PARTIAL = {"scopeless", "empty-parameters", "combined"}


class Verify(unittest.TestCase):
    def test_cards(self):
        for name in NAMES + SERVED:
            for algorithm in ALGORITHMS:
                with self.subTest(card=name, algorithm=algorithm):
                    self.assertTrue(is_verified(signed(name, algorithm)))

    def test_changed_cards(self):
        for name in NAMES + SERVED:
            with self.subTest(card=name):
                card = signed(name, "ES256")
                card["supportedInterfaces"][0]["url"] = "https://b.example/rpc"
                self.assertFalse(is_verified(card))

    def test_whole_card_is_beyond_this_sdk(self):
        for name in PARTIAL:
            with self.subTest(card=name):
                card = signed(name, "ES256")
                card["signatures"].pop()
                self.assertFalse(is_verified(card))


class Sign(unittest.TestCase):
    def keys(self):
        yield "ES256", ec.generate_private_key(ec.SECP256R1()), ECAlgorithm
        yield "EdDSA", ed25519.Ed25519PrivateKey.generate(), OKPAlgorithm
        yield "RS256", rsa.generate_private_key(65537, 2048), RSAAlgorithm

    def test_cards(self):
        for algorithm, private, kind in self.keys():
            jwks = {"keys": [json.loads(kind.to_jwk(private.public_key())) | {"kid": "theirs"}]}
            for key in jwks["keys"]:
                key.pop("key_ops", None)
            pem = private.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            sign = create_agent_card_signer(pem, {"alg": algorithm, "kid": "theirs", "jku": None, "typ": "JOSE"})
            for name in NAMES:
                with self.subTest(card=name, algorithm=algorithm):
                    card = MessageToDict(sign(parse_agent_card(plain(name))))
                    # What is not of A2A 1.0 is gone already.
                    partial = name in PARTIAL - {"combined"}
                    self.assertEqual(handoff_verify(card, jwks)["outcome"], "refused" if partial else "verified")
                    self.assertEqual(handoff_verify(card, jwks, "--partial")["outcome"], "partial" if partial else "verified")
                    card["name"] = "Another"
                    self.assertEqual(handoff_verify(card, jwks, "--partial")["outcome"], "refused")


if __name__ == "__main__":
    unittest.main()
