// The official JavaScript client on one binding, and what the tests share. The
// fixture's triggers stand at the top of examples/fixture/handoff.yaml.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Role, TaskState } from '@a2a-js/sdk';
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { A2AError, RequestMalformedError } from '@a2a-js/sdk/errors';

export const bindings = ['JSONRPC', 'HTTP+JSON', 'GRPC'];

/** Writes what a case has shown, one line of the file that RESULTS names. */
function record(binding, operations, name, fields) {
  if (!process.env.RESULTS) return; // one works on the suite by hand
  const line = { sdk: '@a2a-js/sdk', binding, operations, case: name, ...fields };
  appendFileSync(process.env.RESULTS, `${JSON.stringify(line)}\n`);
}

/**
 * Makes a test of some bindings' operations, which are rows of the table in
 * docs/interop.md. The test gets a function that records what the client cannot
 * do, and returns false where the server's card does not offer the operation.
 */
export function shows(binding, operations, name, ...rest) {
  const run = rest.pop();
  test(name, ...rest, async () => {
    let limit;
    let result = 'fail';
    try {
      const offered = await run((what) => { limit = what; });
      result = offered === false ? 'not offered' : 'pass';
    } finally {
      for (const b of [binding].flat()) record(b, operations.split(' '), name, { result, limit });
    }
  });
}

/** The address of the fixture in one of its configurations. */
export function address(variable = 'FIXTURE_URL') {
  const url = process.env[variable];
  assert.ok(url, `${variable} is not set; run make interop`);
  return url;
}

export function resolve(variable) {
  return new DefaultAgentCardResolver().resolve(address(variable));
}

/** Resolves the card at an address and connects over a binding. */
export async function dial(binding, variable, change = (card) => card, fetchImpl = fetch) {
  const factory = new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [
        new JsonRpcTransportFactory({ fetchImpl }),
        new RestTransportFactory({ fetchImpl }),
        new GrpcTransportFactory(),
      ],
      preferredTransports: [binding],
    }),
  );
  const client = await factory.createFromAgentCard(change(await resolve(variable)));
  assert.equal(client.transport.protocolName, binding);
  return client;
}

/**
 * Makes tests with a client of each binding. They get the binding, what connects,
 * and what makes a test that shows operations.
 */
export function eachBinding(name, tests) {
  for (const binding of bindings) {
    describe(`${name}, ${binding}`, { concurrency: true }, () =>
      tests(binding, () => dial(binding), (operations, ...rest) => shows(binding, operations, ...rest)));
  }
}

export const part = (content, rest = {}) => ({ content, metadata: undefined, filename: '', mediaType: '', ...rest });
export const textPart = (value) => part({ $case: 'text', value });
export const dataPart = (value) => part({ $case: 'data', value });
export const rawPart = (value, rest) => part({ $case: 'raw', value }, rest);

/** The request that sends a text, to a task or a new one. */
export function send(text, { task, parts = [], configuration, ...message } = {}) {
  return {
    tenant: '',
    metadata: undefined,
    configuration,
    message: {
      messageId: randomUUID(),
      role: Role.ROLE_USER,
      taskId: task?.id ?? '',
      contextId: task?.contextId ?? '',
      parts: [textPart(text), ...parts],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
      ...message,
    },
  };
}

export const immediately = { returnImmediately: true };

export const get = (client, id, historyLength) => client.getTask({ tenant: '', id, historyLength });

export const list = (client, query) =>
  client.listTasks({
    tenant: '', contextId: '', status: TaskState.TASK_STATE_UNSPECIFIED, pageToken: '',
    statusTimestampAfter: undefined, ...query,
  });

export async function collect(events) {
  const all = [];
  for await (const event of events) all.push(event.payload);
  return all;
}

/** What a stream begins with; an error of it is thrown. */
export async function first(events) {
  for await (const event of events) return event.payload;
  return undefined;
}

export const chunks = (payloads) =>
  payloads.filter((p) => p.$case === 'artifactUpdate').map((p) => p.value.artifact.parts[0].content.value);

export const artifactText = (task) =>
  task.artifacts.flatMap((a) => a.parts.map((p) => p.content?.value ?? '')).join('');

export function lastState(payloads) {
  const last = payloads.at(-1);
  assert.ok(last, 'the stream has no events');
  assert.match(last.$case, /^(statusUpdate|task)$/);
  return last.value.status.state;
}

export function assertState(task, state) {
  assert.equal(TaskState[task.status.state], TaskState[state], `task ${task.id}`);
}

/** Polls a task until it is in a state. */
export async function awaitState(client, id, state) {
  for (let tries = 0; tries < 500; tries++) {
    const task = await get(client, id);
    if (task.status.state === state) return task;
    await sleep(20);
  }
  assert.fail(`task ${id} does not become ${TaskState[state]}`);
}

// Over HTTP+JSON and gRPC this client knows errors by the reason in their
// ErrorInfo alone. The protocol wants that for its own errors only, and says BadRequest
// for invalid input (A2A §11.6).
export function isInvalid(binding, cannot) {
  if (binding !== 'JSONRPC') cannot('tell invalid input from other errors, but by the status');
  return (error) => {
    assert.ok(error instanceof A2AError, String(error));
    if (binding === 'JSONRPC') assert.ok(error instanceof RequestMalformedError, error.name);
    else if (binding === 'GRPC') assert.equal(error.status, 3); // INVALID_ARGUMENT
    else assert.equal(error.statusCode, 400);
    return true;
  };
}
