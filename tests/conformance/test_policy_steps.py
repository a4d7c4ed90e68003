"""What a choice costs, counted in interpreter steps instead of time: how it grows, for every policy of the table.

Steps are executed instructions of Python code. They are the same on every machine and in every run; loops inside
built-in functions do not show, what feeds them does.
"""

import sys
from random import Random

import pytest

import smg.fleet.policies as table
from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.policies.base import PolicyContext
from smg.fleet.worker import LoadReport, Worker

HASHED = {"cache_index": "hash", "cache_boundaries": (16, 48)}


def steps(call):
    """How many instructions a call executes."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


class ClosedBreaker:
    def admits(self, now):
        return True


def fleet(count):
    """Busy workers that report: what costs a policy most."""
    urls = [f"http://worker-{number}:8000" for number in range(count)]
    return tuple(
        Worker(str(number), url, url, ClosedBreaker(), load=50, report=LoadReport(waiting_requests=number % 7))
        for number, url in enumerate(urls)
    )


def make(name, options):
    policy = table.load(name)
    return policy(PolicyContext(Random(1), lambda: 0.0), policy.options(**options))


def cost(name, options, workers, hints, warm=()):
    """The steps of a choice, once the policy has met the workers, the request and those of `warm`."""
    policy = make(name, options)
    for each in (*warm, hints, hints):
        policy.select(workers, each)
    return steps(lambda: policy.select(workers, hints))


def text(number, length=600):
    return Hints(text=(f"{number * 7919} " * length)[:length])


def tokens(number, length=64):
    return Hints(tokens=list(range(number * length, number * length + length)))


def bare(_):
    return NO_HINTS


def key(number):
    return Hints(routing_key=f"key {number}")


# Policy, options, requests, and how the cost grows with the number of workers.
ROWS = [
    ("bucket", {}, text, "linear"),
    ("cache_aware", {}, text, "linear"),
    ("cache_aware", {}, tokens, "linear"),
    ("cache_aware", HASHED, tokens, "linear"),
    ("consistent_hashing", {}, key, "constant"),
    ("least_load", {}, bare, "linear"),
    ("least_load", {"least_load_max_waiting_requests": 1_000_000}, bare, "linear"),
    ("manual", {}, key, "constant"),
    ("passthrough", {}, bare, "constant"),
    ("power_of_two", {}, bare, "constant"),
    ("prefix_hash", {}, text, "linear"),
    ("prefix_hash", {}, key, "linear"),
    ("random", {}, bare, "constant"),
    ("round_robin", {}, bare, "constant"),
]
every_row = pytest.mark.parametrize(
    ("name", "options", "request_of", "growth"),
    [pytest.param(*row, id="-".join([row[0], *row[1], row[2].__name__])) for row in ROWS],
)


def test_every_policy_has_a_row():
    assert {row[0] for row in ROWS} == set(table.POLICIES)


def test_steps_are_counted_and_always_the_same():
    def loop(count):
        return [number for number in range(count)]  # noqa: C416  something that takes steps

    few, many = steps(lambda: loop(10)), steps(lambda: loop(1000))
    assert 80 * few > many > 20 * few
    assert steps(lambda: loop(1000)) == many


@every_row
def test_the_cost_grows_with_the_workers_as_it_is_said_to(name, options, request_of, growth):
    ten, hundred, thousand = (cost(name, options, fleet(count), request_of(1)) for count in (10, 100, 1000))
    if growth == "constant":
        assert thousand <= ten + 100
    else:  # eleven times the growth from ten to a hundred, some ties and branches more or less
        assert thousand - ten <= 1.5 * 11 * max(hundred - ten, 100)


@every_row
def test_a_long_memory_costs_no_more_than_a_short_one(name, options, request_of, growth):
    workers = fleet(4)
    short = cost(name, options, workers, request_of(0), [request_of(number) for number in range(1, 20)])
    long = cost(name, options, workers, request_of(0), [request_of(number) for number in range(1, 3000)])
    assert long <= short + 200


@pytest.mark.parametrize(
    ("name", "request_of"), [("bucket", text), ("cache_aware", text), ("cache_aware", tokens), ("prefix_hash", text)]
)
def test_a_long_prompt_costs_hardly_more_than_a_short_one(name, request_of):
    workers = fleet(4)
    short, long = (cost(name, {}, workers, request_of(1, length)) for length in (100, 100_000))
    assert long <= short + 300
