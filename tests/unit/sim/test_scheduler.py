from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.sim.output import Output, Sampling
from smg.sim.prefix_cache import PrefixCache
from smg.sim.prompt import text_prompt
from smg.sim.scheduler import Pace, Scheduler, Sequence


class Bench:
    """A scheduler and the sequences given to it."""

    def __init__(self, *, token=0.0, prefill=0.0, ttft=0.0, places=4, kv=100_000):
        self.scheduler = Scheduler(Pace(token, prefill, ttft), places, kv, PrefixCache(1000))
        self.heard = []
        self.added = []
        self.holds = 0

    def add(self, now=0.0, *, prompt="hello", tokens=4):
        output = Output("x" * (4 * tokens), tokens, "stop")
        sequence = Sequence("r", text_prompt(prompt), Sampling(tokens), output, self.heard.append)
        self.scheduler.submit(sequence, now)
        return sequence

    def hold(self):
        self.holds += 1
        self.scheduler.hold()

    def release(self, now):
        if self.holds:
            self.holds -= 1
            self.scheduler.release(now)


def test_an_engine_without_rates_answers_at_once():
    bench = Bench()
    sequence = bench.add()
    assert (sequence.produced, sequence.ended) == (4, "stop")
    assert bench.heard == [sequence]
    assert bench.scheduler.next_due == inf


def test_tokens_appear_at_the_rate():
    bench = Bench(token=0.5)
    sequence = bench.add(10.0)
    produced = []
    for now in (10.0, 10.4, 10.5, 11.2, 11.5):
        bench.scheduler.tick(now)
        produced.append(sequence.produced)
    assert produced == [1, 1, 2, 3, 4]
    assert sequence.ended == "stop"


def test_the_next_due_time_is_that_of_the_next_token():
    bench = Bench(token=0.5)
    bench.add(10.0)
    assert bench.scheduler.next_due == pytest.approx(10.5)
    bench.scheduler.tick(10.7)
    assert bench.scheduler.next_due == pytest.approx(11.0)


def test_late_ticks_lose_no_token():
    bench = Bench(token=0.1)
    sequence = bench.add(tokens=100)
    bench.scheduler.tick(5.0)
    assert sequence.produced == 51


@given(st.floats(0.0005, 0.3), st.integers(1, 200), st.floats(0, 1e6))
def test_ticking_when_due_produces_every_token_in_turn(token_secs, tokens, start):
    bench = Bench(token=token_secs)
    sequence = bench.add(start, tokens=tokens)
    for _ in range(tokens - 1):
        before = sequence.produced
        bench.scheduler.tick(bench.scheduler.next_due)
        assert sequence.produced > before
    assert sequence.ended == "stop"


def test_prefill_takes_the_prompt_one_after_the_other():
    bench = Bench(prefill=0.1, ttft=1.0)
    first, second = bench.add(prompt="a" * 40), bench.add(prompt="b" * 40)
    assert first.first_token_at == pytest.approx(2.0)
    assert second.first_token_at == pytest.approx(3.0)


def test_cached_tokens_cost_no_prefill():
    bench = Bench(prefill=0.1)
    bench.add(prompt="a" * 640)
    bench.scheduler.tick(16.0)
    again = bench.add(20.0, prompt="a" * 640)
    assert again.cached_tokens == 144  # all but the last block: the last token is always computed
    assert again.first_token_at == pytest.approx(21.6)
    other = bench.add(30.0, prompt="a" * 320 + "b" * 320)
    assert other.cached_tokens == 80


def test_what_was_generated_is_cached_too():
    bench = Bench()
    sequence = bench.add(prompt="q" * 64, tokens=32)
    after = bench.add(prompt="q" * 64 + sequence.text + "more")
    assert after.cached_tokens == 48


def test_the_line_is_first_come_first_served():
    bench = Bench(token=1.0, places=1)
    sequences = [bench.add(tokens=2) for _ in range(3)]
    assert [s in bench.scheduler.running for s in sequences] == [True, False, False]
    bench.scheduler.tick(1.0)
    assert [s.produced for s in sequences] == [2, 1, 0]
    bench.scheduler.tick(2.0)
    assert [s.produced for s in sequences] == [2, 2, 1]


def test_a_line_before_an_instant_engine_empties_at_once():
    bench = Bench(places=1)
    bench.scheduler.hold()
    sequences = [bench.add() for _ in range(50)]
    bench.scheduler.release(0.0)
    assert all(s.ended for s in sequences)


def test_requests_wait_for_room_in_the_kv_cache_in_order():
    bench = Bench(token=1.0, kv=30)
    big = bench.add(prompt="x" * 60, tokens=10)
    too_big = bench.add(prompt="y" * 60, tokens=10)
    small = bench.add(prompt="z", tokens=1)
    assert list(bench.scheduler.running) == [big]
    assert list(bench.scheduler.waiting) == [too_big, small]
    bench.scheduler.tick(9.0)
    assert too_big.produced == 1


def test_a_request_larger_than_the_cache_runs_alone():
    bench = Bench(token=1.0, kv=10)
    assert bench.add(prompt="x" * 400) in bench.scheduler.running


def test_an_aborted_request_makes_room():
    bench = Bench(token=1.0, places=1)
    first, second = bench.add(), bench.add()
    assert bench.scheduler.abort(first, 0.5)
    assert (first.ended, first.produced) == ("abort", 1)
    assert second in bench.scheduler.running
    assert not bench.scheduler.abort(first, 0.6)
    assert bench.scheduler.aborted == 1


def test_an_aborted_request_leaves_the_line():
    bench = Bench(token=1.0, places=1)
    bench.add()
    waiting = bench.add()
    assert bench.scheduler.abort(waiting, 0.0)
    assert not bench.scheduler.waiting


def test_a_frozen_engine_produces_nothing_and_loses_nothing():
    bench = Bench(token=1.0)
    sequence = bench.add(tokens=4)
    bench.scheduler.freeze(1.5)
    bench.scheduler.tick(50.0)
    newcomer = bench.add(50.0)
    assert (sequence.produced, newcomer.produced) == (2, 0)
    assert bench.scheduler.next_due == inf
    bench.scheduler.thaw(101.5)
    assert (sequence.produced, newcomer.produced) == (2, 1)
    bench.scheduler.tick(102.0)
    assert sequence.produced == 3


def test_prefill_stands_still_as_well():
    bench = Bench(prefill=1.0)
    sequence = bench.add(prompt="x" * 16)
    bench.scheduler.freeze(2.0)
    bench.scheduler.thaw(12.0)
    assert sequence.first_token_at == pytest.approx(14.0)
    assert bench.add(12.0, prompt="y" * 4).first_token_at == pytest.approx(15.0)


def test_the_retracted_go_back_in_line_first_and_are_prefilled_again():
    bench = Bench(token=1.0, prefill=0.5, places=2)
    first = bench.add(prompt="a" * 16, tokens=9)
    second = bench.add(prompt="b" * 16, tokens=9)
    third = bench.add(prompt="c" * 16, tokens=9)
    bench.scheduler.tick(4.0)
    assert (first.produced, second.produced) == (3, 1)
    bench.scheduler.freeze(4.0, retract=True)
    assert list(bench.scheduler.waiting) == [first, second, third]
    assert first.retractions == 1
    bench.scheduler.thaw(10.0)
    # Four tokens of prompt and three of its answer so far.
    bench.scheduler.tick(13.4)
    assert first.produced == 3
    bench.scheduler.tick(13.5)
    assert first.produced == 4


def test_a_held_engine_finishes_what_it_has_and_starts_nothing():
    bench = Bench(token=1.0)
    running = bench.add(tokens=2)
    bench.scheduler.hold()
    waiting = bench.add()
    bench.scheduler.tick(1.0)
    assert running.ended == "stop"
    assert waiting.produced == 0
    bench.scheduler.release(2.0)
    assert waiting.produced == 1


def test_a_request_without_output_ends_with_its_prefill():
    bench = Bench(token=1.0, prefill=1.0)
    sequence = bench.add(prompt="x" * 8, tokens=0)
    bench.scheduler.tick(1.9)
    assert sequence.ended is None
    bench.scheduler.tick(2.0)
    assert (sequence.ended, sequence.produced) == ("stop", 0)


def test_used_tokens_are_prompt_and_answer_so_far():
    bench = Bench(token=1.0)
    bench.add(prompt="x" * 40)
    bench.scheduler.tick(2.0)
    assert bench.scheduler.used_tokens == 13


STEPS = {
    "add": lambda b, now: b.added.append(b.add(now, prompt="p" * 40)),
    "tick": lambda b, now: b.scheduler.tick(now),
    "abort": lambda b, now: b.added and b.scheduler.abort(b.added[len(b.added) // 2], now),
    "freeze": lambda b, now: b.scheduler.freeze(now),
    "retract": lambda b, now: b.scheduler.freeze(now, retract=True),
    "thaw": lambda b, now: b.scheduler.thaw(now),
    "hold": lambda b, now: b.hold(),
    "release": lambda b, now: b.release(now),
}


@given(st.lists(st.sampled_from(list(STEPS)), max_size=60))
def test_whatever_happens_the_bounds_hold_and_nothing_is_lost(steps):
    bench = Bench(token=0.5, prefill=0.01, places=2, kv=60)
    scheduler, now = bench.scheduler, 0.0
    for step in steps:
        now += 0.3
        STEPS[step](bench, now)
        assert len(scheduler.running) <= 2
        assert len(scheduler.live()) == sum(s.ended is None for s in bench.added)
        assert scheduler._reserved_tokens == sum(s.reserved_tokens for s in scheduler.running)
    while bench.holds:
        bench.release(now)
    scheduler.thaw(now)
    for _ in range(100 * len(bench.added)):
        now += 0.5
        scheduler.tick(now)
    assert all(s.ended for s in bench.added)
