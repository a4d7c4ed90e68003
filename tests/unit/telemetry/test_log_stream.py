import threading

from smg.telemetry.log_stream import FLUSH_CHARS, LogStream, utc_stamp


class Memory:
    """An output that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.closed_after: float | None = None
        self.lost_lines = 0

    def send(self, data: bytes, date: str) -> None:
        self.sent.append((date, data))

    def close(self, wait_secs: float) -> None:
        self.closed_after = wait_secs


class Clock:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_lines_wait_for_a_flush_and_keep_their_order() -> None:
    output = Memory()
    stream = LogStream([output])
    for line in ("one\n", "two\n", "three\n"):
        stream.write(line)
    assert output.sent == []
    stream.flush()
    assert [data for _, data in output.sent] == [b"one\ntwo\nthree\n"]


def test_a_full_buffer_leaves_by_itself() -> None:
    output = Memory()
    stream = LogStream([output])
    line = "x" * 99 + "\n"
    count = 0
    while not output.sent:
        stream.write(line)
        count += 1
    assert count * 100 >= FLUSH_CHARS > (count - 1) * 100
    stream.write(line)
    assert len(output.sent) == 1


def test_every_output_gets_every_line() -> None:
    outputs = [Memory(), Memory()]
    stream = LogStream(outputs)
    stream.write("one\n")
    stream.flush()
    assert outputs[0].sent[0][1] == outputs[1].sent[0][1] == b"one\n"


def test_a_flush_without_lines_lets_outputs_carry_on() -> None:
    output = Memory()
    LogStream([output]).flush()
    assert [data for _, data in output.sent] == [b""]


def test_the_stamp_is_utc_and_the_same_object_within_a_second() -> None:
    clock = Clock(1_796_000_000.25)
    stream = LogStream([], clock)
    first = stream.stamp()
    clock.now += 0.7
    assert stream.stamp() is first
    clock.now += 0.1
    assert (first, stream.stamp()) == ("2026-11-30 00:53:20", "2026-11-30 00:53:21")


def test_a_clock_that_is_set_back_is_followed() -> None:
    clock = Clock(1000.0)
    stream = LogStream([], clock)
    clock.now = 10.0
    assert stream.stamp() == utc_stamp(10)


def test_lines_of_a_day_leave_before_the_next_one_begins() -> None:
    clock, output = Clock(86399.0), Memory()
    stream = LogStream([output], clock)
    stream.write(f"{stream.stamp()} last\n")
    clock.now = 86400.0
    stream.write(f"{stream.stamp()} first\n")
    stream.flush()
    assert output.sent == [
        ("1970-01-01", b"1970-01-01 23:59:59 last\n"),
        ("1970-01-02", b"1970-01-02 00:00:00 first\n"),
    ]


def test_a_flush_inside_a_flush_leaves_the_lines_to_the_next_one() -> None:
    class Reentrant(Memory):
        def send(self, data: bytes, date: str) -> None:
            super().send(data, date)
            if len(self.sent) == 1:
                stream.write("from within\n")
                stream.flush()

    output = Reentrant()
    stream = LogStream([output])
    stream.write("one\n")
    stream.flush()
    stream.flush()
    assert [data for _, data in output.sent] == [b"one\n", b"from within\n"]


def test_threads_lose_no_line() -> None:
    output = Memory()
    stream = LogStream([output])

    def write(name: str) -> None:
        for number in range(3000):
            stream.write(f"{name} {number}\n")

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream.flush()
    found = b"".join(data for _, data in output.sent).decode().splitlines()
    assert sorted(found) == sorted(f"{name} {number}" for name in "abc" for number in range(3000))


def test_a_line_that_another_thread_was_about_to_add_is_not_lost() -> None:
    output = Memory()
    stream = LogStream([output])
    add = stream._lines.append  # where a thread may have been interrupted, just before its line is in
    stream.write("one\n")
    stream.flush()
    add("late\n")
    stream.flush()
    assert [data for _, data in output.sent] == [b"one\n", b"late\n"]


def test_a_line_that_cannot_be_encoded_is_not_an_error() -> None:
    output = Memory()
    stream = LogStream([output])
    stream.write("\ud800\n")
    stream.flush()
    assert output.sent[0][1] == b"\\ud800\n"


def test_closing_flushes_and_gives_outputs_time() -> None:
    output = Memory()
    stream = LogStream([output])
    stream.write("last\n")
    stream.close(wait_secs=3)
    assert output.sent[0][1] == b"last\n"
    assert output.closed_after == 3


def test_lost_lines_are_summed_over_outputs() -> None:
    outputs = [Memory(), Memory()]
    outputs[0].lost_lines, outputs[1].lost_lines = 2, 3
    assert LogStream(outputs).lost_lines == 5
