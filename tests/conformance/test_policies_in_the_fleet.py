"""Every policy where it works: chosen by the book, asked by the selector, with and without sticky sessions."""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from smg.errors import PlacementError
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.hints import Hints
from smg.fleet.policies import POLICIES, PREFILL_ONLY
from smg.fleet.policies.base import PolicyContext
from smg.fleet.policy_book import Policies
from smg.fleet.registry import Registry
from smg.fleet.selection import Selector
from smg.fleet.sticky import StickyOptions, StickySessions
from smg.fleet.worker import LoadReport, ModelCard, Status, Worker

NAMES = sorted(set(POLICIES) - PREFILL_ONLY)
# Whatever a handful of models, workers and prompts make a policy keep.
MOST_REMEMBERED = 10_000

numbers = st.integers(0, 4)
requests = st.builds(
    Hints,
    text=st.sampled_from(["", "hello", "hello world", "bye"]),
    tokens=st.sampled_from([None, None, list(range(32)), list(range(48))]),
    routing_key=st.sampled_from([None, "key", "other"]),
    identity=st.sampled_from([None, "10.0.0.1"]),
    session=st.sampled_from([None, "session", "other"]),
)


class MovingFleet(RuleBasedStateMachine):
    """Workers come, go, fail, fill up and recover while requests are placed, held and answered."""

    def __init__(self, name):
        super().__init__()
        self.name = name
        self.now = 0.0
        self.registry = Registry()
        self.held = []

    @initialize(sticky=st.booleans())
    def open(self, sticky):
        self.policies = Policies(
            self.registry, self.name, None, lambda _: PolicyContext(Random(1), lambda: self.now), lambda _: None
        )
        self.sessions = StickySessions(StickyOptions(), Random(1), lambda: self.now) if sticky else None
        self.selector = Selector(self.registry, self.policies, self.sessions, lambda: self.now)

    @rule(number=numbers, model=st.sampled_from(["m", "n", None]), label=st.sampled_from([None, *NAMES, "bogus"]))
    def join_or_leave(self, number, model, label):
        name = str(number)
        if self.registry.remove(name) is not None:
            if self.sessions is not None:
                self.sessions.forget(f"http://{name}")
            return
        breaker = Breaker(BreakerOptions(failure_threshold=1, timeout_secs=50), lambda *_: self.selector.recheck())
        labels = {} if label is None else {"policy": label}
        models = () if model is None else (ModelCard(model),)
        url = f"http://{name}"
        self.registry.add(Worker(name, url, url, breaker, models, labels=labels, status=Status.READY))

    def worker(self, number):
        workers = self.registry.snapshot.workers
        return workers[number % len(workers)] if workers else None

    @rule(number=numbers, status=st.sampled_from([Status.READY, Status.READY, Status.NOT_READY]))
    def probe(self, number, status):
        worker = self.worker(number)
        if worker is not None:
            self.registry.set_status(worker.id, status, worker.revision)

    @rule(number=numbers, good=st.booleans())
    def answer(self, number, good):
        worker = self.worker(number)
        if worker is not None:
            worker.breaker.succeeded() if good else worker.breaker.failed(self.now)

    @rule(number=numbers, waiting=st.integers(0, 9), overloaded=st.booleans())
    def report(self, number, waiting, overloaded):
        worker = self.worker(number)
        if worker is not None:
            worker.report, worker.overloaded = LoadReport(waiting_requests=waiting), overloaded
            self.selector.recheck()

    @rule(secs=st.floats(0, 200))
    def wait(self, secs):
        self.now += secs
        self.policies.sweep(self.now)

    @rule(
        several=st.lists(
            st.tuples(st.sampled_from(["m", "m", "n", "unheard of", None]), requests, st.sets(numbers, max_size=2)),
            min_size=1,
            max_size=6,
        )
    )
    def request(self, several):
        for model, hints, avoid in several:
            self.place(model, hints, avoid)

    def place(self, model, hints, avoid):
        able = [worker for worker in self.registry.snapshot.serving(model) if worker.available(self.now)]
        avoided = [worker for worker in able if int(worker.id) in avoid]
        try:
            placement = self.selector.place(model, hints, avoided)
        except PlacementError:
            assert not able
            return
        assert placement.worker in able
        assert placement.worker not in avoided or len(avoided) == len(able)
        self.selector.lease(placement, hints)
        self.held.append((placement, hints))

    @rule(number=st.integers(0, 50))
    def finish(self, number):
        if self.held:
            self.selector.release(*self.held.pop(number % len(self.held)))

    @invariant()
    def nothing_grows_without_bound(self):
        if hasattr(self, "policies"):
            kept = list(self.policies.sizes())
            assert len(kept) <= 3  # two models and what they share with nobody
            assert all(size <= MOST_REMEMBERED for _, _, sizes in kept for size in sizes.values())

    def teardown(self):
        for held in self.held:
            self.selector.release(*held)
        assert all(worker.load == 0 for worker in self.registry.snapshot.workers)
        if getattr(self, "sessions", None) is not None:
            assert self.sessions.active_sessions() == {}


@pytest.mark.parametrize("name", NAMES)
def test_nobody_is_placed_on_who_may_not_be(name):
    run_state_machine_as_test(lambda: MovingFleet(name), settings=settings(max_examples=25, deadline=None))


@pytest.mark.parametrize("name", NAMES)
def test_a_label_brings_any_policy_to_work(name):
    registry = Registry()
    policies = Policies(registry, "random", None, lambda _: PolicyContext(Random(1), float), lambda _: None)
    selector = Selector(registry, policies, None, float)
    for each in ("a", "b"):
        breaker = Breaker(BreakerOptions())
        registry.add(
            Worker(
                each,
                f"http://{each}",
                f"http://{each}",
                breaker,
                (ModelCard("m"),),
                labels={"policy": name},
                status=Status.READY,
            )
        )
    hints = Hints(text="hello", routing_key="key")
    assert selector.policy("m").name == name
    assert selector.place("m", hints).worker.id in {"a", "b"}
