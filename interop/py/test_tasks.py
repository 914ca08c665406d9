import uuid
from datetime import datetime, timedelta, timezone

from a2a.types import Message, Part, Role, SendMessageConfiguration, TaskState
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from peer import BINDINGS, Peer, artifact_text, each_binding, shows

COMPLETED, CANCELED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_CANCELED
INPUT_REQUIRED, AUTH_REQUIRED = TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED
IMMEDIATELY = SendMessageConfiguration(return_immediately=True)


class Card(Peer):
    @shows("card")
    async def test_is_resolved_from_the_address(self):
        self.assertEqual(self.card.name, "Fixture")
        self.assertEqual([s.id for s in self.card.skills], ["fixture"])
        self.assertTrue(self.card.capabilities.streaming)
        have = [i.protocol_binding for i in self.card.supported_interfaces if i.protocol_version == "1.0"]
        self.assertEqual(have, list(BINDINGS))


@each_binding
class Tasks:
    @shows("send")
    async def test_blocking_send(self):
        task = await self.send("echo hello")
        self.assertState(task, COMPLETED)
        self.assertEqual(artifact_text(task), "hello")
        self.assertTrue(task.id and task.context_id and task.status.timestamp.seconds)

    @shows("immediate", "get")
    async def test_immediate_send(self):
        task = await self.send("slow 1", configuration=IMMEDIATELY)
        self.assertIn(task.status.state, (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING))
        done = await self.await_state(task, COMPLETED)
        self.assertEqual(artifact_text(done).count("chunk"), 10)

    @shows("message")
    async def test_message_makes_no_task(self):
        context = str(uuid.uuid4())
        message = await self.send("message hi", context_id=context)
        self.assertIsInstance(message, Message)
        self.assertEqual(message.role, Role.ROLE_AGENT)
        self.assertEqual((message.task_id, message.context_id, message.parts[0].text), ("", context, "hi"))

    @shows("answer")
    async def test_ask_and_answer(self):
        task = await self.send("ask")
        self.assertState(task, INPUT_REQUIRED)
        question = task.status.message
        self.assertEqual((question.task_id, question.context_id), (task.id, task.context_id))
        done = await self.send("EXW", task=task)
        self.assertState(done, COMPLETED)
        self.assertEqual((done.id, done.context_id), (task.id, task.context_id))
        self.assertEqual(artifact_text(done), "EXW")

    @shows("answer")
    async def test_authorization_is_waited_for(self):
        task = await self.send("auth")
        self.assertState(task, AUTH_REQUIRED)
        self.assertState(await self.send("on", task=task), COMPLETED)

    @shows("send", "get")
    async def test_ways_to_fail(self):
        failed, rejected = TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED
        for trigger, state in (("fail", failed), ("latefail", failed), ("reject", rejected)):
            with self.subTest(trigger):
                task = await self.send(trigger)
                self.assertState(task, state)
                self.assertTrue(task.status.message.parts[0].text)
                self.assertEqual(await self.get(task), task)

    @shows("get", "send")
    async def test_history_length(self):
        task = await self.send("ask")
        await self.send("answer", task=task)
        history = (await self.get(task)).history
        self.assertEqual(len(history), 3)  # the message, the question, the answer
        self.assertEqual(len((await self.get(task, history_length=0)).history), 0)
        self.assertEqual((await self.get(task, history_length=2)).history, history[1:])
        self.assertEqual(len((await self.get(task, history_length=99)).history), 3)
        sent = await self.send("echo x", configuration=SendMessageConfiguration(history_length=0))
        self.assertEqual(len(sent.history), 0)

    @shows("list")
    async def test_list(self):
        context = str(uuid.uuid4())
        want = []  # newest status first
        for i in range(5):
            want.insert(0, (await self.send(f"echo {i}", context_id=context)).id)
        asked = await self.send("ask", context_id=context)
        want.insert(0, asked.id)

        have, pages, token = [], 0, ""
        while pages == 0 or token:
            page = await self.list(context_id=context, page_size=4, page_token=token)
            self.assertEqual((page.total_size, page.page_size), (6, 4))
            have += [task.id for task in page.tasks]
            self.assertFalse(any(task.artifacts for task in page.tasks))
            pages, token = pages + 1, page.next_page_token
        self.assertEqual((have, pages), (want, 2))

        waiting = await self.list(context_id=context, status=INPUT_REQUIRED)
        self.assertEqual([task.id for task in waiting.tasks], [asked.id])
        full = await self.list(context_id=context, page_size=2, include_artifacts=True)
        self.assertEqual(artifact_text(full.tasks[1]), "4")
        future = Timestamp()
        future.FromDatetime(datetime.now(timezone.utc) + timedelta(hours=1))
        self.assertEqual((await self.list(context_id=context, status_timestamp_after=future)).total_size, 0)

    @shows("cancel")
    async def test_cancel(self):
        running = await self.send("slow 30", configuration=IMMEDIATELY)
        parked = await self.send("ask")
        for task in (running, running, parked):
            self.assertState(await self.cancel(task), CANCELED)
            self.assertState(await self.get(task), CANCELED)

    @shows("cancel")
    async def test_cancel_of_a_stubborn_agent_stands(self):
        task = await self.send("stubborn", configuration=IMMEDIATELY)
        self.assertState(await self.cancel(task), CANCELED)
        # The agent goes on for 3 s and then tries to complete. A task that is
        # started after it and takes longer shows that this time is over.
        self.assertState(await self.send("slow 4"), COMPLETED)
        after = await self.get(task)
        self.assertState(after, CANCELED)
        self.assertFalse(after.artifacts)


class AllBindings(Peer):
    @shows("send", "get", "list")
    async def test_show_the_same_task(self):
        clients = []
        for self.binding in BINDINGS:
            clients.append(await self.dial(self.card))
        self.binding = None
        data = Value(struct_value=Struct())
        data.struct_value.update({"a": [None, 1]})
        metadata = Struct()
        metadata.update({"k": None, "x": {"y": 1}})
        for trigger in ("echo x", "ask", "burst 20", "latefail", "reject", "auth"):
            with self.subTest(trigger):
                self.client = clients[0]
                task = await self.send(trigger, parts=[Part(data=data)], metadata=metadata)
                self.assertEqual(task.history[0].metadata, metadata)
                for self.client in clients:
                    self.assertEqual(await self.get(task), task)
                    page = await self.list(context_id=task.context_id, include_artifacts=True)
                    self.assertEqual(list(page.tasks), [task])
