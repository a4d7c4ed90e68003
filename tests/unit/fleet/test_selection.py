import random

import pytest

from smg.errors import PlacementError
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.placement import Placement
from smg.fleet.registry import Registry
from smg.fleet.selection import Selector, available, fleet_http
from smg.fleet.sticky import StickyOptions, StickySessions
from smg.fleet.worker import ModelCard, Status, Worker


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Recording:
    """A policy that notes what it is offered and takes the first, or what `choose` says."""

    name = "recording"

    def __init__(self):
        self.offered = []
        self.choose = lambda workers: workers[0]

    def select(self, workers, hints):
        self.offered.append(workers)
        return self.choose(workers)


class OnePolicy:
    def __init__(self, policy):
        self.policy = policy

    def of(self, model):
        return self.policy


class Fleet:
    """A registry, a selector on it, and what it told."""

    def __init__(self, *names, sessions=None, **options):
        self.clock = Clock()
        self.registry = Registry({"nick": "m"})
        self.policy = Recording()
        self.sheds = []
        self.selector = Selector(
            self.registry,
            OnePolicy(self.policy),
            sessions,
            self.clock,
            shed_retry_secs=7,
            on_shed=self.sheds.append,
            **options,
        )
        self.workers = {name: self.add(name) for name in names}

    def add(self, name, *, model="m", **fields):
        breaker = Breaker(
            BreakerOptions(failure_threshold=1, timeout_secs=60), lambda _old, _new: self.selector.recheck()
        )
        url = f"http://{name}"
        models = (ModelCard(model),) if model else ()
        worker = Worker(name, url, url, breaker, models=models, status=fields.pop("status", Status.READY), **fields)
        self.registry.add(worker)
        return worker

    def overload(self, name, overloaded=True):
        self.workers[name].overloaded = overloaded
        self.selector.recheck()

    def place(self, model="m", avoid=()):
        return self.selector.place(model, NO_HINTS, avoid).worker.id

    def refusal(self, model="m"):
        with pytest.raises(PlacementError) as caught:
            self.selector.place(model, NO_HINTS)
        return caught.value

    def offered(self):
        """The names of the candidates of a placement."""
        self.place()
        return [worker.id for worker in self.policy.offered[-1]]


def test_the_policy_chooses_among_the_model_s_workers():
    fleet = Fleet("a", "b")
    fleet.add("c", model="other")
    assert fleet.offered() == ["a", "b"]
    fleet.policy.choose = lambda workers: workers[1]
    assert fleet.place() == "b"


def test_a_request_without_a_model_may_go_anywhere():
    fleet = Fleet("a")
    fleet.add("c", model="other")
    fleet.place(None)
    assert [worker.id for worker in fleet.policy.offered[-1]] == ["a", "c"]


def test_a_model_that_nobody_serves_is_not_found():
    assert Fleet("a").refusal("other").code == "model_not_found"
    assert Fleet().refusal(None).code == "no_available_workers"


def test_candidates_are_the_snapshot_s_own_tuple_while_nobody_is_left_out():
    fleet = Fleet("a", "b")
    for _ in range(2):
        fleet.place()
    assert fleet.policy.offered[0] is fleet.policy.offered[1] is fleet.registry.snapshot.models["m"]


def test_narrowed_candidates_are_one_tuple_until_something_changes():
    fleet = Fleet("a", "b", "c")
    fleet.overload("b")
    for _ in range(2):
        fleet.place()
    assert type(fleet.policy.offered[0]) is tuple
    assert fleet.policy.offered[0] is fleet.policy.offered[1]


@pytest.mark.parametrize("status", [Status.PENDING, Status.NOT_READY, Status.FAILED, Status.DRAINING])
def test_only_ready_workers_are_candidates(status):
    fleet = Fleet("a", "b")
    fleet.place()
    fleet.registry.set_status("a", status, 0)
    assert fleet.offered() == ["b"]
    fleet.registry.set_status("b", status, 0)
    assert fleet.refusal().code == "no_available_workers"


def test_a_worker_that_is_ready_again_is_a_candidate_again():
    fleet = Fleet("a", "b")
    fleet.registry.set_status("a", Status.NOT_READY, 0)
    assert fleet.offered() == ["b"]
    fleet.registry.set_status("a", Status.READY, 0)
    assert fleet.offered() == ["a", "b"]


def test_workers_that_come_and_go_are_seen_at_once():
    fleet = Fleet("a")
    assert fleet.offered() == ["a"]
    fleet.workers["b"] = fleet.add("b")
    assert fleet.offered() == ["a", "b"]
    fleet.registry.remove("a")
    assert fleet.offered() == ["b"]


def test_an_open_breaker_leaves_a_worker_out_until_its_time_is_over():
    fleet = Fleet("a", "b")
    assert fleet.offered() == ["a", "b"]
    fleet.workers["a"].breaker.failed(fleet.clock.now)
    fleet.clock.now = 59
    assert fleet.offered() == ["b"]
    fleet.clock.now = 60
    assert fleet.offered() == ["a", "b"]


@pytest.mark.parametrize("fields", [{"worker_type": "prefill"}, {"connection_mode": "grpc"}])
def test_workers_of_another_kind_are_no_candidates(fields):
    fleet = Fleet("a")
    fleet.add("b", **fields)
    assert fleet.offered() == ["a"]
    fleet.registry.remove("a")
    assert fleet.refusal().code == "no_available_workers"


def test_a_policy_that_selects_nobody_leaves_no_worker():
    fleet = Fleet("a")
    fleet.policy.choose = lambda _workers: None
    assert fleet.refusal().code == "no_available_workers"


def test_a_worker_that_failed_the_request_is_avoided_while_another_one_is_there():
    fleet = Fleet("a", "b")
    avoid = (fleet.workers["a"],)
    assert fleet.place(avoid=avoid) == "b"
    fleet.registry.remove("b")
    assert fleet.place(avoid=avoid) == "a"


def test_a_change_that_nobody_announced_is_still_respected():
    fleet = Fleet("a", "b")
    assert fleet.place() == "a"
    fleet.workers["a"].overloaded = True
    assert fleet.place() == "b"
    fleet.workers["b"].overloaded = True
    assert fleet.refusal().code == "worker_overload_protection_shed"
    fleet.workers["b"].overloaded = False
    assert fleet.place() == "b"


# --- overload


def test_an_overloaded_worker_gets_nothing_while_another_one_is_not():
    fleet = Fleet("a", "b")
    fleet.overload("a")
    assert fleet.offered() == ["b"]
    fleet.overload("a", False)
    assert fleet.offered() == ["a", "b"]
    assert fleet.sheds == []


def test_a_fleet_that_is_overloaded_as_a_whole_sheds():
    fleet = Fleet("a", "b")
    fleet.overload("a")
    fleet.overload("b")
    error = fleet.refusal()
    assert (error.code, error.status, error.retry_after_secs) == ("worker_overload_protection_shed", 503, 7)
    assert not error.kind.retryable
    assert "'m'" in error.message
    assert fleet.sheds == ["selection"]
    fleet.overload("b", False)
    assert fleet.place() == "b"


@pytest.mark.parametrize("status", [Status.NOT_READY, Status.DRAINING, Status.FAILED])
def test_mixed_causes_are_no_shed(status):
    fleet = Fleet("a", "b")
    fleet.overload("a")
    fleet.registry.set_status("b", status, 0)
    error = fleet.refusal()
    assert error.code == "no_available_workers"
    assert error.kind.retryable
    assert fleet.sheds == []


def test_an_open_breaker_beside_overload_is_no_shed():
    fleet = Fleet("a", "b")
    fleet.overload("a")
    fleet.overload("b")
    fleet.workers["b"].breaker.failed(fleet.clock.now)
    assert fleet.refusal().code == "no_available_workers"


def test_workers_of_another_kind_have_no_say_in_whether_to_shed():
    fleet = Fleet("a")
    fleet.add("b", worker_type="decode")
    fleet.overload("a")
    assert fleet.refusal().code == "worker_overload_protection_shed"


def test_overload_of_one_model_is_not_another_s():
    fleet = Fleet("a")
    fleet.add("b", model="other")
    fleet.overload("a")
    assert fleet.place("other") == "b"


def test_a_worker_that_becomes_overloaded_before_dispatch_is_vetoed():
    fleet = Fleet("a", "b")
    worker = fleet.workers["a"]
    fleet.place()
    fleet.overload("a")
    with pytest.raises(PlacementError) as caught:
        fleet.selector.lease(Placement(worker), NO_HINTS)
    assert (caught.value.code, caught.value.retry_after_secs) == ("worker_overload_protection_shed", 7)
    assert worker.url in caught.value.message
    assert (worker.load, worker.dispatched_tokens) == (0, 0)
    assert fleet.sheds == ["dispatch"]


def test_whether_anybody_could_take_a_request_is_known_beforehand():
    fleet = Fleet("a", "b")
    a, b = fleet.workers.values()
    assert fleet.selector.can_place("m")
    assert fleet.selector.can_place("m", besides=a)
    fleet.overload("b")
    assert not fleet.selector.can_place("m", besides=a)
    assert fleet.selector.can_place("m", besides=b)
    fleet.overload("a")
    assert not fleet.selector.can_place("m")
    assert not fleet.selector.can_place("unknown")


# --- leases


def test_a_lease_counts_as_load_until_it_is_released():
    fleet = Fleet("a")
    worker = fleet.workers["a"]
    fleet.selector.lease(Placement(worker), NO_HINTS)
    fleet.selector.lease(Placement(worker), NO_HINTS)
    assert worker.load == 2
    fleet.selector.release(Placement(worker), NO_HINTS)
    assert worker.load == 1


@pytest.mark.parametrize(
    ("hints", "tokens"),
    [(NO_HINTS, 1024), (Hints(text="x" * 9), 1024), (Hints(tokens=[1, 2, 3]), 3), (Hints(tokens=[]), 1024)],
)
def test_a_lease_charges_the_worker_with_the_prompt_s_tokens_or_a_mean(hints, tokens):
    fleet = Fleet("a")
    worker = fleet.workers["a"]
    fleet.selector.lease(Placement(worker), hints)
    fleet.selector.release(Placement(worker), hints)
    assert worker.dispatched_tokens == tokens


def test_the_mean_is_an_option():
    fleet = Fleet("a", mean_prefill_tokens=10)
    fleet.selector.lease(Placement(fleet.workers["a"]), NO_HINTS)
    assert fleet.workers["a"].dispatched_tokens == 10


def test_a_session_stays_with_its_worker():
    sessions = StickySessions(StickyOptions("delegate"), random.Random(1), Clock())
    fleet = Fleet("a", "b", sessions=sessions)
    hints = Hints(session="s")
    assert fleet.selector.place("m", hints).worker.id == "a"
    fleet.policy.choose = lambda workers: workers[-1]
    assert fleet.selector.place("m", hints).worker.id == "a"
    fleet.overload("a")
    assert fleet.selector.place("m", hints).worker.id == "b"


def restricted(*names):
    return Fleet(*names, filters=(fleet_http, available), incapable=("decisions_not_supported",))


def test_a_selector_with_filters_of_its_own_places_only_on_those_who_can_serve():
    fleet = restricted("a")
    fleet.add("outside", runtime="external")
    fleet.add("prefill", worker_type="prefill")
    fleet.add("b", runtime="sglang")
    assert fleet.offered() == ["a", "b"]


@pytest.mark.parametrize(
    "fields",
    [{"runtime": "external"}, {"worker_type": "prefill"}, {"worker_type": "decode"}, {"connection_mode": "zmq"}],
)
def test_a_model_whose_workers_can_never_serve_a_request_is_refused_by_the_selector_s_own_code(fields):
    fleet = restricted()
    worker = fleet.add("a", **fields)
    assert fleet.refusal().code == "decisions_not_supported"
    fleet.registry.set_status(worker.id, Status.NOT_READY, 0)
    assert fleet.refusal().code == "decisions_not_supported"
    assert fleet.refusal("other").code == "model_not_found"


def test_workers_that_could_serve_but_not_now_are_no_reason_to_say_that_nobody_can():
    fleet = restricted("a")
    fleet.add("outside", runtime="external")
    fleet.overload("a")
    assert fleet.refusal().code == "worker_overload_protection_shed"
    fleet.registry.set_status("a", Status.NOT_READY, 0)
    refusal = fleet.refusal()
    assert (refusal.code, refusal.retryable) == ("no_available_workers", True)
