import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.health import HealthMachine, HealthOptions, health_options
from smg.fleet.spec import HealthSpec, WorkerSpec
from smg.fleet.worker import Status, Worker

OPTIONS = HealthOptions(success_threshold=2, failure_threshold=3)


def walk(status, probes, options=OPTIONS):
    """The statuses that a worker moves through, probe by probe ("+" good, "-" bad)."""
    machine = HealthMachine()
    seen = []
    for probe in probes:
        target = machine.feed(status, options, good=probe == "+")
        status = target or status
        seen.append(status)
    return seen


def ends(status, probes, options=OPTIONS):
    return walk(status, probes, options)[-1]


@pytest.mark.parametrize(
    ("status", "probes", "end"),
    [
        (Status.PENDING, "+", Status.PENDING),
        (Status.PENDING, "++", Status.READY),
        (Status.PENDING, "-" * 29, Status.PENDING),
        (Status.PENDING, "-" * 30, Status.FAILED),
        (Status.PENDING, "+-" * 15, Status.FAILED),
        (Status.READY, "--", Status.READY),
        (Status.READY, "---", Status.NOT_READY),
        (Status.READY, "--+--+--", Status.READY),
        (Status.NOT_READY, "+", Status.NOT_READY),
        (Status.NOT_READY, "+-+-+", Status.NOT_READY),
        (Status.NOT_READY, "++", Status.READY),
        (Status.NOT_READY, "-" * 8, Status.NOT_READY),
        (Status.NOT_READY, "-" * 9, Status.FAILED),
        (Status.FAILED, "-" * 100, Status.FAILED),
        (Status.FAILED, "-++", Status.READY),
        (Status.DRAINING, "+" * 50 + "-" * 50, Status.DRAINING),
    ],
)
def test_probes_move_a_worker(status, probes, end):
    assert ends(status, probes) is end


def test_counts_start_anew_with_every_move():
    seen = walk(Status.READY, "---" + "-" * 9)
    assert seen.index(Status.NOT_READY) == 2
    assert seen.index(Status.FAILED) == 11


def test_counts_start_anew_when_somebody_else_moved_the_worker():
    machine = HealthMachine()
    assert machine.feed(Status.READY, OPTIONS, good=False) is None
    assert machine.feed(Status.READY, OPTIONS, good=False) is None
    assert machine.feed(Status.NOT_READY, OPTIONS, good=True) is None
    assert machine.feed(Status.READY, OPTIONS, good=False) is None


def test_thresholds_are_options():
    twitchy = HealthOptions(success_threshold=1, failure_threshold=1)
    assert ends(Status.READY, "-", twitchy) is Status.NOT_READY
    assert ends(Status.READY, "-+", twitchy) is Status.READY
    assert ends(Status.READY, "----", twitchy) is Status.FAILED


@given(st.lists(st.booleans(), max_size=80), st.integers(1, 4), st.integers(1, 4))
def test_only_enough_good_probes_in_a_row_make_a_worker_ready(probes, success_threshold, failure_threshold):
    options = HealthOptions(success_threshold=success_threshold, failure_threshold=failure_threshold)
    status = Status.NOT_READY
    machine = HealthMachine()
    streak = 0
    for good in probes:
        streak = streak + 1 if good else 0
        target = machine.feed(status, options, good=good)
        if target is Status.READY:
            assert streak >= success_threshold
        elif status is not Status.READY:
            assert streak < success_threshold
        status = target or status


def worker(runtime="sglang", **health):
    spec = WorkerSpec(url="http://h:1", health=HealthSpec(**health))
    return Worker("w", "http://h:1", "http://h:1", Breaker(BreakerOptions()), runtime=runtime, spec=spec)


def test_a_workers_own_settings_replace_the_gateways():
    own = health_options(HealthOptions(), worker(timeout_secs=1, check_interval_secs=2, drain_settle_secs=0))
    assert own == HealthOptions(timeout_secs=1, interval_secs=2, drain_settle_secs=0)


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("runtime", ["sglang", "external"])
def test_a_workers_own_word_decides_whether_it_is_probed(default, runtime):
    defaults = HealthOptions(enabled=default)
    assert health_options(defaults, worker(runtime, disable_health_check=True)).enabled is False
    assert health_options(defaults, worker(runtime, disable_health_check=False)).enabled is True


def test_a_provider_is_not_probed_unless_asked():
    assert health_options(HealthOptions(), worker("external")).enabled is False
    assert health_options(HealthOptions(), worker("sglang")).enabled is True
