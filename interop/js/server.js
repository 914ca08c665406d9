// An agent written with @a2a-js/sdk, for clients to talk to: the words that it
// understands are those of examples/fixture.
//
//     node server.js --port 9000 --grpc-port 9001
//
// It prints "ready" when it listens, and ends with its standard input. Its tasks
// are in memory: the SDK's other stores need a database server or a native module.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { AgentCard, Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from '@a2a-js/sdk';
import {
  AgentEvent,
  DefaultExecutionEventBusManager,
  DefaultPushNotificationSender,
  DefaultRequestHandler,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import express from 'express';

const words = ['echo', 'message', 'ask', 'auth', 'slow', 'burst', 'fail', 'never'];

/** Reads the command of a message, its argument, and the parts behind the first one. */
function read(message) {
  const parts = Message.toJSON(message).parts ?? [];
  const text = parts[0]?.text ?? '';
  const [, command, argument] = /^(\w+) ?(.*)$/s.exec(text) ?? [];
  const known = words.includes(command);
  return { command: known ? command : 'echo', argument: known ? argument : text, text, rest: parts.slice(1) };
}

/** Does what the first word of a message says. */
class Agent {
  #stops = new Map(); // what ends a task that runs

  async execute(turn, bus) {
    const { taskId, contextId, userMessage, task } = turn;
    const ids = { taskId, contextId };
    let { command, argument, text, rest } = read(userMessage);
    const say = (content, id = {}) => ({ messageId: randomUUID(), role: 'ROLE_AGENT', parts: content, ...id });
    if (command === 'message' && !task) {
      bus.publish(AgentEvent.message(Message.fromJSON(say([{ text: argument }, ...rest], { contextId }))));
      bus.finished();
      return;
    }
    if (task) {
      [command, argument] = ['echo', text];
      bus.publish(AgentEvent.task(task));
    } else {
      const submitted = Task.fromJSON({ id: taskId, contextId, status: { state: 'TASK_STATE_SUBMITTED', timestamp: now() } });
      bus.publish(AgentEvent.task({ ...submitted, history: [userMessage] }));
    }
    const status = (state, said) => bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({
      ...ids, status: { state: `TASK_STATE_${state}`, timestamp: now(), message: said && say([{ text: said }], ids) },
    })));
    const artifact = (artifactId, parts, append, lastChunk) => bus.publish(AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON({
      ...ids, artifact: { artifactId, parts }, append, lastChunk,
    })));
    const stop = new AbortController();
    this.#stops.set(taskId, stop);
    const chunks = async (n, interval) => {
      const id = randomUUID();
      for (let i = 0; i < n; i++) {
        if (interval) await sleep(interval, null, { signal: stop.signal });
        artifact(id, [{ text: `chunk ${i + 1}\n` }], i > 0, i === n - 1);
      }
      status('COMPLETED');
    };
    try {
      status('WORKING');
      switch (command) {
        case 'ask': status('INPUT_REQUIRED', 'What is it?'); break;
        case 'auth': status('AUTH_REQUIRED', 'Who are you?'); break;
        case 'fail': status('FAILED', 'failed on request'); break;
        case 'slow': await chunks(10 * Number(argument), 100); break;
        case 'burst': await chunks(Number(argument), 0); break;
        case 'never': await sleep(2 ** 31 - 1, null, { signal: stop.signal }); break;
        default:
          artifact(randomUUID(), [{ text: argument }, ...rest], false, true);
          status('COMPLETED');
      }
    } catch (e) {
      if (!stop.signal.aborted) throw e;
      status('CANCELED');
    } finally {
      this.#stops.delete(taskId);
    }
  }

  async cancelTask(taskId, bus, contextId = '') {
    const stop = this.#stops.get(taskId);
    if (stop) return stop.abort();
    bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({
      taskId, contextId, status: { state: 'TASK_STATE_CANCELED', timestamp: now() },
    })));
  }
}

const now = () => new Date().toISOString();

const { values } = parseArgs({ options: { port: { type: 'string' }, 'grpc-port': { type: 'string' } } });
const base = `http://127.0.0.1:${values.port}`;
const iface = (url, protocolBinding) => ({ url, protocolBinding, protocolVersion: '1.0' });
const description = {
  name: 'Fixture in @a2a-js/sdk',
  description: 'Does what the first word of a message says.',
  version: '1.0.0',
  supportedInterfaces: [
    iface(`${base}/rpc`, 'JSONRPC'), iface(`${base}/rest`, 'HTTP+JSON'), iface(`127.0.0.1:${values['grpc-port']}`, 'GRPC'),
  ],
  capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
  defaultInputModes: ['text/plain', 'application/json'],
  defaultOutputModes: ['text/plain', 'application/json'],
  skills: [{ id: 'fixture', name: 'Fixture', description: 'Echoes, asks, waits, streams and fails on request.', tags: ['test'] }],
};
const card = AgentCard.fromJSON(description);
const extended = AgentCard.fromJSON({
  ...description,
  skills: [...description.skills, { id: 'partners', name: 'Partners', description: 'Is for callers that are known.', tags: ['test'] }],
});
// The handler shows the extended card to callers that are known only.
const userBuilder = async (request) => {
  const authorization = request.headers?.authorization ?? request.metadata?.get('authorization')[0];
  return authorization === 'Bearer partner' ? { isAuthenticated: true, userName: 'partner' } : UserBuilder.noAuthentication();
};
const webhooks = new InMemoryPushNotificationStore();
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Agent(),
  new DefaultExecutionEventBusManager(), webhooks, new DefaultPushNotificationSender(webhooks), extended);
const app = express();
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/rpc', jsonRpcHandler({ requestHandler, userBuilder }));
app.use('/rest', restHandler({ requestHandler, userBuilder }));
const server = new Server();
server.addService(A2AService, grpcService({ requestHandler, userBuilder }));
await new Promise((done, failed) => server.bindAsync(`127.0.0.1:${values['grpc-port']}`, ServerCredentials.createInsecure(), (e) => (e ? failed(e) : done())));
await new Promise((done, failed) => app.listen(Number(values.port), '127.0.0.1', (e) => (e ? failed(e) : done())));
console.log('ready');
process.stdin.on('end', () => process.exit(0)).resume();
