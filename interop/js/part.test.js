import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';

import { TaskState } from '@a2a-js/sdk';

import { assertState, collect, dataPart, eachBinding, get, part, rawPart, send, textPart } from './peer.js';

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** Sends parts and checks what comes back: of a send, a read and a stream. */
async function assertEchoed(client, parts) {
  const task = await client.sendMessage(send('echo parts', { parts }));
  assertState(task, TaskState.TASK_STATE_COMPLETED);
  assert.deepEqual(task.artifacts[0].parts.slice(1), parts);
  assert.deepEqual((await get(client, task.id)).artifacts[0].parts.slice(1), parts);
  const events = await collect(client.sendMessageStream(send('echo parts', { parts })));
  const chunk = events.find((e) => e.$case === 'artifactUpdate');
  assert.deepEqual(chunk.value.artifact.parts.slice(1), parts);
}

eachBinding('parts', (binding, connect, shows) => {
  shows('parts', 'every kind of data comes back', async () => {
    const values = [0, -1.5e-7, false, true, '', 's', [], [1, null, ['x']], {}, { n: null, '<a href="x?a=1&b=2">': { '': false } }];
    await assertEchoed(await connect(), values.map(dataPart));
  });

  // A data part whose value is null is sent as such and comes back as such. Where
  // there is JSON, this client then takes the null for a missing key: the part is
  // there without a content.
  shows('parts', 'null as data', async (cannot) => {
    const task = await (await connect()).sendMessage(send('echo null', { parts: [dataPart(null)] }));
    assert.equal(task.artifacts[0].parts.length, 2);
    if (binding === 'GRPC') return assert.deepEqual(task.artifacts[0].parts[1], dataPart(null));
    cannot('read a data part whose value is null: the part has no content');
    assert.equal(task.artifacts[0].parts[1].content, undefined);
  });

  shows('parts', 'parts keep what they have', async () => {
    await assertEchoed(await connect(), [
      rawPart(Buffer.from('%PDF-1.7'), { filename: 'größe 報告.pdf', mediaType: 'application/pdf', metadata: { k: null, n: 1 } }),
      part({ $case: 'url', value: 'https://example.com/a?b=c&d=%20' }, { mediaType: 'image/png' }),
      textPart(''),
      textPart('Ünïcödé 日本語 한국어 😀 \u2028 \u0000 <>&"\\ \r\n\t'),
    ]);
  });

  // The stream of this client ends at events of 4 MiB, and so do all messages
  // over gRPC; a file of 2 MB passes.
  shows('parts', 'a large file', { timeout: 120_000 }, async (cannot) => {
    const client = await connect();
    const file = randomBytes(9_000_000);
    const small = file.subarray(0, 2_000_000);
    const configuration = { historyLength: 0 };
    const echo = (content) => send('echo file', { parts: [rawPart(content)], configuration });
    if (binding === 'GRPC') {
      cannot('receive a message of more than 4 MiB');
      await assert.rejects(client.sendMessage(echo(file)), /larger than max/);
    } else {
      cannot('stream an event of more than 4 MiB');
      const task = await client.sendMessage(echo(file));
      assert.equal(hash(task.artifacts[0].parts[1].content.value), hash(file));
      await assert.rejects(collect(client.sendMessageStream(echo(file))), /exceeded the maximum allowed size of 4194304 bytes/);
    }
    const events = await collect(client.sendMessageStream(echo(small)));
    const chunk = events.find((e) => e.$case === 'artifactUpdate');
    assert.equal(hash(chunk.value.artifact.parts[1].content.value), hash(small));
  });
});
