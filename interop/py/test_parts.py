import os

from a2a.client.errors import A2AClientError
from a2a.types import Part, SendMessageConfiguration
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.struct_pb2 import Struct, Value
from peer import GRPC, artifact_text, chunks, each_binding, shows

WITHOUT_HISTORY = SendMessageConfiguration(history_length=0)


def data(value):
    return Part(data=ParseDict(value, Value()))


@each_binding
class Parts:
    async def assertEchoed(self, parts):
        """Sends parts and checks what comes back: of a send, a read and a stream."""
        task = await self.send("echo parts", parts=parts, configuration=WITHOUT_HISTORY)
        self.assertEqual(list(task.artifacts[0].parts[1:]), parts)
        self.assertEqual(list((await self.get(task)).artifacts[0].parts[1:]), parts)
        events = await self.stream("echo parts", parts=parts, configuration=WITHOUT_HISTORY)
        chunk = next(e.artifact_update for e in events if e.HasField("artifact_update"))
        self.assertEqual(list(chunk.artifact.parts[1:]), parts)

    @shows("parts")
    async def test_every_kind_of_data(self):
        values = [0, -1.5e-7, False, True, "", "s", [], [1, None, ["x"]], {}, {"n": None, '<a href="x?a=1&b=2">': {"": False}}, None]
        await self.assertEchoed([data(value) for value in values])

    @shows("parts")
    async def test_parts_keep_what_they_have(self):
        metadata = Struct()
        metadata.update({"k": None, "n": 1})
        await self.assertEchoed([
            Part(raw=b"%PDF-1.7", filename="größe 報告.pdf", media_type="application/pdf", metadata=metadata),
            Part(url="https://example.com/a?b=c&d=%20", media_type="image/png"),
            Part(text=""),
            Part(text='Ünïcödé 日本語 한국어 😀 \u0000 <>&"\\ \r\n\t'),
        ])

    # This client takes them for ends of lines over HTTP, where events do not
    # (HTML §9.2.5); so they come escaped.
    @shows("parts")
    async def test_separators_in_a_text(self):
        text = "a\u2028b\u2029c\u0085d"
        self.assertEqual(artifact_text(await self.send("echo " + text)), text)
        self.assertEqual(chunks(await self.stream("echo " + text)), [text])

    @shows("parts")
    async def test_large_file(self):
        await self.assertEchoed([Part(raw=os.urandom(9_000_000))])
