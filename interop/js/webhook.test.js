import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { describe } from 'node:test';

import { StreamResponse, TaskState } from '@a2a-js/sdk';
import { PushNotificationNotSupportedError, TaskNotFoundError } from '@a2a-js/sdk/errors';

import { bindings, chunks, dial, eachBinding, immediately, isInvalid, send, shows } from './peer.js';

const offersWebhooks = (card) => ({ ...card, capabilities: { ...card.capabilities, pushNotifications: true } });

/** A receiver of webhooks: its address, and what it has received so far. */
async function receive() {
  const deliveries = [];
  let wake = () => {};
  const server = createServer(async (request, response) => {
    const body = await new Response(request).text();
    deliveries.push({ headers: request.headers, payload: StreamResponse.fromJSON(JSON.parse(body)).payload });
    response.end();
    wake();
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const until = async (state) => {
    const is = ({ payload: { $case, value } }) => /^(statusUpdate|task)$/.test($case) && value.status.state === state;
    const late = AbortSignal.timeout(20_000);
    late.addEventListener('abort', () => wake());
    while (!deliveries.some(is)) {
      assert.ok(!late.aborted, `after ${deliveries.length} deliveries there is none that says ${TaskState[state]}`);
      await new Promise((resolve) => { wake = resolve; });
    }
    return deliveries;
  };
  const close = () => { server.closeAllConnections(); server.close(); };
  return { url: `http://127.0.0.1:${server.address().port}/hook?of=test`, until, close };
}

const idOf = ({ $case, value }) => ($case === 'task' ? value.id : value.taskId);
const hookOf = (task, rest) => ({ tenant: '', taskId: task.id, id: '', url: '', token: '', authentication: undefined, ...rest });
const listing = (task) => ({ tenant: '', taskId: task.id, pageSize: 0, pageToken: '' });

async function offered(client) {
  return (await client.getAgentCard()).capabilities.pushNotifications;
}

eachBinding('webhooks', (binding, connect, shows) => {
  shows('webhook', 'a webhook of a send receives all events in order', async () => {
    const client = await connect();
    if (!(await offered(client))) return false;
    const receiver = await receive();
    try {
      const authentication = { scheme: 'Bearer', credentials: 's3cret' };
      const taskPushNotificationConfig = hookOf({ id: '' }, { url: receiver.url, token: 'a token', authentication });
      const task = await client.sendMessage(send('burst 20', { configuration: { ...immediately, taskPushNotificationConfig } }));
      const got = await receiver.until(TaskState.TASK_STATE_COMPLETED);
      for (const { headers, payload } of got) {
        assert.equal(idOf(payload), task.id);
        assert.equal(headers.authorization, 'Bearer s3cret');
        assert.equal(headers['x-a2a-notification-token'], 'a token');
        assert.equal(headers['content-type'], 'application/a2a+json');
      }
      assert.deepEqual(chunks(got.map((d) => d.payload)), Array.from({ length: 20 }, (_, i) => `${i + 1} `));
    } finally {
      receiver.close();
    }
    return true;
  });

  shows('push-create push-get push-list push-delete webhook', 'webhooks of a task are made, read, listed and deleted', async () => {
    const client = await connect();
    if (!(await offered(client))) return false;
    const receiver = await receive();
    try {
      const task = await client.sendMessage(send('ask'));
      const made = await client.createTaskPushNotificationConfig(hookOf(task, { id: 'one', url: receiver.url }));
      assert.deepEqual([made.taskId, made.id, made.url], [task.id, 'one', receiver.url]);
      assert.deepEqual(await client.getTaskPushNotificationConfig(hookOf(task, { id: 'one' })), made);
      const second = await client.createTaskPushNotificationConfig(hookOf(task, { url: `${receiver.url}&second` }));
      assert.ok(second.id);
      assert.equal((await client.listTaskPushNotificationConfig(listing(task))).configs.length, 2);
      for (let i = 0; i < 2; i++) await client.deleteTaskPushNotificationConfig(hookOf(task, { id: second.id })); // A2A §3.1.10
      assert.deepEqual((await client.listTaskPushNotificationConfig(listing(task))).configs, [made]);
      await assert.rejects(client.getTaskPushNotificationConfig(hookOf(task, { id: second.id })), TaskNotFoundError);

      await client.sendMessage(send('EXW', { task }));
      for (const { payload } of await receiver.until(TaskState.TASK_STATE_COMPLETED)) assert.equal(idOf(payload), task.id);
    } finally {
      receiver.close();
    }
    return true;
  });

  shows('errors', 'an address to which nobody may send is refused', async (cannot) => {
    const client = await connect();
    if (!(await offered(client))) return false;
    const task = await client.sendMessage(send('ask'));
    for (const url of ['http://169.254.169.254/latest', 'ftp://127.0.0.1/', 'http://user:secret@127.0.0.1/']) {
      await assert.rejects(client.createTaskPushNotificationConfig(hookOf(task, { url })), isInvalid(binding, cannot));
    }
    return true;
  });
});

for (const binding of bindings) {
  describe(`an agent without webhooks, ${binding}`, { concurrency: true }, () => {
    shows(binding, 'errors', 'refuses every operation on them', async () => {
      const client = await dial(binding, 'FIXTURE_NO_STREAMING_URL');
      const task = await client.sendMessage(send('ask'));
      const hook = hookOf(task, { id: '1', url: 'https://hooks.example.com/' });
      // The card says so, and the client refuses by itself, all but a deletion.
      assert.throws(() => client.createTaskPushNotificationConfig(hook), PushNotificationNotSupportedError);
      await assert.rejects(client.deleteTaskPushNotificationConfig(hook), PushNotificationNotSupportedError);
      // With a card that says otherwise it asks the server.
      const deceived = await dial(binding, 'FIXTURE_NO_STREAMING_URL', offersWebhooks);
      await assert.rejects(deceived.createTaskPushNotificationConfig(hook), PushNotificationNotSupportedError);
      await assert.rejects(deceived.getTaskPushNotificationConfig(hook), PushNotificationNotSupportedError);
      await assert.rejects(deceived.listTaskPushNotificationConfig(listing(task)), PushNotificationNotSupportedError);
      await assert.rejects(
        deceived.sendMessage(send('echo x', { configuration: { taskPushNotificationConfig: hook } })),
        PushNotificationNotSupportedError,
      );
    });
  });
}
