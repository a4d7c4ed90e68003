import json

import pytest

from smg.fleet.worker import Status
from smg.services.readiness import Readiness


def shown(readiness):
    return readiness.status, json.loads(readiness.body)


UNREADY = (503, {"status": "not ready", "reason": "insufficient healthy workers"})


def test_without_workers_it_is_not_ready(registry):
    readiness = Readiness(registry)
    assert shown(readiness) == UNREADY


def test_it_follows_the_fleet(registry, make_worker):
    readiness = Readiness(registry)
    registry.add(make_worker("a"))
    registry.add(make_worker("b", status=Status.NOT_READY))
    assert shown(readiness) == (200, {"status": "ready", "healthy_workers": 1, "total_workers": 2})
    registry.set_status("a", Status.NOT_READY, 0)
    assert shown(readiness) == UNREADY
    registry.set_status("b", Status.READY, 0)
    registry.remove("a")
    assert shown(readiness) == (200, {"status": "ready", "healthy_workers": 1, "total_workers": 1})


def test_it_counts_workers_that_were_there_before(registry, make_worker):
    registry.add(make_worker("a"))
    assert Readiness(registry).status == 200


@pytest.mark.parametrize(
    ("kinds", "ready"), [(["prefill"], False), (["regular"], False), (["prefill", "decode"], True)]
)
def test_a_split_deployment_needs_every_leg(registry, make_worker, kinds, ready):
    readiness = Readiness(registry, required=("prefill", "decode"))
    for kind in kinds:
        registry.add(make_worker(kind, worker_type=kind))
    assert (readiness.status == 200) is ready


def test_draining_is_for_good(registry, make_worker):
    readiness = Readiness(registry)
    readiness.drain()
    registry.add(make_worker("a"))
    assert shown(readiness) == (503, {"status": "not ready", "reason": "draining"})
