"""Every promise of `paused`, kept by both twins."""

import asyncio
import socket

import pytest

from smg.rl import RL, RlError, aio, paused

PAUSE, RESUME = "pause_generation", "continue_generation"


class Interruption(BaseException):
    """Stands for whatever ends a program that is no Exception."""


def raising(error):
    def block(report):
        raise error

    return block


# --- when all goes well


def test_a_block_runs_between_the_pause_and_the_resume(pause_around):
    fleet, error = pause_around()
    assert error is None
    assert fleet.log == [PAUSE, "block", RESUME]


def test_both_fan_outs_have_the_same_selector_and_timeout_and_a_json_body(pause_around, selector):
    fleet, _ = pause_around(timeout=7.5)
    assert fleet.arguments == [(PAUSE, {}, selector, 7.5), (RESUME, {}, selector, 7.5)]


@pytest.mark.parametrize(("mode", "body"), [("in_place", {"mode": "in_place"}), ("", {"mode": ""}), (None, {})])
def test_a_mode_is_sent_with_the_pause_only(pause_around, selector, mode, body):
    fleet, _ = pause_around(mode=mode)
    assert fleet.arguments == [(PAUSE, body, selector, None), (RESUME, {}, selector, None)]


def test_the_block_is_given_the_report_of_the_pause(pause_around, report_of):
    seen, report = [], report_of()
    pause_around(seen.append, pause=report)
    assert len(seen) == 1
    assert seen[0] is report


# --- when the pause fails


def test_a_partial_pause_skips_the_block_resumes_the_others_and_is_raised(pause_around, partial, selector):
    failure = partial("w-2")
    fleet, error = pause_around(pause=failure)
    assert error is failure
    assert error.__context__ is None
    assert fleet.log == [PAUSE, RESUME]
    assert fleet.arguments[1] == (RESUME, {}, selector, None)


def test_a_partial_pause_whose_resume_fails_too_has_that_failure_as_its_context(pause_around, partial):
    failure, second = partial("w-2"), partial("w-2")
    fleet, error = pause_around(pause=failure, resume=second)
    assert error is failure
    assert error.__context__ is second
    assert second.__context__ is None
    assert fleet.log == [PAUSE, RESUME]


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (TimeoutError, ("late",)),
        (ConnectionResetError, ("cut",)),
        (RlError, (504, "http_error", "a proxy gave up")),
        (RlError, (200, "unexpected_response", "a page")),
        (Interruption, ()),
    ],
)
def test_a_pause_that_may_have_reached_engines_is_taken_back(pause_around, kind, arguments):
    failure = kind(*arguments)
    fleet, error = pause_around(pause=failure)
    assert error is failure
    assert fleet.log == [PAUSE, RESUME]


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (RlError, (400, "no_workers_match")),
        (RlError, (401, "http_error")),
        (RlError, (404, "http_error")),
        (ConnectionRefusedError, ("nobody listens",)),
        (socket.gaierror, ("no such name",)),
        (ValueError, ("timeout must be greater than 0",)),
    ],
)
def test_a_pause_that_reached_nobody_is_not_taken_back(pause_around, kind, arguments):
    failure = kind(*arguments)
    fleet, error = pause_around(pause=failure)
    assert error is failure
    assert error.__context__ is None
    assert fleet.log == [PAUSE]


# --- when the block fails


@pytest.mark.parametrize("kind", [LookupError, Interruption])
def test_a_block_that_raises_is_followed_by_the_resume_and_its_exception_goes_on(pause_around, kind):
    failure = kind("checkpoint")
    fleet, error = pause_around(raising(failure))
    assert error is failure
    assert error.__context__ is None
    assert fleet.log == [PAUSE, "block", RESUME]


@pytest.mark.parametrize("kind", [LookupError, Interruption])
@pytest.mark.parametrize(("second_kind", "given"), [(RlError, (400, "no_workers_match")), (TimeoutError, ("late",))])
def test_a_failed_resume_is_the_context_of_what_the_block_raised(pause_around, kind, second_kind, given):
    failure, second = kind("checkpoint"), second_kind(*given)
    fleet, error = pause_around(raising(failure), resume=second)
    assert error is failure
    assert error.__context__ is second
    assert second.__context__ is None
    assert fleet.log == [PAUSE, "block", RESUME]


def test_what_the_block_was_handling_stays_at_the_end_of_the_chain(pause_around, partial):
    first, second = KeyError("cause"), partial("w-1")

    def block(report):
        try:
            raise first
        except KeyError:
            raise LookupError("checkpoint")  # noqa: B904  the implicit link is what is looked at

    _, error = pause_around(block, resume=second)
    assert isinstance(error, LookupError)
    assert error.__context__ is second
    assert second.__context__ is first
    assert first.__context__ is None


def test_what_a_failed_resume_was_handling_itself_stays_in_the_chain(pause_around):
    root, second = OSError("broken pipe"), TimeoutError("late")

    def resume():
        try:
            raise root
        except OSError:
            raise second  # noqa: B904  the implicit link is what is looked at

    _, error = pause_around(raising(LookupError("checkpoint")), resume=resume)
    assert error.__context__ is second
    assert second.__context__ is root
    assert root.__context__ is None


def test_an_explicit_cause_of_the_blocks_exception_is_kept(pause_around, partial):
    cause = KeyError("cause")

    def block(report):
        raise LookupError("checkpoint") from cause

    _, error = pause_around(block, resume=partial("w-1"))
    assert error.__cause__ is cause


def test_an_interrupted_resume_interrupts(pause_around):
    interruption = Interruption()
    _, error = pause_around(raising(LookupError("checkpoint")), resume=interruption)
    assert error is interruption


# --- when only the resume fails


@pytest.mark.parametrize(("kind", "arguments"), [(RlError, (400, "no_workers_match")), (TimeoutError, ("late",))])
def test_a_resume_that_fails_alone_is_raised(pause_around, kind, arguments):
    failure = kind(*arguments)
    fleet, error = pause_around(resume=failure)
    assert error is failure
    assert error.__context__ is None
    assert fleet.log == [PAUSE, "block", RESUME]


def test_a_resume_that_fails_on_some_workers_is_raised(pause_around, partial):
    failure = partial("w-1", "w-2")
    _, error = pause_around(resume=failure)
    assert error is failure


# --- the wrong twin


def test_clients_of_the_other_twin_are_refused_before_anything_is_sent():
    with pytest.raises(TypeError, match="aio"):
        paused(aio.RL("http://gateway"), "a=b")
    with pytest.raises(TypeError, match="blocks"):
        aio.paused(RL("http://gateway"), "a=b")


# --- cancellation


class SlowClient(aio.RL):
    """Each fan-out waits for its gate."""

    def __init__(self, *closed):
        super().__init__("http://gateway")
        self.log = []
        self.reached = asyncio.Event()
        self.closed = closed

    async def fanout(self, path, body=None, *, selector, timeout=None):  # noqa: ASYNC109  as the method it stands for
        self.log.append(path)
        if path in self.closed:
            self.reached.set()
            await asyncio.Event().wait()


async def paused_task(rl):
    async def run():
        async with aio.paused(rl, "a=b"):
            rl.log.append("block")
            rl.reached.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await rl.reached.wait()
    return task


async def test_a_cancelled_block_is_followed_by_the_resume():
    rl = SlowClient()
    task = await paused_task(rl)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rl.log == [PAUSE, "block", RESUME]


async def test_a_cancelled_pause_is_taken_back():
    rl = SlowClient(PAUSE)
    task = await paused_task(rl)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rl.log == [PAUSE, RESUME]


async def test_a_bound_around_the_block_is_followed_by_the_resume():
    rl = SlowClient()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), aio.paused(rl, "a=b"):
            await asyncio.Event().wait()
    assert rl.log == [PAUSE, RESUME]


async def test_a_second_cancellation_ends_the_resume():
    rl = SlowClient(RESUME)
    task = await paused_task(rl)
    rl.reached.clear()
    task.cancel()
    await rl.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rl.log == [PAUSE, "block", RESUME]
