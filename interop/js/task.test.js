import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe } from 'node:test';

import { Role, TaskState } from '@a2a-js/sdk';

import { artifactText, assertState, awaitState, bindings, dataPart, dial, eachBinding, get, immediately, list, resolve, send, shows } from './peer.js';

const { TASK_STATE_AUTH_REQUIRED, TASK_STATE_CANCELED, TASK_STATE_COMPLETED, TASK_STATE_FAILED, TASK_STATE_INPUT_REQUIRED, TASK_STATE_REJECTED, TASK_STATE_SUBMITTED, TASK_STATE_WORKING } = TaskState;

shows(bindings, 'card', 'the card is resolved from the address of the agent', async () => {
  const card = await resolve();
  assert.equal(card.name, 'Fixture');
  assert.deepEqual(card.skills.map((s) => s.id), ['fixture']);
  assert.deepEqual(card.supportedInterfaces.map((i) => [i.protocolBinding, i.protocolVersion]), bindings.map((b) => [b, '1.0']));
  assert.equal(card.capabilities.streaming, true);
});

eachBinding('tasks', (binding, connect, shows) => {
  shows('send', 'a blocking send returns the finished task', async () => {
    const task = await (await connect()).sendMessage(send('echo hello'));
    assertState(task, TASK_STATE_COMPLETED);
    assert.equal(artifactText(task), 'hello');
    assert.ok(task.id && task.contextId && task.status.timestamp);
  });

  shows('immediate get', 'an immediate send returns a task under way', async () => {
    const client = await connect();
    const task = await client.sendMessage(send('slow 1', { configuration: immediately }));
    assert.ok([TASK_STATE_SUBMITTED, TASK_STATE_WORKING].includes(task.status.state));
    const done = await awaitState(client, task.id, TASK_STATE_COMPLETED);
    assert.equal(artifactText(done).match(/chunk/g).length, 10);
  });

  shows('message', 'a message-only answer makes no task', async () => {
    const contextId = `c-${randomUUID()}`;
    const message = await (await connect()).sendMessage(send('message hi', { contextId }));
    assert.equal(message.role, Role.ROLE_AGENT);
    assert.equal(message.contextId, contextId);
    assert.equal(message.taskId, '');
    assert.equal(message.parts[0].content.value, 'hi');
  });

  shows('answer', 'a follow-up keeps task and context', async () => {
    const client = await connect();
    const task = await client.sendMessage(send('ask'));
    assertState(task, TASK_STATE_INPUT_REQUIRED);
    assert.equal(task.status.message.taskId, task.id);
    assert.equal(task.status.message.contextId, task.contextId);
    const done = await client.sendMessage(send('EXW', { task }));
    assertState(done, TASK_STATE_COMPLETED);
    assert.deepEqual([done.id, done.contextId], [task.id, task.contextId]);
    assert.equal(artifactText(done), 'EXW');
  });

  shows('answer', 'an authorization is waited for, and a message goes on', async () => {
    const client = await connect();
    const task = await client.sendMessage(send('auth'));
    assertState(task, TASK_STATE_AUTH_REQUIRED);
    assertState(await client.sendMessage(send('on', { task })), TASK_STATE_COMPLETED);
  });

  for (const [trigger, state] of [['fail', TASK_STATE_FAILED], ['latefail', TASK_STATE_FAILED], ['reject', TASK_STATE_REJECTED]]) {
    shows('send get', `${trigger} says why`, async () => {
      const client = await connect();
      const task = await client.sendMessage(send(trigger));
      assertState(task, state);
      assert.ok(task.status.message.parts[0].content.value);
      assertState(await get(client, task.id), state);
    });
  }

  shows('get', 'historyLength counts from the end', async () => {
    const client = await connect();
    const task = await client.sendMessage(send('ask'));
    await client.sendMessage(send('answer', { task }));
    const all = (await get(client, task.id)).history;
    assert.equal(all.length, 3); // the message, the question, the answer
    assert.deepEqual((await get(client, task.id, 0)).history, []);
    assert.deepEqual((await get(client, task.id, 2)).history, all.slice(1));
    assert.equal((await get(client, task.id, 99)).history.length, 3);
  });

  shows('list', 'tasks are listed newest first, by pages and filters', async () => {
    const client = await connect();
    const contextId = randomUUID();
    const want = [];
    for (let i = 0; i < 5; i++) want.unshift((await client.sendMessage(send(`echo ${i}`, { contextId }))).id);
    const asked = await client.sendMessage(send('ask', { contextId }));
    want.unshift(asked.id);

    const have = [];
    let pages = 0;
    for (let pageToken = ''; ; pages++) {
      const page = await list(client, { contextId, pageSize: 4, pageToken });
      assert.deepEqual([page.totalSize, page.pageSize], [6, 4]);
      have.push(...page.tasks.map((t) => t.id));
      for (const t of page.tasks) assert.deepEqual(t.artifacts, []);
      if (!(pageToken = page.nextPageToken)) break;
    }
    assert.deepEqual(have, want);
    assert.equal(pages + 1, 2);

    const waiting = await list(client, { contextId, status: TASK_STATE_INPUT_REQUIRED });
    assert.deepEqual(waiting.tasks.map((t) => t.id), [asked.id]);
    const withArtifacts = await list(client, { contextId, pageSize: 2, includeArtifacts: true });
    assert.equal(artifactText(withArtifacts.tasks[1]), '4');
    const future = await list(client, { contextId, statusTimestampAfter: new Date(Date.now() + 3_600_000).toISOString() });
    assert.deepEqual([future.tasks, future.totalSize], [[], 0]);
  });

  shows('cancel', 'a cancel stops a running and a parked task, twice', async () => {
    const client = await connect();
    const running = await client.sendMessage(send('slow 30', { configuration: immediately }));
    const parked = await client.sendMessage(send('ask'));
    for (const { id } of [running, running, parked]) {
      assertState(await client.cancelTask({ tenant: '', id, metadata: undefined }), TASK_STATE_CANCELED);
      assertState(await get(client, id), TASK_STATE_CANCELED);
    }
  });

  shows('cancel', 'a cancel of a stubborn agent stands', async () => {
    const client = await connect();
    const task = await client.sendMessage(send('stubborn', { configuration: immediately }));
    assertState(await client.cancelTask({ tenant: '', id: task.id, metadata: undefined }), TASK_STATE_CANCELED);
    // The agent goes on for 3 s and then tries to complete. A task that is
    // started after it and takes longer shows that this time is over.
    assertState(await client.sendMessage(send('slow 4')), TASK_STATE_COMPLETED);
    const after = await get(client, task.id);
    assertState(after, TASK_STATE_CANCELED);
    assert.deepEqual(after.artifacts, []);
  });
});

describe('all bindings', { concurrency: true }, () => {
  for (const trigger of ['echo x', 'ask', 'burst 20', 'latefail', 'reject', 'auth']) {
    shows(bindings, 'send get list', `show the same task of ${trigger}`, async () => {
      const clients = await Promise.all(bindings.map((b) => dial(b)));
      const metadata = { k: null, x: { y: 1 } };
      const task = await clients[0].sendMessage(send(trigger, { parts: [dataPart({ a: [null, 1] })], metadata }));
      assert.deepEqual(task.history[0].metadata, metadata);
      for (const client of clients) {
        assert.deepEqual(await get(client, task.id), task);
        const page = await list(client, { contextId: task.contextId, includeArtifacts: true });
        assert.deepEqual([page.totalSize, page.tasks], [1, [task]]);
      }
    });
  }
});
