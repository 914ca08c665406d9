"""The official Python client on one binding, and what the tests share.

The fixture's triggers stand at the top of examples/fixture/handoff.yaml.
"""

import asyncio
import functools
import json
import os
import sys
import unittest
import uuid

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)

JSONRPC, REST, GRPC = BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


def address(variable="FIXTURE_URL"):
    """The address of the fixture in one of its configurations."""
    url = os.environ.get(variable)
    if not url:
        raise AssertionError(f"{variable} is not set; run make interop")
    return url


def record(**result):
    """Writes what a case has shown, one line of the file that RESULTS names."""
    path = os.environ.get("RESULTS")
    if path:  # otherwise one works on the suite by hand
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"sdk": "a2a-sdk"} | result) + "\n")


def shows(*operations):
    """Says which rows of the table in docs/interop.md a test is about.

    The test returns False where the server's card does not offer them, and
    calls self.cannot with what the client cannot do.
    """

    def wrap(test):
        @functools.wraps(test)
        async def run(self):
            result = "fail"
            try:
                result = "not offered" if await test(self) is False else "pass"
            finally:
                for binding in [self.binding] if self.binding else BINDINGS:
                    record(binding=binding, operations=operations, case=self.id(), result=result, limit=self.limit)

        return run

    return wrap


def each_binding(tests):
    """Makes a test case of each binding of a class of tests."""
    module = sys.modules[tests.__module__]
    for binding in BINDINGS:
        name = tests.__name__ + "_" + binding.replace("+", "").replace("-", "")
        members = {"binding": binding, "__module__": tests.__module__, "__qualname__": name}
        setattr(module, name, type(name, (tests, Peer), members))
    return tests


def card_of(httpx_client, variable="FIXTURE_URL"):
    return A2ACardResolver(httpx_client, address(variable)).get_agent_card()


class Peer(unittest.IsolatedAsyncioTestCase):
    """A test case with a client that streams, and one that does not."""

    binding = None
    limit = ""

    async def asyncSetUp(self):
        self.http = httpx.AsyncClient(timeout=60)
        self.addAsyncCleanup(self.http.aclose)
        self.card = await card_of(self.http)
        if self.binding:
            self.client, self.streaming = await self.dial(self.card), await self.dial(self.card, streaming=True)

    def cannot(self, what):
        """Records what this client cannot do, which the test has shown."""
        self.limit = what

    async def dial(self, card, streaming=False):
        config = ClientConfig(
            streaming=streaming,
            httpx_client=self.http,
            grpc_channel_factory=lambda url: grpc.aio.insecure_channel(
                url, options=[("grpc.max_receive_message_length", 64 << 20)]
            ),
            supported_protocol_bindings=[self.binding],
        )
        client = ClientFactory(config).create(card)
        if self.binding == GRPC:
            self.addAsyncCleanup(client.close)
        return client

    async def dial_other(self, variable, streaming=False, capabilities=()):
        """Connects to another configuration, whose card may be made to say more."""
        card = AgentCard()
        card.CopyFrom(await card_of(self.http, variable))
        for name in capabilities:
            setattr(card.capabilities, name, True)
        return await self.dial(card, streaming=streaming)

    async def answer(self, request, client=None, context=None):
        """Sends a message and returns the task or the message that answers."""
        async for response in (client or self.client).send_message(request, context=context):
            return getattr(response, response.WhichOneof("payload"))

    async def send(self, text, **rest):
        return await self.answer(request(text, **rest))

    async def stream(self, text, **rest):
        return [event async for event in self.streaming.send_message(request(text, **rest))]

    async def get(self, task, **rest):
        return await self.client.get_task(GetTaskRequest(id=task.id, **rest))

    async def cancel(self, task):
        return await self.client.cancel_task(CancelTaskRequest(id=task.id))

    async def list(self, **query):
        return await self.client.list_tasks(ListTasksRequest(**query))

    def subscribe(self, task):
        return self.streaming.subscribe(SubscribeToTaskRequest(id=task.id))

    async def await_state(self, task, state):
        """Polls a task until it is in a state."""
        async with asyncio.timeout(20):
            while (now := await self.get(task)).status.state != state:
                await asyncio.sleep(0.02)
        return now

    def assertState(self, task, state):
        self.assertIsInstance(task, Task)
        self.assertEqual(TaskState.Name(task.status.state), TaskState.Name(state))


def request(text, *, task=None, parts=(), configuration=None, **message):
    """The request that sends a text, to a task or a new one."""
    if task is not None:
        message = {"task_id": task.id, "context_id": task.context_id} | message
    fields = {"message_id": str(uuid.uuid4()), "role": Role.ROLE_USER, "parts": [Part(text=text), *parts]}
    return SendMessageRequest(message=Message(**fields | message), configuration=configuration)


def kinds(events):
    return [event.WhichOneof("payload") for event in events]


def chunks(events):
    """The texts of all artifact updates."""
    return [e.artifact_update.artifact.parts[0].text for e in events if e.HasField("artifact_update")]


def artifact_text(task):
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def state_of(event: StreamResponse):
    """The state that an event is about, or None."""
    kind = event.WhichOneof("payload")
    return getattr(event, kind).status.state if kind in ("task", "status_update") else None


def task_of(event: StreamResponse):
    """The id of the task that an event belongs to."""
    kind = event.WhichOneof("payload")
    return event.task.id if kind == "task" else getattr(event, kind).task_id
