"""The memory of a gateway does not grow with an upload."""

from pathlib import Path

from support.client import Client
from support.forms import FORM, form, model, part
from support.processes import launched_beside
from support.raw_engine import raw_engine
from support.waiting import within

MEGABYTE = 1024 * 1024
SIZE = 200 * MEGABYTE
MOST_GROWTH = 32 * MEGABYTE


def memory_bytes(pid, row):
    """A row of the process's status: VmRSS is what it has, VmHWM the most it ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(row))


async def upload(client, size):
    """Send a form with a file of so many bytes."""
    before, after = form(part("file", b"@", filename="long.wav")).split(b"@")
    after = after.removesuffix(form()) + form(model())
    await client.send("POST", "/v1/audio/transcriptions", before, [FORM], length=len(before) + size + len(after))
    for _ in range(size // MEGABYTE):
        await client.write(bytes(MEGABYTE))
    await client.write(after)


async def count(call):
    """Read a body without keeping it, and answer with its size."""
    left = int(call.headers["content-length"])
    size = left
    while left:
        left -= len(await within(call.reader.read(min(left, MEGABYTE))))
    await call.answer(200, {"size": size})


async def test_a_large_upload_does_not_stay_in_memory():
    async with raw_engine(count, reads_bodies=False) as engine:
        flags = ["--worker-urls", engine.url, "--disable-retries"]
        async with launched_beside(*flags, workers=1) as running:
            pid = running.process._popen.pid
            client = await Client.open(running.port)
            await upload(client, MEGABYTE)  # what is loaded on first use is no growth
            assert (await client.answer()).status == 200
            before = memory_bytes(pid, "VmRSS")
            await upload(client, SIZE)
            answer = await client.answer()
            assert answer.status == 200
            assert answer.json["size"] > SIZE
            growth = memory_bytes(pid, "VmHWM") - before
            assert growth < MOST_GROWTH
            await client.closed()
