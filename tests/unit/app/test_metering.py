from random import Random

import pytest

from smg.app.metering import fleet_gauges, policy_gauges
from smg.fleet.hints import Hints
from smg.fleet.policies.base import PolicyContext
from smg.fleet.policies.cache_aware import CacheAwareOptions
from smg.fleet.policy_book import Policies
from smg.fleet.registry import Registry
from smg.fleet.sticky import StickyOptions, StickySessions
from smg.fleet.worker import ModelCard, Status, Worker
from smg.telemetry.metrics import Metrics


class ClosedBreaker:
    def admits(self, now):
        return True


class NoUpstream:
    resends = 0


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def add(registry):
    def add_worker(name, model, label=None):
        labels = {} if label is None else {"policy": label}
        url = f"http://{name}"
        worker = Worker(name, url, url, ClosedBreaker(), (ModelCard(model),), labels=labels, status=Status.READY)
        registry.add(worker)
        return worker

    return add_worker


@pytest.fixture
def measured(registry):
    """A book of policies and the metrics that show what they remember."""

    def open_book(main, options=None):
        metrics = Metrics()
        policies = Policies(registry, main, options, lambda _: PolicyContext(Random(1), lambda: 0.0), print)
        policy_gauges(policies, metrics)
        return policies, metrics

    return open_book


def test_the_trees_of_each_model_are_measured(measured, add):
    policies, metrics = measured("cache_aware")
    a, b = add("a", "m"), add("b", "n")
    policies.of("m").select((a,), Hints(text="hello"))
    policies.of("n").select((b,), Hints(tokens=list(range(32))))
    assert metrics.cache_tree_chars.readings() == {("m",): 5, ("n",): 0}
    assert metrics.cache_tree_tokens.readings() == {("m",): 0, ("n",): 32}
    assert metrics.cache_tree_tenants.readings() == {
        ("m", "string"): 1,
        ("m", "token"): 0,
        ("n", "string"): 0,
        ("n", "token"): 1,
    }
    assert metrics.cache_placement_entries.readings() == {}


def test_requests_without_a_model_show_once_there_were_any(measured, add):
    policies, metrics = measured("cache_aware")
    policies.of(None).select((add("a", "m"),), Hints(text="hello"))
    assert metrics.cache_tree_chars.readings() == {("m",): 0, ("unknown",): 5}


def test_the_hash_index_is_measured_in_heads(measured, add):
    policies, metrics = measured("cache_aware", CacheAwareOptions(cache_index="hash", cache_boundaries=(2, 4)))
    a = add("a", "m")
    policies.of("m").select((a,), Hints(tokens=[1, 2, 3, 4]))
    assert metrics.cache_placement_entries.readings() == {("m",): 2}
    assert metrics.cache_tree_chars.readings() == {}


def test_the_keys_of_manual_are_summed_over_the_models(measured, add):
    policies, metrics = measured("random")
    assert metrics.manual_policy_cache_entries.readings() == {}
    for name, model in (("a", "m"), ("b", "n")):
        worker = add(name, model, label="manual")
        for key in ("x", "y"):
            policies.of(model).select((worker,), Hints(routing_key=key))
    assert metrics.manual_policy_cache_entries.readings() == {(): 4}


def test_the_halves_of_split_engines_are_measured_together(registry):
    metrics, books = Metrics(), []
    for kind in ("prefill", "decode"):
        books.append(
            Policies(
                registry,
                "cache_aware",
                None,
                lambda _: PolicyContext(Random(1), lambda: 0.0),
                print,
                worker_type=kind,
                by_label=False,
            )
        )
        policy_gauges(books[-1], metrics)
        url = f"http://{kind}"
        worker = Worker(kind, url, url, ClosedBreaker(), (ModelCard("m"),), worker_type=kind, status=Status.READY)
        registry.add(worker)
        books[-1].of("m").select((worker,), Hints(text="hello"))
    assert metrics.cache_tree_chars.readings() == {("m",): 10}


def test_sessions_in_flight_are_counted_by_registered_worker(registry, add):
    metrics, sessions = Metrics(), StickySessions(StickyOptions(), Random(1), lambda: 0.0)
    fleet_gauges(registry, metrics, sessions, NoUpstream())
    a, b = add("a", "m"), add("b", "m")
    for session, worker in (("x", a), ("y", a), ("y", b)):
        sessions.enter(session, worker)
    assert metrics.worker_routing_keys_active.readings() == {("http://a",): 2, ("http://b",): 1}
    registry.remove("a")
    assert metrics.worker_routing_keys_active.readings() == {("http://b",): 1}


def test_a_model_that_is_gone_is_not_measured(measured, add, registry):
    _, metrics = measured("cache_aware")
    add("a", "m")
    registry.remove("a")
    assert metrics.cache_tree_chars.readings() == {}
