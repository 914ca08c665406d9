from urllib.parse import urljoin

from a2a.types import AgentCard, GetExtendedAgentCardRequest
from a2a.utils.errors import UnsupportedOperationError
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from jwt import PyJWKSet
from peer import Peer, address, each_binding, shows


async def verifier(http):
    """A verifier with the keys with which the server signs cards."""
    response = await http.get(urljoin(address(), "/.well-known/jwks.json"))
    response.raise_for_status()
    keys = PyJWKSet.from_dict(response.json())
    return create_signature_verifier(lambda kid, jku: keys[kid], ["ES256", "EdDSA", "RS256"])


class Signed(Peer):
    @shows("signed")
    async def test_signature_is_that_of_a_key_of_the_server(self):
        if not self.card.signatures:
            return False
        verify = await verifier(self.http)
        verify(self.card)
        other = AgentCard()
        other.CopyFrom(self.card)
        other.name = "Another"
        with self.assertRaises(InvalidSignaturesError):
            verify(other)


@each_binding
class Extended:
    @shows("extended")
    async def test_is_had_with_the_client(self):
        ask = GetExtendedAgentCardRequest()
        if not self.card.capabilities.extended_agent_card:
            self.assertEqual(await self.client.get_extended_agent_card(ask), self.card)  # the card it has
            deceived = await self.dial_other("FIXTURE_URL", capabilities=["extended_agent_card"])
            with self.assertRaises(UnsupportedOperationError):
                await deceived.get_extended_agent_card(ask)
            return False
        card = await self.client.get_extended_agent_card(ask)
        self.assertEqual(card.name, self.card.name)
        self.assertGreater(len(card.skills), len(self.card.skills))
        if card.signatures:
            (await verifier(self.http))(card)
