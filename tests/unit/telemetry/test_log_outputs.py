import contextlib
import os
import select
import threading
from pathlib import Path

import pytest

from smg.telemetry.log_outputs import MAX_BACKLOG_BYTES, DailyFileOutput, StdoutOutput

DAY = "2026-11-30"


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(fd)


def read_all(reader: int) -> bytes:
    """What is in the pipe now."""
    found = b""
    while select.select([reader], [], [], 0)[0] and (piece := os.read(reader, 65536)):
        found += piece
    return found


def lines(count: int, width: int = 100) -> bytes:
    return b"".join(b"%0*d\n" % (width - 1, number) for number in range(count))


def test_lines_reach_a_reader(pipe) -> None:
    output = StdoutOutput(pipe[1])
    output.send(b"one\ntwo\n", DAY)
    assert read_all(pipe[0]) == b"one\ntwo\n"


def test_a_reader_that_stops_reading_stops_nobody_and_gets_the_rest_later(pipe) -> None:
    output = StdoutOutput(pipe[1])
    data = lines(3000)
    output.send(data, DAY)
    found = b""
    while piece := read_all(pipe[0]):
        found += piece
        output.send(b"", DAY)
    assert found == data
    assert output.lost_lines == 0


def test_what_waits_for_a_reader_is_bounded_and_counted(pipe) -> None:
    output = StdoutOutput(pipe[1])
    chunk = lines(640)
    rounds = 40
    for _ in range(rounds):
        output.send(chunk, DAY)
    assert output.lost_lines > 0
    assert output.lost_lines % 640 == 0
    kept = (rounds * 640 - output.lost_lines) * 100
    assert kept <= MAX_BACKLOG_BYTES + 64 * 1024


def test_a_long_text_is_written_in_whole_lines(pipe, monkeypatch) -> None:
    pieces: list[bytes] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: pieces.append(bytes(data)) or write(fd, data))
    StdoutOutput(pipe[1]).send(lines(500, width=130), DAY)
    assert len(pieces) > 1
    assert all(piece.endswith(b"\n") and len(piece) <= select.PIPE_BUF for piece in pieces)


def test_a_line_longer_than_a_pipe_takes_arrives_whole(pipe) -> None:
    data = b"x" * 10_000 + b"\n"
    StdoutOutput(pipe[1]).send(data, DAY)
    assert read_all(pipe[0]) == data


def test_lines_are_dropped_and_counted_when_the_reader_is_gone(pipe) -> None:
    reader, writer = pipe
    output = StdoutOutput(writer)
    os.close(reader)
    output.send(b"one\ntwo\n", DAY)
    output.send(b"three\n", DAY)
    output.close(wait_secs=0)
    assert output.lost_lines == 3


def test_a_closed_descriptor_raises_nothing(pipe) -> None:
    os.close(pipe[1])
    output = StdoutOutput(pipe[1])
    output.send(b"one\n", DAY)
    assert output.lost_lines == 1


def test_closing_waits_for_a_slow_reader(pipe) -> None:
    reader, writer = pipe
    output = StdoutOutput(writer)
    data = lines(3000)
    output.send(data, DAY)
    found = bytearray()

    def read() -> None:
        while len(found) < len(data):
            found.extend(os.read(reader, 65536))

    slow = threading.Thread(target=read)
    slow.start()
    output.close(wait_secs=30)
    slow.join()
    assert found == data


def test_closing_gives_up_on_a_reader_that_never_reads(pipe) -> None:
    output = StdoutOutput(pipe[1])
    output.send(lines(3000), DAY)
    output.close(wait_secs=0)
    assert output.lost_lines > 0


def test_a_regular_file_takes_everything_at_once(tmp_path: Path) -> None:
    path = tmp_path / "out"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    data = lines(3000)
    StdoutOutput(fd).send(data, DAY)
    os.close(fd)
    assert path.read_bytes() == data


def test_a_daily_file_is_named_by_its_date_and_appended_to(tmp_path: Path) -> None:
    path = tmp_path / f"smg.{DAY}"
    path.write_bytes(b"earlier\n")
    output = DailyFileOutput(str(tmp_path), DAY)
    output.send(b"one\n", DAY)
    output.close()
    assert path.read_bytes() == b"earlier\none\n"


def test_a_new_day_starts_a_new_file(tmp_path: Path) -> None:
    output = DailyFileOutput(str(tmp_path), DAY)
    output.send(b"one\n", DAY)
    output.send(b"", "2026-12-01")
    output.send(b"two\n", "2026-12-02")
    output.close()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "smg.2026-11-30": b"one\n",
        "smg.2026-12-02": b"two\n",
    }


def test_a_missing_directory_is_made(tmp_path: Path) -> None:
    DailyFileOutput(str(tmp_path / "a" / "b"), DAY).close()
    assert (tmp_path / "a" / "b" / f"smg.{DAY}").exists()


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(OSError, match="taken"):
        DailyFileOutput(str(tmp_path / "taken"), DAY)


def test_a_day_whose_file_cannot_be_opened_loses_lines_and_nothing_else(tmp_path: Path) -> None:
    output = DailyFileOutput(str(tmp_path), DAY)
    (tmp_path / "smg.2026-12-01").mkdir()
    output.send(b"one\ntwo\n", "2026-12-01")
    output.send(b"three\n", "2026-12-02")
    output.close()
    assert output.lost_lines == 2
    assert (tmp_path / "smg.2026-12-02").read_bytes() == b"three\n"
