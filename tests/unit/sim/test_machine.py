import pytest

from smg.sim.machine import Machine
from smg.sim.options import SimOptions
from smg.sim.output import Sampling
from smg.sim.prompt import text_prompt


def start(machine, prompt="hello there", now=0.0, tokens=8, rid="r"):
    sequence = machine.sequence(rid, text_prompt(prompt), Sampling(tokens), lambda _: None)
    machine.scheduler.submit(sequence, now)
    return sequence


@pytest.fixture
def machine():
    return Machine(SimOptions(tokens_per_second=1.0))


def test_an_abort_pause_ends_what_is_there_and_keeps_newcomers_waiting(machine):
    running = start(machine)
    machine.pause("abort", 0.5)
    assert running.ended == "abort"
    newcomer = start(machine, now=1.0)
    assert machine.stopped
    assert newcomer.produced == 0
    machine.resume(2.0)
    assert not machine.stopped
    assert newcomer.produced == 1


def test_an_abort_pause_lets_none_of_the_line_start_first():
    machine = Machine(SimOptions(tokens_per_second=1.0, max_running_requests=1))
    sequences = [start(machine) for _ in range(3)]
    machine.pause("abort", 0.5)
    assert [s.produced for s in sequences] == [1, 0, 0]
    assert all(s.ended == "abort" for s in sequences)


def test_aborting_everything_lets_none_of_the_line_start_either():
    machine = Machine(SimOptions(tokens_per_second=1.0, max_running_requests=1))
    sequences = [start(machine) for _ in range(3)]
    assert machine.abort_all(0.5) == 3
    assert [s.produced for s in sequences] == [1, 0, 0]


def test_a_keep_pause_stands_still(machine):
    running = start(machine)
    machine.pause("keep", 1.0)
    machine.scheduler.tick(9.0)
    assert (running.produced, running in machine.scheduler.running) == (2, True)
    machine.resume(11.0)
    machine.scheduler.tick(12.0)
    assert running.produced == 3


def test_a_retract_pause_sends_them_back_in_line(machine):
    running = start(machine)
    machine.pause("retract", 1.0)
    assert list(machine.scheduler.waiting) == [running]
    assert machine.flush_cache()
    machine.resume(2.0)
    assert running in machine.scheduler.running


def test_a_wait_pause_lets_them_finish(machine):
    running = start(machine, tokens=2)
    machine.pause("wait", 0.5)
    newcomer = start(machine, now=0.6)
    assert machine.stopped
    machine.scheduler.tick(1.0)
    assert running.ended == "stop"
    assert machine.idle
    assert newcomer.produced == 0
    machine.resume(2.0)
    assert newcomer.produced == 1


def test_pausing_twice_in_different_ways_needs_one_resume(machine):
    machine.pause("wait", 0.0)
    machine.pause("wait", 0.0)
    machine.pause("keep", 0.0)
    machine.resume(1.0)
    assert start(machine, now=1.0).produced == 1


def test_a_sleeping_engine_wakes_when_all_its_memory_is_back(machine):
    machine.cache.insert([1])
    machine.sleep({"weights", "kv_cache"}, 0.0)
    assert len(machine.cache) == 0
    waiting = start(machine, now=0.5)
    machine.wake({"weights"}, 1.0)
    assert waiting.produced == 0
    machine.wake({"kv_cache"}, 2.0)
    assert waiting.produced == 1


def test_resuming_does_not_wake_and_waking_does_not_resume(machine):
    machine.pause("keep", 0.0)
    machine.sleep({"weights"}, 0.0)
    machine.resume(1.0)
    assert machine.stopped
    machine.pause("keep", 1.0)
    machine.wake({"weights"}, 2.0)
    assert machine.stopped
    machine.resume(3.0)
    assert not machine.stopped


def test_new_weights_write_the_rest_of_a_running_answer(machine):
    running = start(machine)
    before = running.output.text
    machine.scheduler.tick(1.0)
    machine.load_weights("v2", model_path="/ckpt/2")
    fresh = machine.sequence("n", running.prompt, Sampling(8), lambda _: None)
    assert running.output.text[:8] == before[:8]
    assert running.output.text[8:] == fresh.output.text[8:] != before[8:]
    assert (machine.weight_version, machine.model_path, machine.weight_updates) == ("v2", "/ckpt/2", 1)


def test_new_weights_write_all_of_a_waiting_answer(machine):
    machine.pause("keep", 0.0)
    waiting = start(machine)
    machine.load_weights("v2")
    assert waiting.output.text == machine.sequence("n", waiting.prompt, Sampling(8), lambda _: None).output.text


def test_weights_without_a_version_keep_the_old_one(machine):
    machine.load_weights(None)
    assert (machine.weight_version, machine.weight_updates) == ("default", 1)


def test_a_cache_in_use_is_not_flushed(machine):
    start(machine)
    assert not machine.flush_cache()
    machine.abort_all(0.0)
    assert machine.flush_cache()


def test_requests_are_aborted_by_their_ids(machine):
    first, second = start(machine, rid="a_0"), start(machine, rid="b_0")
    assert machine.abort_requests("a", 0.0) == 1
    assert (first.ended, second.ended) == ("abort", None)


def test_the_state_counts_everything(machine):
    start(machine, prompt="x" * 128)
    machine.scheduler.tick(20.0)
    start(machine, prompt="x" * 128, now=20.0)
    state = machine.state(20.0)
    assert state["running"] == 1
    assert state["served"] == 1
    assert state["prompt_tokens"] == 64
    assert state["cached_tokens"] == 16
    assert state["generated_tokens"] == 9
    assert state["cache"]["hit_rate"] == 0.25
