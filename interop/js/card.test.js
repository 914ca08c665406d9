import assert from 'node:assert/strict';
import { describe } from 'node:test';

import { verifyAgentCardSignature } from '@a2a-js/sdk';
import { UnsupportedOperationError } from '@a2a-js/sdk/errors';

import { address, bindings, dial, eachBinding, resolve, shows } from './peer.js';

const signed = 'FIXTURE_SIGNED_URL';
const offersExtended = (card) => ({ ...card, capabilities: { ...card.capabilities, extendedAgentCard: true } });

/** The keys with which the server signs cards. */
async function keyOf(kid) {
  const response = await fetch(new URL('/.well-known/jwks.json', address(signed)));
  const { keys } = await response.json();
  return keys.find((key) => key.kid === kid);
}

const verify = verifyAgentCardSignature(keyOf);

shows(bindings, 'signed', 'the signature of the card is that of a key of the server', async (cannot) => {
  const response = await fetch(new URL('.well-known/agent-card.json', address(signed)));
  const card = await response.json();
  await verify(card);
  await assert.rejects(verify({ ...card, name: 'Another' }));
  // Of a card that its client has read it loses the security schemes.
  cannot('verify a card with security schemes once its client has read it; it verifies the JSON');
  await assert.rejects(verify(await resolve(signed)), /No valid signatures/);
});

for (const binding of bindings) {
  describe(`the extended card, ${binding}`, () => {
    shows(binding, 'extended', 'is had with a credential', async () => {
      const client = await dial(binding, signed);
      await assert.rejects(client.getAgentCard());
      const card = await client.getAgentCard({ serviceParameters: { Authorization: process.env.AUTHORIZATION } });
      assert.deepEqual(card.skills.map((s) => s.id), ['fixture', 'terms']);
      assert.ok(card.signatures.length > 0);
    });
  });
}

eachBinding('no extended card', (binding, connect, shows) => {
  shows('errors', 'of an agent without an extended card', async () => {
    assert.equal((await (await connect()).getAgentCard()).name, 'Fixture'); // the card it has
    const deceived = await dial(binding, undefined, offersExtended);
    await assert.rejects(deceived.getAgentCard(), UnsupportedOperationError);
  });
});
