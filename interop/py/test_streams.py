import asyncio
import time

from a2a.types import TaskState
from peer import artifact_text, chunks, each_binding, kinds, request, shows, state_of, task_of

COMPLETED = TaskState.TASK_STATE_COMPLETED


@each_binding
class Streams:
    @shows("stream")
    async def test_tells_the_whole_story(self):
        for _ in range(20):
            events = await self.stream("echo hello")
            self.assertEqual(kinds(events), ["task", "status_update", "artifact_update", "status_update"])
            self.assertEqual({task_of(event) for event in events}, {events[0].task.id})
            self.assertEqual((chunks(events), state_of(events[-1])), (["hello"], COMPLETED))

    @shows("stream", "message")
    async def test_message_is_all_there_is(self):
        self.assertEqual(kinds(await self.stream("message hi")), ["message"])

    @shows("stream")
    async def test_burst_arrives_in_order(self):
        events = await self.stream("burst 200")
        self.assertEqual(chunks(events), [f"{i + 1} " for i in range(200)])
        appends = [e.artifact_update.append for e in events if e.HasField("artifact_update")]
        self.assertEqual(appends, [False] + [True] * 199)
        self.assertEqual(artifact_text(await self.get(events[0].task)), "".join(chunks(events)))

    @shows("stream")
    async def test_shows_work_as_it_happens(self):
        times = []
        async for event in self.streaming.send_message(request("slow 2")):
            if event.HasField("artifact_update"):
                times.append(time.monotonic())
        self.assertEqual(len(times), 20)
        self.assertGreater(times[-1] - times[0], 0.3, "the chunks came together")

    @shows("stream", "answer")
    async def test_ends_with_a_question(self):
        events = await self.stream("ask")
        self.assertEqual(state_of(events[-1]), TaskState.TASK_STATE_INPUT_REQUIRED)
        more = await self.stream("EXW", task=events[0].task)
        self.assertEqual(state_of(more[-1]), COMPLETED)

    @shows("stream")
    async def test_failure_in_the_middle(self):
        events = await self.stream("latefail")
        self.assertEqual(state_of(events[-1]), TaskState.TASK_STATE_FAILED)

    @shows("stream")
    async def test_disconnect_cancels_nothing(self):
        events = self.streaming.send_message(request("slow 1"))
        first = await anext(events)
        await events.aclose()
        done = await self.await_state(first.task, COMPLETED)
        self.assertEqual(artifact_text(done).count("chunk"), 10)

    @shows("subscribe")
    async def test_subscription_after_a_cut(self):
        stream = self.streaming.send_message(request("slow 2"))
        seen = await anext(stream)
        await stream.aclose()
        events = [event async for event in self.subscribe(seen.task)]
        self.assertEqual(kinds(events)[0], "task")
        text = artifact_text(events[0].task) + "".join(chunks(events))
        self.assertEqual(text.count("chunk"), 20)
        self.assertEqual(state_of(events[-1]), COMPLETED)

    @shows("subscribe", "answer")
    async def test_subscription_to_a_parked_task(self):
        task = await self.send("ask")
        events = []
        async with asyncio.timeout(20):
            async for event in self.subscribe(task):
                events.append(event)
                if len(events) == 1:
                    self.assertState(event.task, TaskState.TASK_STATE_INPUT_REQUIRED)
                    await self.send("go", task=task)
        self.assertEqual(state_of(events[-1]), COMPLETED)
