"""A control plane that is a table of outcomes, and both twins' `paused` in front of it."""

import asyncio

import pytest

from smg.rl import RL, FanoutError, FanoutFailure, FanoutResult, aio, paused

SELECTOR = "engine=sglang, role!=reward"


class Fleet:
    """Takes down every fan-out, and ends it as the test wants: exceptions are raised, functions called."""

    def __init__(self, pause, resume):
        self.outcomes = {"pause_generation": pause, "continue_generation": resume}
        self.log = []
        self.arguments = []

    def fan_out(self, path, body, *, selector, timeout):
        self.log.append(path)
        self.arguments.append((path, body, selector, timeout))
        outcome = self.outcomes[path]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome() if callable(outcome) else outcome


class BlockingClient(RL):
    def __init__(self, fleet):
        super().__init__("http://gateway")
        self.fleet = fleet

    def fanout(self, path, body=None, *, selector, timeout=None):
        return self.fleet.fan_out(path, body, selector=selector, timeout=timeout)


class CoroutineClient(aio.RL):
    def __init__(self, fleet):
        super().__init__("http://gateway")
        self.fleet = fleet

    async def fanout(self, path, body=None, *, selector, timeout=None):  # noqa: ASYNC109  as the method it stands for
        await asyncio.sleep(0)
        return self.fleet.fan_out(path, body, selector=selector, timeout=timeout)


def blocking(fleet, block, options):
    with paused(BlockingClient(fleet), SELECTOR, **options) as report:
        block(report)


def coroutine(fleet, block, options):
    async def run():
        async with aio.paused(CoroutineClient(fleet), SELECTOR, **options) as report:
            block(report)

    asyncio.run(run())


@pytest.fixture(params=[blocking, coroutine])
def pause_around(request):
    """Run a block under `paused`: `pause_around(block, pause=outcome, resume=outcome, **options)`.

    Returns the fleet and the exception that came out, or None.
    """

    def run(block=lambda report: None, *, pause=None, resume=None, **options):
        fleet = Fleet(pause or report_of(), resume or report_of())

        def noted(report):
            fleet.log.append("block")
            block(report)

        try:
            request.param(fleet, noted, options)
        except BaseException as error:  # noqa: BLE001  whatever comes out is what a test looks at
            return fleet, error
        return fleet, None

    return run


def report_of(*failed):
    """The report of a fan-out to two workers."""
    failures = [FanoutFailure(worker, f"http://{worker}", None, "upstream_timeout", "late") for worker in failed]
    return FanoutResult({}, failures, 2, 2 - len(failures))


def partial(*failed):
    """A fan-out in which these workers failed."""
    return FanoutError(207, {}, report_of(*failed))


@pytest.fixture(name="report_of")
def report_of_fixture():
    return report_of


@pytest.fixture(name="partial")
def partial_fixture():
    return partial


@pytest.fixture
def selector():
    return SELECTOR
