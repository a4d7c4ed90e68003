import inspect

import pytest

from smg.fleet.pairs import PairSelector
from smg.fleet.placement import Placement, Placer
from smg.fleet.selection import Selector

STEPS = ["policy", "can_place", "place", "lease", "release"]


def test_most_placements_have_no_prefill_worker():
    assert Placement("worker").prefill is None


@pytest.mark.parametrize("placer", [Selector, PairSelector])
@pytest.mark.parametrize("step", STEPS)
def test_whoever_places_is_asked_in_the_same_way(placer, step):
    asked, offered = (inspect.signature(getattr(kind, step)) for kind in (Placer, placer))
    assert list(asked.parameters.values()) == list(offered.parameters.values())


def test_these_are_all_the_steps():
    assert [name for name in vars(Placer) if not name.startswith("_")] == STEPS
