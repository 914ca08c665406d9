"""An agent written with a2a-sdk, for clients to talk to.

The words that it understands are those of examples/fixture.

    build/venv/bin/python server.py --port 9000 --grpc-port 9001 [--store tasks.db]

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
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    DatabasePushNotificationConfigStore,
    DatabaseTaskStore,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import a2a_pb2_grpc
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Role,
)
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette

WORDS = {'echo', 'message', 'ask', 'auth', 'slow', 'burst', 'fail', 'never'}


def read(message):
    """Returns the command of a message, its argument, and the parts behind the first one."""
    text = message.parts[0].text if message.parts else ''
    command, _, argument = text.partition(' ')
    if command not in WORDS:
        command, argument = 'echo', text
    return command, argument, list(message.parts[1:])


class Agent(AgentExecutor):
    """Does what the first word of a message says."""

    async def execute(self, context, event_queue):
        message = context.message
        command, argument, rest = read(message)
        if command == 'message' and not context.current_task:
            parts = [new_text_part(argument), *rest]
            answer = Message(
                message_id='answer-' + message.message_id, context_id=context.context_id, role=Role.ROLE_AGENT, parts=parts
            )
            await event_queue.enqueue_event(answer)
            return
        if context.current_task:
            command, argument = 'echo', message.parts[0].text if message.parts else ''
        else:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        await task.start_work()
        await self.work(task, command, argument, rest)

    async def work(self, task, command, argument, rest):
        def say(text):
            return task.new_agent_message([new_text_part(text)])

        if command == 'ask':
            await task.requires_input(say('What is it?'))
        elif command == 'auth':
            await task.requires_auth(say('Who are you?'))
        elif command == 'fail':
            await task.failed(say('failed on request'))
        elif command == 'never':
            await asyncio.Event().wait()
        elif command == 'slow':
            await self.chunks(task, 10 * int(argument), 0.1)
        elif command == 'burst':
            await self.chunks(task, int(argument), 0)
        else:
            await task.add_artifact([new_text_part(argument), *rest], last_chunk=True)
            await task.complete()

    async def chunks(self, task, n, interval):
        for i in range(n):
            await asyncio.sleep(interval)
            await task.add_artifact(
                [new_text_part(f'chunk {i + 1}\n')], artifact_id='chunks', append=i > 0, last_chunk=i == n - 1
            )
        await task.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def card(port, grpc_port):
    base = f'http://127.0.0.1:{port}'
    return AgentCard(
        name='Fixture in a2a-sdk',
        description='Does what the first word of a message says.',
        version='1.0.0',
        supported_interfaces=[
            AgentInterface(url=base + '/rpc', protocol_binding='JSONRPC', protocol_version='1.0'),
            AgentInterface(url=base + '/rest', protocol_binding='HTTP+JSON', protocol_version='1.0'),
            AgentInterface(url=f'127.0.0.1:{grpc_port}', protocol_binding='GRPC', protocol_version='1.0'),
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
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
    extended = AgentCard()
    extended.CopyFrom(public)
    extended.skills.append(
        AgentSkill(id='partners', name='Partners', description='Is for callers that are known.', tags=['test'])
    )
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
        agent_card=public,
        push_config_store=webhooks,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), webhooks),
        extended_agent_card=extended,
    )
    app = Starlette(
        routes=[
            *create_agent_card_routes(public),
            *create_jsonrpc_routes(handler, '/rpc'),
            *create_rest_routes(handler, path_prefix='/rest'),
        ]
    )
    over_grpc = grpc.aio.server()
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), over_grpc)
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
