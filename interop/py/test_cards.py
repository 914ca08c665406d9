import os
from urllib.parse import urljoin

from a2a.client import ClientCallContext
from a2a.types import AgentCard, GetExtendedAgentCardRequest
from a2a.utils.errors import A2AError, UnsupportedOperationError
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from jwt import PyJWKSet
from peer import Peer, address, card_of, each_binding, shows

SIGNED = "FIXTURE_SIGNED_URL"


async def verifier(http):
    """A verifier with the keys with which the server signs cards."""
    response = await http.get(urljoin(address(SIGNED), "/.well-known/jwks.json"))
    response.raise_for_status()
    keys = PyJWKSet.from_dict(response.json())
    return create_signature_verifier(lambda kid, jku: keys[kid], ["ES256", "EdDSA", "RS256"])


class Signed(Peer):
    @shows("signed")
    async def test_signature_is_that_of_a_key_of_the_server(self):
        card, verify = await card_of(self.http, SIGNED), await verifier(self.http)
        verify(card)
        other = AgentCard()
        other.CopyFrom(card)
        other.name = "Another"
        with self.assertRaises(InvalidSignaturesError):
            verify(other)


@each_binding
class Extended:
    @shows("extended")
    async def test_is_had_with_a_credential(self):
        client, ask = await self.dial_other(SIGNED), GetExtendedAgentCardRequest()
        with self.assertRaises(A2AError):
            await client.get_extended_agent_card(ask)
        context = ClientCallContext(service_parameters={"Authorization": os.environ["AUTHORIZATION"]})
        verify = await verifier(self.http)
        card = await client.get_extended_agent_card(ask, context=context, signature_verifier=verify)
        self.assertEqual([skill.id for skill in card.skills], ["fixture", "terms"])

    @shows("errors")
    async def test_agent_without_an_extended_card(self):
        ask = GetExtendedAgentCardRequest()
        self.assertEqual(await self.client.get_extended_agent_card(ask), self.card)  # the card it has
        deceived = await self.dial_other("FIXTURE_URL", capabilities=["extended_agent_card"])
        with self.assertRaises(UnsupportedOperationError):
            await deceived.get_extended_agent_card(ask)
