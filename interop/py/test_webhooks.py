import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from a2a.types import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    SendMessageConfiguration,
    StreamResponse,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import InvalidParamsError, PushNotificationNotSupportedError, TaskNotFoundError
from google.protobuf.json_format import ParseDict
from peer import chunks, each_binding, request, shows, state_of, task_of

COMPLETED = TaskState.TASK_STATE_COMPLETED


class Receiver:
    """Receives webhooks on a port of its own."""

    def __init__(self):
        loop, self.deliveries = asyncio.get_running_loop(), asyncio.Queue()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler):
                body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
                delivery = handler.headers, ParseDict(body, StreamResponse())
                loop.call_soon_threadsafe(self.deliveries.put_nowait, delivery)
                handler.send_response(204)
                handler.end_headers()

            def log_message(handler, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?of=test"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    async def until(self, state):
        """Returns what is received until the task is in a state."""
        got = []
        async with asyncio.timeout(20):
            while not got or state_of(got[-1][1]) != state:
                got.append(await self.deliveries.get())
        return got


def numbered(task, id):
    return {"task_id": task.id, "id": id}


@each_binding
class Webhooks:
    async def receiver(self):
        receiver = Receiver()
        self.addCleanup(receiver.close)
        return receiver

    @shows("webhook")
    async def test_of_a_send(self):
        if not self.card.capabilities.push_notifications:
            return False
        receiver = await self.receiver()
        hook = TaskPushNotificationConfig(
            url=receiver.url, token="a token", authentication=AuthenticationInfo(scheme="Bearer", credentials="s3cret")
        )
        configuration = SendMessageConfiguration(return_immediately=True, task_push_notification_config=hook)
        task = await self.send("burst 20", configuration=configuration)
        got = await receiver.until(COMPLETED)
        for headers, event in got:
            self.assertEqual(task_of(event), task.id)
            self.assertEqual(headers["Authorization"], "Bearer s3cret")
            self.assertEqual(headers["X-A2A-Notification-Token"], "a token")
            self.assertEqual(headers["Content-Type"], "application/a2a+json")
        self.assertEqual(chunks(event for _, event in got), [f"{i + 1} " for i in range(20)])

    @shows("push-create", "push-get", "push-list", "push-delete", "webhook")
    async def test_of_a_task(self):
        if not self.card.capabilities.push_notifications:
            return False
        client, receiver = self.client, await self.receiver()
        task = await self.send("ask")

        async def get(id):
            return await client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**numbered(task, id)))

        async def all_of():
            page = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task.id))
            return list(page.configs)

        async def create(**rest):
            return await client.create_task_push_notification_config(TaskPushNotificationConfig(task_id=task.id, **rest))

        made = await create(id="one", url=receiver.url)
        self.assertEqual((made.task_id, made.id, made.url), (task.id, "one", receiver.url))
        self.assertEqual(await get("one"), made)
        second = await create(url=receiver.url + "&second")
        self.assertTrue(second.id)
        self.assertEqual(len(await all_of()), 2)
        for _ in range(2):  # a second deletion succeeds too (A2A §3.1.10)
            await client.delete_task_push_notification_config(DeleteTaskPushNotificationConfigRequest(**numbered(task, second.id)))
        self.assertEqual(await all_of(), [made])
        with self.assertRaises(TaskNotFoundError):
            await get(second.id)

        await self.send("EXW", task=task)
        for _, event in await receiver.until(COMPLETED):
            self.assertEqual(task_of(event), task.id)

    @shows("errors")
    async def test_address_to_which_nobody_may_send(self):
        if not self.card.capabilities.push_notifications:
            return False
        task = await self.send("ask")
        for url in ("http://169.254.169.254/latest", "ftp://127.0.0.1/", "http://user:secret@127.0.0.1/"):
            with self.subTest(url), self.assertRaises(InvalidParamsError):
                await self.client.create_task_push_notification_config(TaskPushNotificationConfig(task_id=task.id, url=url))

    @shows("errors")
    async def test_agent_without_webhooks(self):
        client = await self.dial_other("FIXTURE_NO_STREAMING_URL")
        task = await self.answer(request("ask"), client)
        hook = TaskPushNotificationConfig(task_id=task.id, id="1", url="https://hooks.example.com/")
        inline = request("echo x", configuration=SendMessageConfiguration(task_push_notification_config=hook))
        for call in (
            client.create_task_push_notification_config(hook),
            client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**numbered(task, "1"))),
            client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task.id)),
            client.delete_task_push_notification_config(DeleteTaskPushNotificationConfigRequest(**numbered(task, "1"))),
            self.answer(inline, client),
        ):
            with self.assertRaises(PushNotificationNotSupportedError):
                await call
