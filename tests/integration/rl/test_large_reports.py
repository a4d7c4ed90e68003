"""Fan-outs whose answers together are more than a gateway keeps in memory."""

import pytest

from smg.control.rl import routes
from support.nameless import nameless_files
from support.raw_engine import answers
from support.waiting import until

MIB = 1 << 20
ENGINES = 12


@pytest.fixture
async def trainer(stage):
    engines = [await stage.raw_engine(answers(body=b'"%b"' % (bytes([97 + n]) * (MIB - 2)))) for n in range(ENGINES)]
    return await stage.plane(*engines)


async def test_a_report_of_large_answers_is_whole(trainer):
    before = nameless_files()
    answer = await trainer.fanout("op", "id!=x")
    assert (answer.status, answer.headers["transfer-encoding"]) == (200, "chunked")
    report = answer.json
    assert (report["failed"], report["total"], report["succeeded"]) == ([], ENGINES, ENGINES)
    assert list(report["results"]) == sorted(report["results"])
    bodies = {row["body"] for row in report["results"].values()}
    assert bodies == {chr(97 + n) * (MIB - 2) for n in range(ENGINES)}
    await until(lambda: nameless_files() == before, "the end of the file")


async def test_a_trainer_that_takes_nothing_is_cut_off(trainer, monkeypatch):
    monkeypatch.setattr(routes, "LONGEST_STANDSTILL_SECS", 0.05)
    before = nameless_files()
    client = await trainer.gateway.connect(receive_bytes=4096)
    client.writer.transport.pause_reading()
    await client.send("POST", trainer.every("op", "id!=x"), b"{}")
    await until(lambda: trainer.gateway.in_flight == 1, "the fan-out")
    await until(lambda: trainer.gateway.in_flight == 0, "its end")
    await until(lambda: nameless_files() == before, "the end of the file")  # which a thread closes
    client.writer.transport.resume_reading()
    assert not (await client.rest()).endswith(b"0\r\n\r\n")


async def test_a_trainer_that_leaves_takes_the_file_along(trainer):
    before = nameless_files()
    client = await trainer.gateway.connect(receive_bytes=4096)
    client.writer.transport.pause_reading()
    await client.send("POST", trainer.every("op", "id!=x"), b"{}")
    await until(lambda: nameless_files() != before, "the file")
    client.reset()
    await until(lambda: trainer.gateway.in_flight == 0, "the end of the fan-out")
    await until(lambda: nameless_files() == before, "the end of the file")
