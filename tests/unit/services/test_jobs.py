import asyncio

import pytest

from smg.services.jobs import KEEP_FAILED_SECS, MAX_FAILED, JobFailed, JobQueue, QueueFull


class Gate:
    """Work that waits until it is let go."""

    def __init__(self):
        self.began = []
        self.ended = []
        self.open = asyncio.Event()

    def work(self, name):
        async def run():
            self.began.append(name)
            try:
                await self.open.wait()
            finally:
                self.ended.append(name)

        return run


async def nothing():
    pass


async def failing():
    raise JobFailed("no answer")


async def broken():
    raise KeyError("x")


def submit(queue, name, work, job_type="AddWorker"):
    queue.submit(job_type, name, f"http://{name}", work)


async def test_a_record_lives_while_its_job_does(clock, eventually):
    queue, gate = JobQueue(now=clock), Gate()
    submit(queue, "a", gate.work("a"))
    job = queue.record("a")
    assert (job.job_type, job.worker_url, job.status, job.message) == ("AddWorker", "http://a", "processing", None)
    gate.open.set()
    await eventually(lambda: queue.record("a") is None)
    assert gate.ended == ["a"]


async def test_jobs_above_the_limit_wait_their_turn(eventually):
    queue, gate = JobQueue(concurrency=2), Gate()
    for name in "abcd":
        submit(queue, name, gate.work(name))
    await eventually(lambda: gate.began == ["a", "b"])
    assert [queue.record(name).status for name in "abcd"] == ["processing"] * 2 + ["pending"] * 2
    gate.open.set()
    await eventually(lambda: gate.began == ["a", "b", "c", "d"])
    await eventually(lambda: queue.record("d") is None)


async def test_a_full_queue_takes_no_more():
    queue, gate = JobQueue(capacity=1, concurrency=1), Gate()
    submit(queue, "a", gate.work("a"))
    submit(queue, "b", gate.work("b"))
    with pytest.raises(QueueFull):
        submit(queue, "c", gate.work("c"))
    assert queue.record("c") is None
    await queue.close()


async def test_a_job_beside_the_queue_does_not_wait(eventually):
    queue, gate = JobQueue(capacity=1, concurrency=1), Gate()
    submit(queue, "a", gate.work("a"))
    submit(queue, "b", gate.work("b"))
    queue.submit_beside("RemoveWorker", "c", "http://c", gate.work("c"))
    await eventually(lambda: gate.began == ["a", "c"])
    assert queue.record("c").status == "processing"
    await queue.close()


async def test_a_failure_is_kept_for_a_while_and_says_why(clock, eventually):
    queue = JobQueue(now=clock)
    submit(queue, "a", failing)
    await eventually(lambda: queue.record("a").status == "failed")
    assert queue.record("a").message == "no answer"
    clock.now += KEEP_FAILED_SECS
    assert queue.record("a") is not None
    clock.now += 1
    assert queue.record("a") is None


async def test_a_fault_fails_its_job_and_no_other(eventually):
    queue = JobQueue(concurrency=1)
    done = []
    submit(queue, "a", broken)

    async def fine():
        done.append("b")

    submit(queue, "b", fine)
    await eventually(lambda: done == ["b"])
    assert queue.record("a").message == "KeyError: 'x'"


async def test_failures_are_bounded(eventually):
    queue = JobQueue(concurrency=MAX_FAILED * 2)
    for n in range(MAX_FAILED + 10):
        submit(queue, str(n), failing)
    await eventually(lambda: queue.record(str(MAX_FAILED + 9)).status == "failed")
    submit(queue, "last", nothing)
    assert queue.record("0") is None
    assert queue.record(str(MAX_FAILED + 9)) is not None
    await eventually(lambda: queue.record("last") is None)


async def test_a_newer_job_takes_over_the_record(eventually):
    queue, first, second = JobQueue(), Gate(), Gate()
    submit(queue, "a", first.work("1"))
    submit(queue, "a", second.work("2"), "UpdateWorker")
    await eventually(lambda: second.began == ["2"])
    first.open.set()
    await eventually(lambda: first.ended == ["1"])
    await asyncio.sleep(0)
    assert queue.record("a").job_type == "UpdateWorker"
    second.open.set()
    await eventually(lambda: queue.record("a") is None)


async def test_cancelling_ends_a_workers_jobs_for_good(eventually):
    queue, gate = JobQueue(concurrency=1), Gate()
    submit(queue, "a", gate.work("a1"))
    submit(queue, "a", gate.work("a2"))
    submit(queue, "b", gate.work("b"))
    await eventually(lambda: gate.began == ["a1"])
    queue.cancel("a")
    assert queue.record("a") is None
    await eventually(lambda: gate.began == ["a1", "b"])
    assert gate.ended == ["a1"]
    await queue.close()


async def test_a_cancelled_job_makes_room_before_it_began(eventually):
    queue, gate = JobQueue(concurrency=1), Gate()
    submit(queue, "a", gate.work("a"))
    queue.cancel("a")
    submit(queue, "b", gate.work("b"))
    await eventually(lambda: gate.began == ["b"])
    await queue.close()


async def test_closing_ends_everything():
    queue, gate = JobQueue(concurrency=1), Gate()
    submit(queue, "a", gate.work("a"))
    submit(queue, "b", gate.work("b"))
    queue.submit_beside("RemoveWorker", "c", "http://c", gate.work("c"))
    await asyncio.sleep(0)
    await queue.close()
    assert gate.began == gate.ended == ["a", "c"]
