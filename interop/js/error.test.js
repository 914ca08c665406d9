import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { TaskState } from '@a2a-js/sdk';
import { ServiceParameters, withA2AExtensions } from '@a2a-js/sdk/client';
import {
  A2AError,
  ContentTypeNotSupportedError,
  ExtensionSupportRequiredError,
  PushNotificationNotSupportedError,
  RequestMalformedError,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
  VersionNotSupportedError,
} from '@a2a-js/sdk/errors';

import { assertState, bindings, dial, eachBinding, first, get, immediately, lastState, list, collect, send } from './peer.js';

const { TASK_STATE_CANCELED, TASK_STATE_COMPLETED, TASK_STATE_INPUT_REQUIRED } = TaskState;
const extension = 'https://fixture.handoff.example/extensions/required/v1';
const withPush = (card) => ({ ...card, capabilities: { ...card.capabilities, pushNotifications: true } });
const withExtended = (card) => ({ ...card, capabilities: { ...card.capabilities, extendedAgentCard: true } });

// Over HTTP+JSON this client knows errors by the reason in their ErrorInfo
// alone. The protocol wants that for its own errors only, and says BadRequest
// for invalid input (A2A §11.6).
function isInvalid(binding) {
  return (error) => {
    assert.ok(error instanceof A2AError, String(error));
    if (binding === 'JSONRPC') assert.ok(error instanceof RequestMalformedError, error.name);
    else assert.equal(error.statusCode, 400);
    return true;
  };
}

eachBinding('errors', (binding, connect) => {
  test('of an unknown task', async () => {
    const client = await connect();
    await assert.rejects(get(client, 'nope'), TaskNotFoundError);
    await assert.rejects(client.cancelTask({ tenant: '', id: 'nope', metadata: undefined }), TaskNotFoundError);
    await assert.rejects(client.sendMessage(send('echo x', { taskId: 'nope' })), TaskNotFoundError);
    await assert.rejects(first(client.resubscribeTask({ tenant: '', id: 'nope' })), TaskNotFoundError);
  });

  test('of a finished task', async () => {
    const client = await connect();
    const task = await client.sendMessage(send('echo x'));
    await assert.rejects(client.cancelTask({ tenant: '', id: task.id, metadata: undefined }), TaskNotCancelableError);
    await assert.rejects(client.sendMessage(send('more', { task })), UnsupportedOperationError);
    await assert.rejects(first(client.sendMessageStream(send('more', { task }))), UnsupportedOperationError);
    await assert.rejects(first(client.resubscribeTask({ tenant: '', id: task.id })), UnsupportedOperationError);
    assert.deepEqual(await get(client, task.id), task);
  });

  test('of a context that is not the task\'s', async () => {
    const client = await connect();
    const task = await client.sendMessage(send('ask'));
    await assert.rejects(client.sendMessage(send('x', { task, contextId: 'another' })), isInvalid(binding));
    assertState(await get(client, task.id), TASK_STATE_INPUT_REQUIRED);
  });

  test('of invalid input', async () => {
    const client = await connect();
    await assert.rejects(client.sendMessage(send('x', { messageId: '' })), isInvalid(binding));
    const nothing = send('x');
    nothing.message.parts = [];
    await assert.rejects(client.sendMessage(nothing), isInvalid(binding));
    await assert.rejects(first(client.sendMessageStream(nothing)), isInvalid(binding));
    await assert.rejects(list(client, { pageToken: 'junk' }), isInvalid(binding));
    await assert.rejects(list(client, { pageSize: 0 }), isInvalid(binding));
  });

  // The client names the version of its transport and no other, so that the
  // transport is asked directly.
  test('of an unknown version', async () => {
    const { transport } = await connect();
    const options = { serviceParameters: { 'A2A-Version': '99.0' } };
    await assert.rejects(transport.sendMessage(send('echo x'), options), VersionNotSupportedError);
    await assert.rejects(transport.getTask({ tenant: '', id: 'nope' }, options), VersionNotSupportedError);
  });

  test('of a body that is not JSON', async () => {
    const asText = (url, init) => fetch(url, { ...init, headers: { ...init.headers, 'Content-Type': 'text/plain' } });
    const client = await dial(binding, undefined, undefined, asText);
    await assert.rejects(client.sendMessage(send('echo x')), ContentTypeNotSupportedError);
    await assert.rejects(first(client.sendMessageStream(send('echo x'))), ContentTypeNotSupportedError);
  });

  test('of push notifications', async () => {
    const client = await connect();
    const task = await client.sendMessage(send('ask'));
    const hook = { tenant: '', taskId: task.id, id: '1', url: 'https://hooks.example.com/', token: '', authentication: undefined };
    // The card says so, and the client refuses by itself, all but a deletion.
    assert.throws(() => client.createTaskPushNotificationConfig(hook), PushNotificationNotSupportedError);
    await assert.rejects(client.deleteTaskPushNotificationConfig(hook), PushNotificationNotSupportedError);
    // With a card that says otherwise it asks the server.
    const deceived = await dial(binding, undefined, withPush);
    await assert.rejects(deceived.createTaskPushNotificationConfig(hook), PushNotificationNotSupportedError);
    await assert.rejects(deceived.getTaskPushNotificationConfig(hook), PushNotificationNotSupportedError);
    await assert.rejects(deceived.listTaskPushNotificationConfig({ ...hook, pageToken: '' }), PushNotificationNotSupportedError);
    await assert.rejects(
      client.sendMessage(send('echo x', { configuration: { taskPushNotificationConfig: hook } })),
      PushNotificationNotSupportedError,
    );
  });

  test('of the extended card', async () => {
    const client = await connect();
    assert.equal((await client.getAgentCard()).name, 'Fixture'); // the card it has
    await assert.rejects((await dial(binding, undefined, withExtended)).getAgentCard(), UnsupportedOperationError);
  });
});

for (const binding of bindings) {
  describe(`configurations, ${binding}`, { concurrency: true }, () => {
    test('an agent without streaming', async () => {
      const client = await dial(binding, 'FIXTURE_NO_STREAMING_URL');
      // The client knows it from the card and sends a blocking message.
      const events = await collect(client.sendMessageStream(send('echo x')));
      assert.deepEqual([events.length, lastState(events)], [1, TASK_STATE_COMPLETED]);
      await assert.rejects(first(client.transport.sendMessageStream(send('echo x'), { serviceParameters: { 'A2A-Version': '1.0' } })), UnsupportedOperationError);
      const { id } = await client.sendMessage(send('slow 30', { configuration: immediately }));
      await assert.rejects(first(client.resubscribeTask({ tenant: '', id })), UnsupportedOperationError);
      assertState(await client.cancelTask({ tenant: '', id, metadata: undefined }), TASK_STATE_CANCELED);
    });

    test('an agent with a required extension', async () => {
      const client = await dial(binding, 'FIXTURE_REQUIRED_EXTENSION_URL');
      assert.deepEqual((await client.getAgentCard()).capabilities.extensions.map((e) => [e.uri, e.required]), [[extension, true]]);
      await assert.rejects(client.sendMessage(send('echo x')), ExtensionSupportRequiredError);
      await assert.rejects(first(client.sendMessageStream(send('echo x'))), ExtensionSupportRequiredError);
      const options = { serviceParameters: ServiceParameters.create(withA2AExtensions(extension)) };
      assertState(await client.sendMessage(send('echo x'), options), TASK_STATE_COMPLETED);
    });
  });
}
