// The official SDK verifies what handoff signs, and the other way round.
import assert from 'node:assert/strict';
import {webcrypto} from 'node:crypto';
import test from 'node:test';
import {generateAgentCardSignature, verifyAgentCardSignature} from '@a2a-js/sdk';
import {algorithms, handoffVerify, names, plain, publicKey, served, signed} from './cards.js';

const verify = verifyAgentCardSignature(async (kid) => publicKey(kid));
console.debug = () => {}; // the SDK tells each signature that does not fit

for (const name of [...names, ...served]) {
  for (const algorithm of algorithms) {
    test(`${name}, ${algorithm}`, async () => {
      await verify(signed(name, algorithm));
    });
  }
  test(`${name}, changed`, async () => {
    const card = signed(name, 'ES256');
    card.supportedInterfaces[0].url = 'https://b.example/rpc';
    await assert.rejects(verify(card), /No valid signatures/);
  });
}

// A2A §8.4.1 keeps values that the SDK leaves out: the second signature is for
// it. Where the SDK follows the paragraph one day, this fails and tells.
for (const name of ['scopeless', 'empty-parameters', 'combined']) {
  test(`${name}: the signature over the whole card is beyond this SDK`, async () => {
    const card = signed(name, 'ES256');
    assert.equal(card.signatures.length, 2);
    card.signatures.pop();
    await assert.rejects(verify(card), /No valid signatures/);
  });
}
for (const name of ['ascii', 'unicode', 'numbers', 'integers']) {
  test(`${name}: one signature is enough`, () => {
    assert.equal(signed(name, 'ES256').signatures.length, 1);
  });
}

const generators = {
  ES256: {name: 'ECDSA', namedCurve: 'P-256'},
  EdDSA: {name: 'Ed25519'},
  RS256: {name: 'RSASSA-PKCS1-v1_5', modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-256'},
};

for (const [algorithm, parameters] of Object.entries(generators)) {
  test(`signed by the SDK, ${algorithm}`, async () => {
    const pair = await webcrypto.subtle.generateKey(parameters, true, ['sign', 'verify']);
    const jwk = {...(await webcrypto.subtle.exportKey('jwk', pair.publicKey)), kid: 'theirs', use: 'sig'};
    delete jwk.alg;
    delete jwk.key_ops;
    const keys = {keys: [jwk]};
    const sign = generateAgentCardSignature(pair.privateKey, {alg: algorithm, kid: 'theirs', typ: 'JOSE'});
    for (const name of names) {
      const card = await sign(plain(name));
      const partial = ['scopeless', 'empty-parameters', 'combined'].includes(name);
      const strict = handoffVerify(card, keys);
      assert.equal(strict.outcome, partial ? 'refused' : 'verified', name);
      assert.equal(strict.signatures[0].status, partial ? 'partial' : 'good', name);
      const lenient = handoffVerify(card, keys, '--partial');
      assert.equal(lenient.outcome, partial ? 'partial' : 'verified', name);
      card.name = 'Another';
      assert.equal(handoffVerify(card, keys, '--partial').outcome, 'refused', name);
    }
  });
}
