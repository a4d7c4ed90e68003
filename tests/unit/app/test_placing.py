import time

import pytest

from smg.app.placing import placing_of
from smg.config.settings import Settings
from smg.errors import PlacementError
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.hints import NO_HINTS
from smg.fleet.registry import Registry
from smg.fleet.worker import ModelCard, Status, Worker
from smg.telemetry.metrics import Metrics


@pytest.fixture
def registry():
    return Registry({})


def add(registry, name, **fields):
    breaker = Breaker(BreakerOptions(), lambda _old, _new: None)
    url = f"http://{name}"
    worker = Worker(name, url, url, breaker, models=(ModelCard("m"),), status=Status.READY, **fields)
    registry.add(worker)
    return worker


def placing(registry, **settings):
    return placing_of(Settings(policy="round_robin", **settings), registry, Metrics(), time.monotonic)


def test_decisions_are_placed_on_whole_engines_of_the_fleet_whatever_places_the_rest(registry):
    add(registry, "outside", runtime="external")
    for role in ("prefill", "decode"):
        add(registry, role, worker_type=role)
    for settings in ({}, {"pd_disaggregation": True}):
        with pytest.raises(PlacementError) as caught:
            placing(registry, **settings).decisions.place("m", NO_HINTS)
        assert caught.value.code == "decisions_not_supported"
    add(registry, "whole")
    for settings in ({}, {"pd_disaggregation": True}):
        assert placing(registry, **settings).decisions.place("m", NO_HINTS).worker.id == "whole"


@pytest.mark.parametrize("split", [False, True])
def test_a_worker_that_has_recovered_gets_decisions_again(registry, split):
    first, second = add(registry, "a"), add(registry, "b")
    placed = placing(registry, pd_disaggregation=split)
    first.overloaded = True
    assert {placed.decisions.place("m", NO_HINTS).worker for _ in range(4)} == {second}
    first.overloaded = False
    placed.recheck()
    assert {placed.decisions.place("m", NO_HINTS).worker for _ in range(4)} == {first, second}
