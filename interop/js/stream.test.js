import assert from 'node:assert/strict';

import { TaskState } from '@a2a-js/sdk';

import { artifactText, assertState, awaitState, chunks, collect, eachBinding, first, get, immediately, lastState, send } from './peer.js';

const { TASK_STATE_COMPLETED, TASK_STATE_FAILED, TASK_STATE_INPUT_REQUIRED } = TaskState;

eachBinding('streams', (binding, connect, shows) => {
  shows('stream', 'a stream begins with the task and tells the whole story', async () => {
    const client = await connect();
    for (let i = 0; i < 20; i++) {
      const events = await collect(client.sendMessageStream(send('echo hello')));
      assert.deepEqual(events.map((e) => e.$case), ['task', 'statusUpdate', 'artifactUpdate', 'statusUpdate']);
      for (const { value } of events.slice(1)) {
        assert.deepEqual([value.taskId, value.contextId], [events[0].value.id, events[0].value.contextId]);
      }
      assert.deepEqual(chunks(events), ['hello']);
      assert.equal(lastState(events), TASK_STATE_COMPLETED);
    }
  });

  shows('stream message', 'a message-only stream is the message', async () => {
    const events = await collect((await connect()).sendMessageStream(send('message hi')));
    assert.deepEqual(events.map((e) => e.$case), ['message']);
  });

  shows('stream', 'a burst arrives in order', async () => {
    const client = await connect();
    const events = await collect(client.sendMessageStream(send('burst 200')));
    assert.deepEqual(chunks(events), Array.from({ length: 200 }, (_, i) => `${i + 1} `));
    const appends = events.filter((e) => e.$case === 'artifactUpdate').map((e) => e.value.append);
    assert.deepEqual(appends, Array.from({ length: 200 }, (_, i) => i > 0));
    assert.equal(artifactText(await get(client, events[0].value.id)), chunks(events).join(''));
  });

  shows('stream', 'a stream shows work as it happens', async () => {
    const times = [];
    for await (const { payload } of (await connect()).sendMessageStream(send('slow 2'))) {
      if (payload.$case === 'artifactUpdate') times.push(performance.now());
    }
    assert.equal(times.length, 20);
    assert.ok(times.at(-1) - times[0] > 300, 'the chunks came together');
  });

  shows('stream answer', 'a stream ends with a question, and the answer has one of its own', async () => {
    const client = await connect();
    const events = await collect(client.sendMessageStream(send('ask')));
    assert.equal(lastState(events), TASK_STATE_INPUT_REQUIRED);
    const more = await collect(client.sendMessageStream(send('EXW', { task: events[0].value })));
    assert.equal(lastState(more), TASK_STATE_COMPLETED);
  });

  shows('stream', 'a failure in the middle is the last state', async () => {
    const events = await collect((await connect()).sendMessageStream(send('latefail')));
    assert.equal(lastState(events), TASK_STATE_FAILED);
  });

  shows('subscribe', 'a subscription to a running task misses nothing', async () => {
    const client = await connect();
    const task = await client.sendMessage(send('slow 2', { configuration: immediately }));
    const events = await collect(client.resubscribeTask({ tenant: '', id: task.id }));
    assert.equal(events[0].$case, 'task');
    const text = artifactText(events[0].value) + chunks(events).join('');
    assert.equal(text.match(/chunk/g).length, 20);
    assert.equal(lastState(events), TASK_STATE_COMPLETED);
  });

  shows('subscribe', 'a subscription after a cut misses nothing', async () => {
    const client = await connect();
    const abort = new AbortController();
    const { value } = await first(client.sendMessageStream(send('slow 2'), { signal: abort.signal }));
    abort.abort();
    const events = await collect(client.resubscribeTask({ tenant: '', id: value.id }));
    const text = artifactText(events[0].value) + chunks(events).join('');
    assert.equal(text.match(/chunk/g).length, 20);
    assert.equal(lastState(events), TASK_STATE_COMPLETED);
  });

  shows('subscribe answer', 'a subscription to a parked task stays open', async () => {
    const client = await connect();
    const task = await client.sendMessage(send('ask'));
    const events = [];
    for await (const { payload } of client.resubscribeTask({ tenant: '', id: task.id })) {
      events.push(payload);
      if (events.length > 1) continue;
      assert.equal(payload.$case, 'task');
      assertState(payload.value, TASK_STATE_INPUT_REQUIRED);
      await client.sendMessage(send('go', { task }));
    }
    assert.equal(lastState(events), TASK_STATE_COMPLETED);
  });

  shows('stream', 'a client that disconnects cancels nothing', async (cannot) => {
    const client = await connect();
    const abort = new AbortController();
    let id;
    await assert.rejects(async () => {
      for await (const { payload } of client.sendMessageStream(send('slow 1'), { signal: abort.signal })) {
        id ??= payload.value.id;
        abort.abort();
      }
    }, binding === 'GRPC' ? { status: 1 } : { name: 'AbortError' });
    if (binding === 'GRPC') cannot('tell its own abort from other errors, but by the status');
    const done = await awaitState(client, id, TASK_STATE_COMPLETED);
    assert.equal(artifactText(done).match(/chunk/g).length, 10);
  });
});
