"""The job queue of the worker API: bounded, a few hundred at once, with a record that callers can look at.

A record lives while its job does; the record of a failed one is kept for a while, so that a caller who
polls can read why. What a job does is its own business: it raises to fail.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from smg.telemetry.logs import get_logger

log = get_logger("smg.services.jobs")

Work = Callable[[], Awaitable[None]]
JobType = Literal["AddWorker", "UpdateWorker", "RemoveWorker"]

KEEP_FAILED_SECS = 300.0
MAX_FAILED = 1000


class JobFailed(Exception):  # noqa: N818  it is an outcome, not a fault
    """A job could not do what it was asked for; the message is for the caller."""


class QueueFull(Exception):  # noqa: N818  the same
    """As many jobs as the queue holds are waiting; this one was not taken."""


@dataclass(slots=True, eq=False)
class Job:
    """One job and its record. `timestamp` is when its status last changed, in Unix seconds."""

    job_type: JobType
    worker_id: str
    worker_url: str
    work: Work
    timestamp: float
    status: Literal["pending", "processing", "failed"] = "pending"
    message: str | None = None


class JobQueue:
    """Runs jobs, first come first served.

    `capacity` bounds the jobs that wait, `concurrency` those that run. A newer job of a worker takes over the
    record of an older one.
    """

    def __init__(self, *, capacity: int = 1000, concurrency: int = 200, now: Callable[[], float] = time.time) -> None:
        self._capacity = capacity
        self._concurrency = concurrency
        self._now = now
        self._waiting: deque[Job] = deque()
        self._running: dict[Job, asyncio.Task[None]] = {}
        self._beside: dict[Job, asyncio.Task[None]] = {}
        self._records: dict[str, Job] = {}

    def submit(self, job_type: JobType, worker_id: str, worker_url: str, work: Work) -> None:
        """Queue a job. Raises QueueFull."""
        job = Job(job_type, worker_id, worker_url, work, self._now())
        if len(self._running) < self._concurrency:
            self._start(job, self._running)
        elif len(self._waiting) < self._capacity:
            self._waiting.append(job)
        else:
            raise QueueFull(f"{self._capacity} jobs are waiting")
        self._record(job)

    def submit_beside(self, job_type: JobType, worker_id: str, worker_url: str, work: Work) -> None:
        """Run a job at once, next to the queue: one that contacts nobody and must not wait behind those
        that do.
        """
        job = Job(job_type, worker_id, worker_url, work, self._now())
        self._start(job, self._beside)
        self._record(job)

    def record(self, worker_id: str) -> Job | None:
        """The newest job of a worker, unless it succeeded or its failure is old."""
        job = self._records.get(worker_id)
        if job is None or (job.status == "failed" and self._now() - job.timestamp > KEEP_FAILED_SECS):
            return None
        return job

    def cancel(self, worker_id: str) -> None:
        """End every job of a worker for good; their records go with them."""
        self._waiting = deque(job for job in self._waiting if job.worker_id != worker_id)
        for tasks in (self._running, self._beside):
            for job, task in tasks.items():
                if job.worker_id == worker_id:
                    task.cancel()
        self._records.pop(worker_id, None)

    async def close(self) -> None:
        """Cancel everything and wait until all has ended."""
        self._waiting.clear()
        tasks = [*self._running.values(), *self._beside.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, job: Job, tasks: dict[Job, asyncio.Task[None]]) -> None:
        job.status = "processing"
        job.timestamp = self._now()
        task = asyncio.get_running_loop().create_task(self._run(job), name=f"{job.job_type} {job.worker_url}")
        tasks[job] = task
        task.add_done_callback(lambda _: self._ended(job, tasks))

    async def _run(self, job: Job) -> None:
        try:
            await job.work()
        except JobFailed as error:
            self._fail(job, str(error))
            log.warning("job failed", job=job.job_type, worker=job.worker_url, reason=str(error))
        except Exception as error:
            self._fail(job, f"{type(error).__name__}: {error}")
            log.exception("job failed inside the gateway", job=job.job_type, worker=job.worker_url, error=error)

    def _fail(self, job: Job, message: str) -> None:
        job.status = "failed"
        job.message = message
        job.timestamp = self._now()

    def _ended(self, job: Job, tasks: dict[Job, asyncio.Task[None]]) -> None:
        del tasks[job]
        if job.status != "failed" and self._records.get(job.worker_id) is job:
            del self._records[job.worker_id]
        while self._waiting and len(self._running) < self._concurrency:
            self._start(self._waiting.popleft(), self._running)

    def _record(self, job: Job) -> None:
        self._records.pop(job.worker_id, None)  # so that the newest is last
        self._records[job.worker_id] = job
        failed = [worker_id for worker_id, other in self._records.items() if other.status == "failed"]
        for worker_id in failed[:-MAX_FAILED]:
            del self._records[worker_id]
