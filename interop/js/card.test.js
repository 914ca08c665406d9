import assert from 'node:assert/strict';

import { verifyAgentCardSignature } from '@a2a-js/sdk';
import { UnsupportedOperationError } from '@a2a-js/sdk/errors';

import { address, bindings, dial, eachBinding, resolve, shows } from './peer.js';

const offersExtended = (card) => ({ ...card, capabilities: { ...card.capabilities, extendedAgentCard: true } });

/** The keys with which the server signs cards. */
async function keyOf(kid) {
  const response = await fetch(new URL('/.well-known/jwks.json', address()));
  const { keys } = await response.json();
  return keys.find((key) => key.kid === kid);
}

shows(bindings, 'signed', 'the signature of the card is that of a key of the server', async () => {
  const card = await resolve();
  if (!card.signatures?.length) return false;
  const verify = verifyAgentCardSignature(keyOf);
  await verify(card);
  await assert.rejects(verify({ ...card, name: 'Another' }));
  return true;
});

eachBinding('the extended card', (binding, connect, shows) => {
  shows('extended', 'is had with the client', async () => {
    const client = await connect();
    const card = await resolve();
    if (!card.capabilities.extendedAgentCard) {
      assert.equal((await client.getAgentCard()).name, 'Fixture'); // the card it has
      const deceived = await dial(binding, undefined, offersExtended);
      await assert.rejects(deceived.getAgentCard(), UnsupportedOperationError);
      return false;
    }
    const extended = await client.getAgentCard();
    assert.equal(extended.name, card.name);
    assert.ok(extended.skills.length > card.skills.length);
    if (extended.signatures?.length) await verifyAgentCardSignature(keyOf)(extended);
    return true;
  });
});
