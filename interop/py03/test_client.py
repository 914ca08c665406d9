"""What the official client of version 0.3 sees of this server, over JSON-RPC, HTTP+JSON and gRPC."""

import asyncio
import base64
import functools
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request
import uuid

import grpc
import httpx

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationAuthenticationInfo,
    PushNotificationConfig,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskState,
    TaskStatusUpdateEvent,
    TextPart,
    TransportProtocol,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
server = None


def setUpModule():
    """Starts a server with the agent of the fixture, which speaks 0.3 as well."""
    global server, directory, address
    directory = tempfile.TemporaryDirectory()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    text = (ROOT / "examples/fixture/handoff.yaml").read_text()
    text = re.sub(r"versions: \[.*\]", 'versions: ["1.0", "0.3"]', text)
    text = text.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    text = "secret_key: " + base64.b64encode(os.urandom(32)).decode() + "\n" + text
    config = pathlib.Path(directory.name, "handoff.yaml")
    config.write_text(text)
    server = subprocess.Popen(
        [ROOT / "bin/handoff", "serve", "-c", config], cwd=directory.name, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    address = f"http://127.0.0.1:{port}/agents/fixture/"
    for _ in range(200):
        if server.poll() is not None:
            raise RuntimeError(server.stderr.read().decode())
        try:
            urllib.request.urlopen(address + ".well-known/agent-card.json", timeout=5).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the server does not answer")


def tearDownModule():
    server.terminate()
    server.wait(20)
    server.stderr.close()
    directory.cleanup()


def shows(*operations):
    """Says which rows of the table in docs/interop.md a test is about.

    The test returns False where the server's card does not offer them.
    """

    def wrap(test):
        @functools.wraps(test)
        async def run(self):
            result = "fail"
            try:
                result = "not offered" if await test(self) is False else "pass"
            finally:
                path = os.environ.get("RESULTS")
                if path:  # otherwise one works on the suite by hand
                    case = {"sdk": "a2a-sdk of 0.3", "binding": self.transport.value, "operations": operations, "case": self.id(), "result": result, "limit": ""}
                    with open(path, "a", encoding="utf-8") as file:
                        file.write(json.dumps(case) + "\n")

        return run

    return wrap


def message(text, *parts, task=None):
    return Message(
        message_id=str(uuid.uuid4()), role=Role.user, task_id=task, parts=[Part(root=TextPart(text=text)), *[Part(root=p) for p in parts]]
    )


class Peer:
    """The tests, the same over each transport."""

    transport = None

    async def asyncSetUp(self):
        self.http = httpx.AsyncClient(timeout=30)
        self.card = await A2ACardResolver(self.http, address).get_agent_card()
        self.client = self.connect(streaming=True)

    def channel(self, target):
        """Opens a gRPC channel, which the test closes."""
        channel = grpc.aio.insecure_channel(target)
        self.addAsyncCleanup(channel.close)
        return channel

    async def asyncTearDown(self):
        await self.http.aclose()

    def connect(self, **options):
        config = ClientConfig(httpx_client=self.http, grpc_channel_factory=self.channel, supported_transports=[self.transport], use_client_preference=True, **options)
        return ClientFactory(config).create(self.card)

    async def send(self, message, client=None, **options):
        """Sends without a stream and returns the only answer."""
        client = client or self.connect(streaming=False)
        events = [e async for e in client.send_message(message, **options)]
        self.assertEqual(len(events), 1)
        return events[0][0] if isinstance(events[0], tuple) else events[0]

    @shows("card")
    async def test_card(self):
        self.assertEqual(self.card.protocol_version, "0.3.0")
        self.assertEqual(self.card.preferred_transport, "JSONRPC")
        self.assertTrue(self.card.capabilities.streaming)
        old = await A2ACardResolver(self.http, address, "/.well-known/agent.json").get_agent_card()
        self.assertEqual(old, self.card)
        same = await A2ACardResolver(self.http, address[: address.index("/agents/")]).get_agent_card()
        self.assertEqual(same, self.card)

    @shows("extended")
    async def test_extended_card(self):
        self.assertFalse(self.card.supports_authenticated_extended_card)
        return False

    @shows("send")
    async def test_send(self):
        task = await self.send(message("echo hello"))
        self.assertIsInstance(task, Task)
        self.assertEqual(task.status.state, TaskState.completed)
        self.assertEqual(task.artifacts[0].parts[0].root.text, "hello")
        self.assertEqual(task.history[0].parts[0].root.text, "echo hello")

    @shows("message")
    async def test_message_as_answer(self):
        answer = await self.send(message("message hi"))
        self.assertIsInstance(answer, Message)
        self.assertEqual(answer.role, Role.agent)
        self.assertEqual(answer.parts[0].root.text, "hi")

    @shows("parts")
    async def test_parts(self):
        content = base64.b64encode(bytes(range(256))).decode()
        parts = [
            FilePart(file=FileWithBytes(bytes=content, mime_type="image/png", name="a.png")),
            FilePart(file=FileWithUri(uri="https://files.example/b", mime_type="text/plain")),
            DataPart(data={"n": 1.5, "list": [1, {"ß": "<&>"}], "yes": True}),
        ]
        task = await self.send(message("echo x", *parts))
        self.assertEqual([p.root for p in task.artifacts[0].parts[1:]], parts)

    @shows("immediate", "cancel")
    async def test_immediately(self):
        client = self.connect(streaming=False, polling=True)
        task = await self.send(message("slow 2"), client)
        self.assertIn(task.status.state, (TaskState.submitted, TaskState.working))
        task = await self.client.cancel_task(TaskIdParams(id=task.id))
        self.assertEqual(task.status.state, TaskState.canceled)

    @shows("stream", "get")
    async def test_stream(self):
        events = [e async for e in self.client.send_message(message("burst 3"))]
        updates = [u for _, u in events]
        self.assertIsNone(updates[0])
        chunks = [u for u in updates if isinstance(u, TaskArtifactUpdateEvent)]
        self.assertEqual("".join(c.artifact.parts[0].root.text for c in chunks), "1 2 3 ")
        states = [u for u in updates if isinstance(u, TaskStatusUpdateEvent)]
        self.assertEqual([s.final for s in states], [False] * (len(states) - 1) + [True])
        self.assertEqual(updates[-1].status.state, TaskState.completed)
        task = await self.client.get_task(TaskQueryParams(id=events[0][0].id))
        self.assertEqual(task.status.state, TaskState.completed)

    @shows("answer", "get")
    async def test_ask_and_answer(self):
        events = [e async for e in self.client.send_message(message("ask"))]
        task, last = events[-1]
        self.assertEqual(last.status.state, TaskState.input_required)
        self.assertTrue(last.final)
        self.assertEqual(last.status.message.parts[0].root.text, "What shall I answer?")
        task = await self.send(message("42", task=task.id))
        self.assertEqual(task.status.state, TaskState.completed)
        task = await self.client.get_task(TaskQueryParams(id=task.id, history_length=1))
        self.assertEqual(len(task.history), 1)

    @shows("send")
    async def test_states(self):
        for text, state in (("fail", TaskState.failed), ("reject", TaskState.rejected), ("auth", TaskState.auth_required)):
            task = await self.send(message(text))
            self.assertEqual(task.status.state, state)

    @shows("subscribe")
    async def test_resubscribe(self):
        stream = self.client.send_message(message("slow 2"))
        task, _ = await anext(stream)
        await stream.aclose()
        updates = [u async for _, u in self.client.resubscribe(TaskIdParams(id=task.id))]
        self.assertEqual(updates[-1].status.state, TaskState.completed)
        self.assertTrue(updates[-1].final)
        self.assertTrue(any(isinstance(u, TaskArtifactUpdateEvent) for u in updates))

    @shows("push-create", "push-get", "webhook")
    async def test_webhook(self):
        bodies = asyncio.Queue()

        async def receive(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
            await bodies.put((head.decode().lower(), await reader.readexactly(length)))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            writer.close()

        receiver = await asyncio.start_server(receive, "127.0.0.1", 0)
        async with receiver:
            url = f"http://127.0.0.1:{receiver.sockets[0].getsockname()[1]}/hook"
            task = await self.send(message("ask"))
            config = TaskPushNotificationConfig(
                task_id=task.id,
                push_notification_config=PushNotificationConfig(
                    id="mine", url=url, token="tok", authentication=PushNotificationAuthenticationInfo(schemes=["Bearer"], credentials="secret")
                ),
            )
            got = await self.client.set_task_callback(config)
            self.assertEqual((got.task_id, got.push_notification_config.id, got.push_notification_config.url), (task.id, "mine", url))
            got = await self.client.get_task_callback(GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="mine"))
            self.assertEqual(got.push_notification_config.url, url)
            await self.send(message("done", task=task.id))
            head, body = await asyncio.wait_for(bodies.get(), 20)
            self.assertIn("authorization: bearer secret", head)
            self.assertIn("x-a2a-notification-token: tok", head)
            self.assertIn("a2a-version: 0.3", head)
            while (pushed := Task.model_validate_json(body)).status.state != TaskState.completed:
                head, body = await asyncio.wait_for(bodies.get(), 20)
            self.assertEqual((pushed.id, pushed.context_id), (task.id, task.context_id))

    @shows("push-get")
    async def test_inline_webhook(self):
        hook = PushNotificationConfig(url="http://127.0.0.1:9/hook", id="inline")
        task = await self.send(message("ask"), self.connect(streaming=False, push_notification_configs=[hook]))
        got = await self.client.get_task_callback(GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="inline"))
        self.assertEqual(got.push_notification_config.url, "http://127.0.0.1:9/hook")

    @shows("errors")
    async def test_errors(self):
        await self.fails(-32001, 404, self.client.get_task(TaskQueryParams(id="nope")))
        task = await self.send(message("echo x"))
        await self.fails(-32002, 400, self.client.cancel_task(TaskIdParams(id=task.id)))
        await self.fails(-32004, 400, self.send(message("again", task=task.id)))

    async def fails(self, code, status, call):
        if self.transport == TransportProtocol.jsonrpc:
            with self.assertRaises(A2AClientJSONRPCError) as caught:
                await call
            self.assertEqual(caught.exception.error.code, code)
        elif self.transport == TransportProtocol.grpc:
            with self.assertRaises(grpc.aio.AioRpcError) as caught:
                await call
            self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND if status == 404 else grpc.StatusCode.FAILED_PRECONDITION)
        else:
            with self.assertRaises(A2AClientHTTPError) as caught:
                await call
            self.assertEqual(caught.exception.status_code, status)


class JSONRPC(Peer, unittest.IsolatedAsyncioTestCase):
    transport = TransportProtocol.jsonrpc


class HTTPJSON(Peer, unittest.IsolatedAsyncioTestCase):
    transport = TransportProtocol.http_json


class GRPC(Peer, unittest.IsolatedAsyncioTestCase):
    transport = TransportProtocol.grpc


if __name__ == "__main__":
    unittest.main()
