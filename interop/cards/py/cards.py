"""The signed cards of this run, with their keys, and the program that made them."""

import json
import os
import pathlib
import subprocess
import tempfile

from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import (
    SignatureVerificationError,
    create_signature_verifier,
)
from jwt.api_jwk import PyJWK

HERE = pathlib.Path(__file__).parent
BUILT = HERE.parent / "build" / "cards"
ALGORITHMS = ["ES256", "EdDSA", "RS256"]
SERVED = ["served", "extended"]  # by a node, the second for callers with a credential
NAMES = sorted(p.stem for p in (HERE.parent / "cards").glob("*.json"))


def plain(name):
    return json.loads((HERE.parent / "cards" / f"{name}.json").read_text("utf-8"))


def signed(name, algorithm):
    return json.loads((BUILT / f"{name}.{algorithm}.json").read_text("utf-8"))


def jwk(kid):
    keys = json.loads((BUILT / "jwks.json").read_text("utf-8"))["keys"]
    return next(k for k in keys if k["kid"] == kid)


def is_verified(card, algorithms=ALGORITHMS):
    """Says whether the official SDK verifies a card."""
    verifier = create_signature_verifier(lambda kid, jku: PyJWK.from_dict(jwk(kid)), algorithms)
    try:
        verifier(parse_agent_card(json.loads(json.dumps(card))))
    except SignatureVerificationError:
        return False
    return True


def handoff_verify(card, keys, *flags):
    """Returns what our own verifier says of a card."""
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder)
        (files / "card.json").write_text(json.dumps(card), "utf-8")
        (files / "jwks.json").write_text(json.dumps(keys), "utf-8")
        done = subprocess.run(
            [os.environ["HANDOFF"], "card", "verify", files / "card.json", "--jwks", files / "jwks.json", "-o", "json", *flags],
            capture_output=True, timeout=20, check=False,
        )
        return json.loads(done.stdout)
