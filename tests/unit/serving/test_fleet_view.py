"""What the fleet says of all requests alike is kept, and given up when the fleet changes."""

import pytest

from smg.fleet.pairs import PairNeeds
from smg.fleet.registry import Registry
from smg.fleet.worker import ModelCard, Status, Worker
from smg.serving.body_path import BodyPathOptions
from smg.serving.fleet_view import FleetView

PLAIN = BodyPathOptions(sticky_override=False, retries=True, max_buffered_bytes=100)


class ClosedBreaker:
    def admits(self, now):
        return True


class Placer:
    """Counts how often it is asked; its policy reads prompts if `reads_text` says so."""

    def __init__(self):
        self.asked = []
        self.reads_text = False

    def policy(self, model):
        self.asked.append(model)
        return PairNeeds(reads_text=self.reads_text, reads_keys=False)


def worker(name, *cards):
    return Worker(name, f"http://{name}", f"http://{name}", ClosedBreaker(), cards, status=Status.READY)


@pytest.fixture
def registry():
    registry = Registry()
    registry.add(worker("a", ModelCard("m", aliases=("alias",))))
    return registry


@pytest.fixture
def placer():
    return Placer()


@pytest.fixture
def view(registry, placer):
    return FleetView(registry, placer, PLAIN)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("m", ("m", None, "m")),
        ("alias", ("m", b'"m"', "m")),
        ("nobody's", ("nobody's", None, "other")),
        (None, (None, None, "unknown")),
    ],
)
def test_what_a_name_stands_for(view, placer, name, found):
    assert view.named(name)[:3] == found
    assert placer.asked == [found[0]]


def test_names_of_the_registry_are_looked_up_once(view, placer):
    for _ in range(3):
        for name in ("m", "alias", None):
            view.named(name)
    assert placer.asked == ["m", "m", None]


def test_what_callers_invent_is_not_kept(view):
    for n in range(1000):
        view.named(f"invented-{n}")
    assert view._names == {}


def test_a_change_of_the_fleet_is_seen_at_once(registry, view):
    assert (view.named("n").label, view.named("alias").model, view.first().model) == ("other", "m", "m")
    registry.add(worker("b", ModelCard("n")))
    assert view.named("n").label == "n"
    registry.remove("a")
    assert (view.named("m").label, view.named("alias").model, view.first().model) == ("other", "alias", "n")


def test_the_standing_reason_follows_the_fleet(registry, placer, view):
    assert view.reason_to_read(has_token_hint=False) is None
    placer.reads_text = True
    assert view.reason_to_read(has_token_hint=False) is None  # policies change with the registry only
    registry.add(worker("b"))
    assert view.reason_to_read(has_token_hint=False) == "policy_needs_text"
    assert view.reason_to_read(has_token_hint=True) is None
    registry.add(worker("c", ModelCard("n")))
    assert view.reason_to_read(has_token_hint=True) == "model_ambiguous"
    registry.set_status("c", Status.FAILED, 0)
    assert view.reason_to_read(has_token_hint=True) == "model_ambiguous"
