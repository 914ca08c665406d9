// An implementation of RFC 8785 that knows nothing of A2A, and the signatures
// of Node.js: for cards that have no value that A2A §8.4.1 leaves out.
import assert from 'node:assert/strict';
import {createPublicKey, verify} from 'node:crypto';
import test from 'node:test';
import canonicalize from 'canonicalize';
import {algorithms, publicKey, signed} from './cards.js';

function isSigned(card, algorithm) {
  const {signatures, ...rest} = card;
  const {protected: header, signature} = signatures[0];
  assert.deepEqual(JSON.parse(Buffer.from(header, 'base64url')), {alg: algorithm, kid: algorithm, typ: 'JOSE'});
  const input = Buffer.from(`${header}.${Buffer.from(canonicalize(rest)).toString('base64url')}`);
  const key = {key: createPublicKey({key: publicKey(algorithm), format: 'jwk'}), dsaEncoding: 'ieee-p1363'};
  return verify(algorithm === 'EdDSA' ? null : 'sha256', input, key, Buffer.from(signature, 'base64url'));
}

for (const name of ['ascii', 'unicode', 'numbers', 'integers', 'empty-parameters', 'combined']) {
  for (const algorithm of algorithms) {
    test(`${name}, ${algorithm}`, () => {
      const card = signed(name, algorithm);
      assert.ok(isSigned(card, algorithm));
      card.description += '.';
      assert.ok(!isSigned(card, algorithm));
    });
  }
}
