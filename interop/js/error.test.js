import assert from 'node:assert/strict';
import { describe } from 'node:test';

import { TaskState } from '@a2a-js/sdk';
import { ServiceParameters, withA2AExtensions } from '@a2a-js/sdk/client';
import {
  ContentTypeNotSupportedError,
  ExtensionSupportRequiredError,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
  VersionNotSupportedError,
} from '@a2a-js/sdk/errors';

import { assertState, bindings, dial, eachBinding, first, get, immediately, isInvalid, lastState, list, collect, send, shows } from './peer.js';

const { TASK_STATE_CANCELED, TASK_STATE_COMPLETED, TASK_STATE_INPUT_REQUIRED } = TaskState;
const extension = 'https://fixture.handoff.example/extensions/required/v1';

eachBinding('errors', (binding, connect, shows) => {
  shows('errors', 'of an unknown task', async () => {
    const client = await connect();
    await assert.rejects(get(client, 'nope'), TaskNotFoundError);
    await assert.rejects(client.cancelTask({ tenant: '', id: 'nope', metadata: undefined }), TaskNotFoundError);
    await assert.rejects(client.sendMessage(send('echo x', { taskId: 'nope' })), TaskNotFoundError);
    await assert.rejects(first(client.resubscribeTask({ tenant: '', id: 'nope' })), TaskNotFoundError);
  });

  shows('errors', 'of a finished task', async () => {
    const client = await connect();
    const task = await client.sendMessage(send('echo x'));
    await assert.rejects(client.cancelTask({ tenant: '', id: task.id, metadata: undefined }), TaskNotCancelableError);
    await assert.rejects(client.sendMessage(send('more', { task })), UnsupportedOperationError);
    await assert.rejects(first(client.sendMessageStream(send('more', { task }))), UnsupportedOperationError);
    await assert.rejects(first(client.resubscribeTask({ tenant: '', id: task.id })), UnsupportedOperationError);
    assert.deepEqual(await get(client, task.id), task);
  });

  shows('errors', 'of a context that is not the task\'s', async (cannot) => {
    const client = await connect();
    const task = await client.sendMessage(send('ask'));
    await assert.rejects(client.sendMessage(send('x', { task, contextId: 'another' })), isInvalid(binding, cannot));
    assertState(await get(client, task.id), TASK_STATE_INPUT_REQUIRED);
  });

  shows('errors', 'of invalid input', async (cannot) => {
    const client = await connect();
    await assert.rejects(client.sendMessage(send('x', { messageId: '' })), isInvalid(binding, cannot));
    const nothing = send('x');
    nothing.message.parts = [];
    await assert.rejects(client.sendMessage(nothing), isInvalid(binding, cannot));
    await assert.rejects(first(client.sendMessageStream(nothing)), isInvalid(binding, cannot));
    await assert.rejects(list(client, { pageToken: 'junk' }), isInvalid(binding, cannot));
    await assert.rejects(list(client, { pageSize: -1 }), isInvalid(binding, cannot));
    // Over gRPC a size of 0 is none, since a2a-go sends it always.
    if (binding !== 'GRPC') await assert.rejects(list(client, { pageSize: 0 }), isInvalid(binding, cannot));
  });

  // The client names the version of its transport and no other, so that the
  // transport is asked directly.
  shows('errors', 'of an unknown version', async () => {
    const { transport } = await connect();
    const options = { serviceParameters: { 'A2A-Version': '99.0' } };
    await assert.rejects(transport.sendMessage(send('echo x'), options), VersionNotSupportedError);
    await assert.rejects(transport.getTask({ tenant: '', id: 'nope' }, options), VersionNotSupportedError);
  });

  if (binding !== 'GRPC') shows('errors', 'of a body that is not JSON', async () => {
    const asText = (url, init) => fetch(url, { ...init, headers: { ...init.headers, 'Content-Type': 'text/plain' } });
    const client = await dial(binding, undefined, undefined, asText);
    await assert.rejects(client.sendMessage(send('echo x')), ContentTypeNotSupportedError);
    await assert.rejects(first(client.sendMessageStream(send('echo x'))), ContentTypeNotSupportedError);
  });
});

for (const binding of bindings) {
  describe(`configurations, ${binding}`, { concurrency: true }, () => {
    shows(binding, 'errors', 'an agent without streaming', async () => {
      const client = await dial(binding, 'FIXTURE_NO_STREAMING_URL');
      // The client knows it from the card and sends a blocking message.
      const events = await collect(client.sendMessageStream(send('echo x')));
      assert.deepEqual([events.length, lastState(events)], [1, TASK_STATE_COMPLETED]);
      await assert.rejects(first(client.transport.sendMessageStream(send('echo x'), { serviceParameters: { 'A2A-Version': '1.0' } })), UnsupportedOperationError);
      const { id } = await client.sendMessage(send('slow 30', { configuration: immediately }));
      await assert.rejects(first(client.resubscribeTask({ tenant: '', id })), UnsupportedOperationError);
      assertState(await client.cancelTask({ tenant: '', id, metadata: undefined }), TASK_STATE_CANCELED);
    });

    shows(binding, 'errors', 'an agent with a required extension', async () => {
      const client = await dial(binding, 'FIXTURE_REQUIRED_EXTENSION_URL');
      const { extensions } = (await client.getAgentCard()).capabilities;
      assert.deepEqual(extensions.filter((e) => e.required).map((e) => e.uri), [extension]);
      await assert.rejects(client.sendMessage(send('echo x')), ExtensionSupportRequiredError);
      await assert.rejects(first(client.sendMessageStream(send('echo x'))), ExtensionSupportRequiredError);
      const options = { serviceParameters: ServiceParameters.create(withA2AExtensions(extension)) };
      assertState(await client.sendMessage(send('echo x'), options), TASK_STATE_COMPLETED);
    });
  });
}
