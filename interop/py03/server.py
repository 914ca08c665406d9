"""An agent written with a2a-sdk of version 0.3, for clients to talk to.

The words that it understands are those of examples/fixture.

    venv/bin/python server.py --port 9000 --grpc-port 9001 [--store tasks.db]

It prints "ready" when it listens, and ends with its standard input. Its tasks are
in memory, or in a file of SQLite, and then outlive it.
"""

import argparse
import asyncio
import os
import socket
import sys
import threading

import grpc
import httpx
import uvicorn
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    DatabasePushNotificationConfigStore,
    DatabaseTaskStore,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Role,
    TextPart,
)
from a2a.utils import new_task
from sqlalchemy.ext.asyncio import create_async_engine

WORDS = {'echo', 'message', 'ask', 'auth', 'slow', 'burst', 'fail', 'never'}


def text_of(message):
    first = message.parts[0].root if message.parts else None
    return first.text if isinstance(first, TextPart) else ''


def text_part(text):
    return Part(root=TextPart(text=text))


def read(message):
    """Returns the command of a message, its argument, and the parts behind the first one."""
    text = text_of(message)
    command, _, argument = text.partition(' ')
    if command not in WORDS:
        command, argument = 'echo', text
    return command, argument, message.parts[1:]


class Agent(AgentExecutor):
    """Does what the first word of a message says."""

    async def execute(self, context, event_queue):
        message = context.message
        command, argument, rest = read(message)
        if command == 'message' and not context.current_task:
            parts = [text_part(argument), *rest]
            answer = Message(
                message_id='answer-' + message.message_id, context_id=context.context_id, role=Role.agent, parts=parts
            )
            await event_queue.enqueue_event(answer)
            return
        if context.current_task:
            command, argument = 'echo', text_of(message)
        else:
            await event_queue.enqueue_event(new_task(message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        await task.start_work()
        await self.work(task, command, argument, rest)

    async def work(self, task, command, argument, rest):
        def say(text):
            return task.new_agent_message([text_part(text)])

        if command == 'ask':
            await task.requires_input(say('What is it?'), final=True)
        elif command == 'auth':
            await task.requires_auth(say('Who are you?'), final=True)
        elif command == 'fail':
            await task.failed(say('failed on request'))
        elif command == 'never':
            await asyncio.Event().wait()
        elif command == 'slow':
            await self.chunks(task, 10 * int(argument), 0.1)
        elif command == 'burst':
            await self.chunks(task, int(argument), 0)
        else:
            await task.add_artifact([text_part(argument), *rest], last_chunk=True)
            await task.complete()

    async def chunks(self, task, n, interval):
        for i in range(n):
            await asyncio.sleep(interval)
            await task.add_artifact(
                [text_part(f'chunk {i + 1}\n')], artifact_id='chunks', append=i > 0, last_chunk=i == n - 1
            )
        await task.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def card(port, grpc_port):
    base = f'http://127.0.0.1:{port}'
    return AgentCard(
        name='Fixture in a2a-sdk of 0.3',
        description='Does what the first word of a message says.',
        version='1.0.0',
        url=base + '/rpc',
        preferred_transport='JSONRPC',
        additional_interfaces=[
            AgentInterface(url=base + '/rpc', transport='JSONRPC'),
            AgentInterface(url=base + '/rest', transport='HTTP+JSON'),
            AgentInterface(url=f'127.0.0.1:{grpc_port}', transport='GRPC'),
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        supports_authenticated_extended_card=True,
        default_input_modes=['text/plain', 'application/json'],
        default_output_modes=['text/plain', 'application/json'],
        skills=[
            AgentSkill(
                id='fixture', name='Fixture', description='Echoes, asks, waits, streams and fails on request.', tags=['test']
            )
        ],
    )


async def serve(port, grpc_port, store):
    public = card(port, grpc_port)
    partners = AgentSkill(id='partners', name='Partners', description='Is for callers that are known.', tags=['test'])
    extended = public.model_copy(update={'skills': [*public.skills, partners]})
    if store:
        engine = create_async_engine('sqlite+aiosqlite:///' + store, connect_args={'timeout': 60})
        tasks, webhooks = DatabaseTaskStore(engine), DatabasePushNotificationConfigStore(engine)
        await tasks.initialize()
        await webhooks.initialize()
    else:
        tasks, webhooks = InMemoryTaskStore(), InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Agent(),
        task_store=tasks,
        push_config_store=webhooks,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), webhooks),
    )
    app = A2AStarletteApplication(public, handler, extended).build(rpc_url='/rpc')
    app.mount('/rest', A2ARESTFastAPIApplication(public, handler, extended).build())
    over_grpc = grpc.aio.server()
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(public, handler), over_grpc)
    over_grpc.add_insecure_port(f'127.0.0.1:{grpc_port}')
    await over_grpc.start()
    over_http = socket.socket()
    over_http.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    over_http.bind(('127.0.0.1', port))
    over_http.listen(128)
    print('ready', flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level='warning')).serve(sockets=[over_http])


def end_with_input():
    sys.stdin.read()
    os._exit(0)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--port', type=int, required=True)
    parser.add_argument('--grpc-port', type=int, required=True)
    parser.add_argument('--store', default='')
    options = parser.parse_args()
    threading.Thread(target=end_with_input, daemon=True).start()
    asyncio.run(serve(options.port, options.grpc_port, options.store))
