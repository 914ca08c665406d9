from a2a.client import ClientCallContext
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import TaskState
from a2a.utils.errors import (
    ExtensionSupportRequiredError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from peer import GRPC, each_binding, request, shows

EXTENSION = "https://fixture.handoff.example/extensions/required/v1"


class Nobody:
    id, context_id = "nope", ""


@each_binding
class Errors:
    async def assertInvalid(self, call):
        with self.assertRaises(InvalidParamsError):
            await call

    async def assertStreamRaises(self, error, events):
        with self.assertRaises(error):
            await anext(events)

    @shows("errors")
    async def test_unknown_task(self):
        for call in (self.get(Nobody), self.cancel(Nobody), self.send("echo x", task=Nobody)):
            with self.assertRaises(TaskNotFoundError):
                await call
        await self.assertStreamRaises(TaskNotFoundError, self.subscribe(Nobody))

    @shows("errors")
    async def test_finished_task(self):
        task = await self.send("echo x")
        with self.assertRaises(TaskNotCancelableError):
            await self.cancel(task)
        with self.assertRaises(UnsupportedOperationError):
            await self.send("more", task=task)
        await self.assertStreamRaises(UnsupportedOperationError, self.streaming.send_message(request("more", task=task)))
        await self.assertStreamRaises(UnsupportedOperationError, self.subscribe(task))
        self.assertEqual(await self.get(task), task)

    @shows("errors")
    async def test_context_of_another_task(self):
        task = await self.send("ask")
        await self.assertInvalid(self.send("x", task=task, context_id="another"))
        self.assertState(await self.get(task), TaskState.TASK_STATE_INPUT_REQUIRED)

    @shows("errors")
    async def test_invalid_input(self):
        await self.assertInvalid(self.send("x", message_id=""))
        nothing = request("x")
        del nothing.message.parts[:]
        await self.assertInvalid(self.answer(nothing))
        await self.assertInvalid(self.list(page_token="junk"))
        await self.assertInvalid(self.list(page_size=-1))

    @shows("errors")
    async def test_unknown_version(self):
        context = ClientCallContext(service_parameters={"A2A-Version": "99.0"})
        if self.binding == GRPC:
            # Its own version goes out too, before this one, and counts.
            self.cannot("name another version than its own: it sends both")
            self.assertState(await self.answer(request("echo x"), context=context), TaskState.TASK_STATE_COMPLETED)
            return
        with self.assertRaises(VersionNotSupportedError):
            await self.answer(request("echo x"), context=context)

    @shows("errors")
    async def test_agent_without_streaming(self):
        client = await self.dial_other("FIXTURE_NO_STREAMING_URL", streaming=True)
        # The client knows it from the card and sends a blocking message.
        events = [event async for event in client.send_message(request("echo x"))]
        self.assertEqual([event.task.status.state for event in events], [TaskState.TASK_STATE_COMPLETED])
        deceived = await self.dial_other("FIXTURE_NO_STREAMING_URL", streaming=True, capabilities=["streaming"])
        await self.assertStreamRaises(UnsupportedOperationError, deceived.send_message(request("echo x")))

    @shows("errors")
    async def test_required_extension(self):
        client = await self.dial_other("FIXTURE_REQUIRED_EXTENSION_URL")
        with self.assertRaises(ExtensionSupportRequiredError):
            await self.answer(request("echo x"), client)
        context = ClientCallContext(service_parameters=ServiceParametersFactory.create([with_a2a_extensions([EXTENSION])]))
        self.assertState(await self.answer(request("echo x"), client, context), TaskState.TASK_STATE_COMPLETED)
