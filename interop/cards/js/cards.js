// The signed cards of this run, with their keys, and the program that made them.
import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, readdirSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const built = join(here, '..', 'build', 'cards');

export const algorithms = ['ES256', 'EdDSA', 'RS256'];
export const names = readdirSync(join(here, '..', 'cards')).map((file) => file.replace(/\.json$/, ''));
export const served = ['served', 'extended']; // by a node, the second for callers with a credential
export const jwks = JSON.parse(readFileSync(join(built, 'jwks.json'), 'utf8'));
export const plain = (name) => JSON.parse(readFileSync(join(here, '..', 'cards', `${name}.json`), 'utf8'));
export const signed = (name, algorithm) => JSON.parse(readFileSync(join(built, `${name}.${algorithm}.json`), 'utf8'));

export function publicKey(kid) {
  const jwk = jwks.keys.find((key) => key.kid === kid);
  if (!jwk) throw new Error(`no key ${kid}`);
  return jwk;
}

// handoffVerify returns what our own verifier says of a card.
export function handoffVerify(card, keys, ...flags) {
  const dir = mkdtempSync(join(tmpdir(), 'handoff-cards-'));
  writeFileSync(join(dir, 'card.json'), JSON.stringify(card));
  writeFileSync(join(dir, 'jwks.json'), JSON.stringify(keys));
  const args = ['card', 'verify', join(dir, 'card.json'), '--jwks', join(dir, 'jwks.json'), '-o', 'json', ...flags];
  try {
    return JSON.parse(execFileSync(process.env.HANDOFF, args, {encoding: 'utf8', timeout: 20_000}));
  } catch (error) {
    return JSON.parse(error.stdout);
  }
}
