from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.errors import PlacementError
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.pairing import compatible, kind_of
from smg.fleet.pairs import PairSelector, partners
from smg.fleet.placement import Placement
from smg.fleet.policies.base import PolicyContext
from smg.fleet.policy_book import Policies
from smg.fleet.registry import Registry
from smg.fleet.worker import ModelCard, Status, Worker


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Recording:
    """A policy that notes what it is offered and takes the first, or what `choose` says."""

    def __init__(self, *, reads_text=False, reads_keys=False):
        self.reads_text = reads_text
        self.reads_keys = reads_keys
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
    """A registry, a selector of pairs on it, and what it told. Names that begin with p are prefill workers."""

    def __init__(self, *names, **options):
        self.clock = Clock()
        self.registry = Registry()
        self.prefill, self.decode = Recording(), Recording()
        self.sheds = []
        self.selector = PairSelector(
            self.registry,
            OnePolicy(self.prefill),
            OnePolicy(self.decode),
            self.clock,
            shed_retry_secs=7,
            on_shed=self.sheds.append,
            **options,
        )
        self.workers = {name: self.add(name) for name in names}

    def add(self, name, *, model="m", kind=None, **fields):
        breaker = Breaker(
            BreakerOptions(failure_threshold=1, timeout_secs=60), lambda _old, _new: self.selector.recheck()
        )
        url = f"http://{name}"
        fields = {"status": Status.READY, "runtime": "sglang", **fields}
        worker = Worker(
            name,
            url,
            url,
            breaker,
            models=(ModelCard(model),) if model else (),
            worker_type=kind or ("prefill" if name.startswith("p") else "decode"),
            **fields,
        )
        self.registry.add(worker)
        return worker

    def overload(self, name, overloaded=True):
        self.workers[name].overloaded = overloaded
        self.selector.recheck()

    def place(self, model="m", avoid=()):
        placement = self.selector.place(model, NO_HINTS, [self.workers[name] for name in avoid])
        return placement.prefill.id, placement.worker.id

    def refusal(self, model="m"):
        with pytest.raises(PlacementError) as caught:
            self.selector.place(model, NO_HINTS)
        return caught.value

    def offered(self, avoid=()):
        """The names of the candidates of both legs."""
        self.place(avoid=avoid)
        return tuple([worker.id for worker in policy.offered[-1]] for policy in (self.prefill, self.decode))


# --- who may be chosen


def test_each_leg_has_a_policy_of_its_own():
    fleet = Fleet("p1", "p2", "d1", "d2")
    assert fleet.offered() == (["p1", "p2"], ["d1", "d2"])
    fleet.prefill.choose = lambda workers: workers[1]
    assert fleet.place() == ("p2", "d1")


def test_only_legs_over_http_take_part():
    fleet = Fleet("p1", "d1")
    fleet.add("p-grpc", connection_mode="grpc")
    fleet.add("whole", kind="regular")
    fleet.add("pictures", kind="encode")
    assert fleet.offered() == (["p1"], ["d1"])


def test_decode_is_chosen_among_the_partners_of_prefill():
    fleet = Fleet("p1", "d1")
    fleet.workers["p2"] = fleet.add("p2", runtime="vllm")
    fleet.workers["d2"] = fleet.add("d2", runtime="vllm")
    assert fleet.offered() == (["p1", "p2"], ["d1"])
    fleet.prefill.choose = lambda workers: workers[1]
    assert fleet.offered() == (["p1", "p2"], ["d2"])


def test_a_prefill_worker_without_an_available_partner_is_no_candidate():
    fleet = Fleet("p1", "d1")
    fleet.add("p2", runtime="vllm")
    fleet.add("d2", runtime="vllm", status=Status.NOT_READY)
    assert fleet.offered() == (["p1"], ["d1"])


def test_a_request_without_a_model_gets_legs_of_one_model():
    fleet = Fleet()
    for name, model in (("p1", "m"), ("d2", "n"), ("d1", "m"), ("p2", "n")):
        fleet.add(name, model=model)
    assert fleet.place(None) == ("p1", "d1")
    fleet.prefill.choose = lambda workers: workers[1]
    assert fleet.place(None) == ("p2", "d2")


def test_candidates_are_the_same_tuples_until_something_changes():
    fleet = Fleet("p1", "d1", "d2")
    fleet.place()
    fleet.place()
    for policy in (fleet.prefill, fleet.decode):
        assert policy.offered[0] is policy.offered[1]
    fleet.add("d3")
    assert fleet.offered() == (["p1"], ["d1", "d2", "d3"])
    fleet.registry.set_status("d2", Status.NOT_READY, fleet.workers["d2"].revision)
    assert fleet.offered() == (["p1"], ["d1", "d3"])


def test_prefill_workers_of_one_kind_share_their_partners():
    """So that a rotation among these goes on, whichever prefill worker was chosen before."""
    fleet = Fleet("p1", "p2", "d1", "d2")
    fleet.place()
    fleet.prefill.choose = lambda workers: workers[1]
    fleet.place()
    assert fleet.decode.offered[0] is fleet.decode.offered[1]


def test_a_breaker_that_opens_takes_its_worker_out_until_its_time_is_over():
    fleet = Fleet("p1", "d1", "d2")
    fleet.place()
    fleet.workers["d1"].breaker.failed(0.0)
    assert fleet.offered() == (["p1"], ["d2"])
    fleet.clock.now = 60.0
    assert fleet.offered() == (["p1"], ["d1", "d2"])


def test_nobody_is_turned_away_on_memory_alone():
    fleet = Fleet("p1", "d1")
    fleet.workers["d1"].status = Status.NOT_READY
    fleet.selector.recheck()
    assert fleet.refusal().code == "no_available_workers"
    fleet.workers["d1"].status = Status.READY
    assert fleet.place() == ("p1", "d1")


def test_a_worker_that_changed_without_a_word_is_looked_at_again():
    fleet = Fleet("p1", "d1", "d2")
    fleet.place()
    fleet.workers["d1"].overloaded = True
    assert fleet.place() == ("p1", "d2")


labels = st.dictionaries(st.sampled_from(["page_size", "pairing_protocol"]), st.sampled_from("ab"), max_size=2)
members = st.tuples(st.sampled_from(["prefill", "decode"]), st.sampled_from(["sglang", "vllm"]), labels)


@given(st.lists(members, max_size=8))
def test_partners_are_all_that_fit_in_their_order(rows):
    workers = [
        Worker(str(n), f"http://{n}", f"http://{n}", None, worker_type=kind, runtime=runtime, labels=facts)
        for n, (kind, runtime, facts) in enumerate(rows)
    ]
    fitting = {}
    for prefill, decode in product(workers, workers):
        legs = (prefill.worker_type, decode.worker_type) == ("prefill", "decode")
        if legs and compatible(kind_of(prefill), kind_of(decode)):
            fitting.setdefault(prefill.id, []).append(decode)
    assert {name: list(found) for name, found in partners(workers).items()} == fitting


# --- avoiding those that failed


@pytest.mark.parametrize(
    ("names", "avoid", "expected"),
    [
        (["p1", "p2", "d1", "d2"], ["p1"], ("p2", "d1")),
        (["p1", "p2", "d1", "d2"], ["d1"], ("p1", "d2")),
        (["p1", "p2", "d1", "d2"], ["p1", "d1"], ("p2", "d2")),
        (["p1", "d1", "d2"], ["p1", "d1"], ("p1", "d2")),
        (["p1", "p2", "d1"], ["p1", "d1"], ("p2", "d1")),
        (["p1", "d1"], ["p1", "d1"], ("p1", "d1")),
    ],
)
def test_a_leg_that_failed_is_avoided_while_there_is_another(names, avoid, expected):
    assert Fleet(*names).place(avoid=avoid) == expected


def test_avoiding_a_worker_never_leaves_a_pair_that_does_not_fit():
    """p1 fits d1 and p2 fits d2: with p1 and d2 to avoid, every pair has one of them."""
    fleet = Fleet("p1", "d1")
    fleet.workers["p2"] = fleet.add("p2", runtime="vllm")
    fleet.workers["d2"] = fleet.add("d2", runtime="vllm")
    assert fleet.place(avoid=["p1", "d2"]) == ("p1", "d1")
    assert fleet.place(avoid=["p1"]) == ("p2", "d2")
    assert fleet.place(avoid=["d1"]) == ("p2", "d2")


def test_whether_anybody_else_could_take_it():
    fleet = Fleet("p1", "d1", "d2")
    workers = fleet.workers
    assert fleet.selector.can_place("m")
    assert fleet.selector.can_place("m", besides=workers["d1"])
    assert not fleet.selector.can_place("m", besides=workers["p1"])
    assert not Fleet("p1").selector.can_place("m")
    assert not fleet.selector.can_place("other")


# --- refusals


def test_a_model_that_nobody_serves_is_not_found():
    assert Fleet("p1", "d1").refusal("other").code == "model_not_found"
    error = Fleet().refusal(None)
    assert (error.code, error.message) == ("no_available_workers", "no prefill worker for any model is registered")


@pytest.mark.parametrize(("name", "leg"), [("p1", "decode"), ("d1", "prefill")])
def test_a_leg_that_is_not_there_is_named(name, leg):
    error = Fleet(name).refusal()
    assert error.code == "no_available_workers"
    assert error.message == f"no {leg} worker for the model 'm' is registered"


@pytest.mark.parametrize(("name", "leg"), [("p1", "prefill"), ("d1", "decode")])
def test_a_leg_that_is_not_ready_is_named(name, leg):
    fleet = Fleet("p1", "d1")
    fleet.registry.set_status(name, Status.NOT_READY, 0)
    error = fleet.refusal()
    assert error.code == "no_available_workers"
    assert error.message == f"no {leg} worker for the model 'm' is available"
    assert error.retryable


def test_legs_of_which_none_fits_another_are_a_mistake_that_waiting_does_not_mend():
    fleet = Fleet("p1")
    fleet.add("d1", runtime="vllm")
    error = fleet.refusal()
    assert (error.code, error.status, error.retryable) == ("no_compatible_pd_pair", 503, False)


def test_legs_that_would_fit_but_are_not_available_may_come_back():
    fleet = Fleet("p1")
    fleet.add("d1", status=Status.NOT_READY)
    fleet.add("d2", runtime="vllm")
    error = fleet.refusal()
    assert (error.code, error.retryable) == ("no_available_workers", True)


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_a_policy_may_select_nobody(leg):
    fleet = Fleet("p1", "d1")
    getattr(fleet, leg).choose = lambda workers: None
    assert fleet.refusal().code == "no_available_workers"


# --- overload


@pytest.mark.parametrize(("names", "leg"), [(["p1"], "prefill"), (["d1", "d2"], "decode")])
def test_a_leg_whose_workers_are_all_overloaded_sheds(names, leg):
    fleet = Fleet("p1", "d1", "d2")
    for name in names:
        fleet.overload(name)
    error = fleet.refusal()
    assert error.code == "worker_overload_protection_shed"
    assert error.message == f"every {leg} worker for the model 'm' is overloaded"
    assert error.retry_after_secs == 7
    assert fleet.sheds == ["selection"]


def test_an_overloaded_worker_is_left_out_while_there_are_others():
    fleet = Fleet("p1", "d1", "d2")
    fleet.overload("d1")
    assert fleet.place() == ("p1", "d2")
    fleet.overload("d1", overloaded=False)
    assert fleet.place() == ("p1", "d1")
    assert fleet.sheds == []


def test_a_leg_of_which_some_are_overloaded_and_others_down_is_just_not_available():
    fleet = Fleet("p1", "d1", "d2")
    fleet.overload("d1")
    fleet.workers["d2"].breaker.failed(0.0)
    assert fleet.refusal().code == "no_available_workers"
    assert fleet.sheds == []


def test_a_worker_that_becomes_overloaded_between_choice_and_dispatch_is_spared():
    for name, leg in (("p1", "prefill"), ("d1", "decode")):
        fleet = Fleet("p1", "d1")
        placement = fleet.selector.place("m", NO_HINTS)
        fleet.workers[name].overloaded = True
        with pytest.raises(PlacementError) as caught:
            fleet.selector.lease(placement, NO_HINTS)
        assert caught.value.code == "worker_overload_protection_shed"
        assert caught.value.message == f"the {leg} worker 'http://{name}' became overloaded before dispatch"
        assert fleet.sheds == ["dispatch"]
        assert [(w.load, w.dispatched_tokens) for w in fleet.workers.values()] == [(0, 0), (0, 0)]


# --- leases


def test_a_lease_counts_for_decode_until_it_is_released():
    """Prefill's part ends earlier: who sends to it counts that."""
    fleet = Fleet("p1", "d1")
    placement = fleet.selector.place("m", NO_HINTS)
    fleet.selector.lease(placement, NO_HINTS)
    assert [worker.load for worker in fleet.workers.values()] == [0, 1]
    fleet.selector.release(placement, NO_HINTS)
    assert [worker.load for worker in fleet.workers.values()] == [0, 0]


def test_what_was_sent_since_the_last_report_counts_for_both_legs():
    fleet = Fleet("p1", "d1", mean_prefill_tokens=100)
    placement = Placement(fleet.workers["d1"], fleet.workers["p1"])
    fleet.selector.lease(placement, Hints(tokens=[1, 2, 3]))
    fleet.selector.lease(placement, NO_HINTS)
    assert [worker.dispatched_tokens for worker in fleet.workers.values()] == [103, 103]


# --- policies


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("keys", [True, False])
def test_what_either_policy_needs_is_read(text, keys):
    fleet = Fleet("p1", "d1")
    for one, other in ((fleet.prefill, fleet.decode), (fleet.decode, fleet.prefill)):
        one.reads_text, other.reads_text = text, False
        one.reads_keys, other.reads_keys = False, keys
        needs = fleet.selector.policy("m")
        assert (needs.reads_text, needs.reads_keys) == (text, keys)


def test_a_removed_worker_is_forgotten_by_the_policies_of_both_legs():
    fleet = Fleet("p1", "p2", "d1", "d2")
    books = [
        Policies(
            fleet.registry,
            "round_robin",
            None,
            lambda _: PolicyContext(Random(1), fleet.clock),
            print,
            worker_type=kind,
            by_label=False,
        )
        for kind in ("prefill", "decode")
    ]
    selector = PairSelector(fleet.registry, *books, fleet.clock)
    for gone in ("p1", "d1"):
        selector.place("m", NO_HINTS)
        assert [book.of("m").sizes() for book in books] == [{"lists": 1}, {"lists": 1}]
        fleet.registry.remove(gone)
        assert [book.of("m").sizes() for book in books] == [{"lists": 0}, {"lists": 0}]


def test_the_policies_of_a_leg_end_with_its_last_worker():
    fleet = Fleet("p1", "d1")
    book = Policies(
        fleet.registry,
        "round_robin",
        None,
        lambda _: PolicyContext(Random(1), fleet.clock),
        print,
        worker_type="prefill",
        by_label=False,
    )
    assert book.of("m") is not book.of(None)
    fleet.registry.remove("p1")
    assert book.of("m") is book.of(None)
