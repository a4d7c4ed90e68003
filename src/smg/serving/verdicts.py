"""What an answer says of the worker that gave it, told to its breaker: of failures one a request and worker."""

from __future__ import annotations

from collections.abc import Callable

from smg.errors import UpstreamError
from smg.fleet.worker import Worker
from smg.serving.accounts import CallAccounts
from smg.serving.call import Call


class Verdicts:
    """Tells breakers, and counts what they were told."""

    def __init__(self, accounts: CallAccounts, now: Callable[[], float]) -> None:
        self._accounts = accounts
        self._now = now

    def judge(self, call: Call, worker: Worker, status: int) -> None:
        """The worker answered with this status."""
        if status in worker.statuses.failures:
            self.bad(call, worker)
        elif status not in worker.statuses.capacity:
            self.good(worker)

    def failed(self, call: Call, worker: Worker, error: UpstreamError) -> None:
        """The worker, or the way to it, failed. Not every failure speaks against it: a client may have caused it."""
        if error.status in worker.statuses.failures:
            self.bad(call, worker)
        elif error.answered and error.status not in worker.statuses.capacity:
            self.good(worker)

    def good(self, worker: Worker) -> None:
        """The worker did what it was asked for, or had a good reason not to."""
        worker.breaker.succeeded()
        self._accounts.outcome(worker, good=True)

    def bad(self, call: Call, worker: Worker) -> None:
        """The worker let a call down."""
        if worker not in call.charged:
            call.charged += (worker,)
            worker.breaker.failed(self._now())
            self._accounts.outcome(worker, good=False)
