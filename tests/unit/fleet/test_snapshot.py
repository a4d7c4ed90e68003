from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.snapshot import take
from smg.fleet.worker import ModelCard, Status, Worker


def worker(name, *cards, status=Status.READY):
    url = f"http://{name}"
    return Worker(name, url, url, Breaker(BreakerOptions()), models=cards, status=status)


def card(model, *aliases):
    return ModelCard(model, aliases)


def names(workers):
    return [w.id for w in workers]


def test_workers_are_found_by_id_url_and_model():
    a, b, c = worker("a", card("m")), worker("b", card("n")), worker("c", card("m"))
    fleet = take([a, b, c], version=3)
    assert fleet.version == 3
    assert fleet.workers == (a, b, c)
    assert fleet.by_id["b"] is b
    assert fleet.by_url["http://c"] is c
    assert fleet.serving("m") == (a, c)
    assert fleet.serving("n") == (b,)
    assert fleet.serving("x") == ()
    assert fleet.serving(None) is fleet.workers


def test_readiness_is_the_workers_own_and_of_now():
    a, b = worker("a", card("m")), worker("b", card("m"), status=Status.NOT_READY)
    fleet = take([a, b], version=1)
    assert fleet.serving("m") == (a, b)
    assert fleet.ready == (a,)
    b.status = Status.READY
    assert fleet.ready == (a, b)


def test_a_worker_without_cards_serves_every_model_last():
    wild, a = worker("wild"), worker("a", card("m"))
    fleet = take([wild, a], version=1)
    assert names(fleet.serving("m")) == ["a", "wild"]
    assert names(fleet.serving("anything")) == ["wild"]
    assert list(fleet.models) == ["m"]


def test_a_worker_with_several_cards_serves_each_once():
    a = worker("a", card("m"), card("n"), card("m"))
    fleet = take([a], version=1)
    assert fleet.serving("m") == (a,)
    assert fleet.serving("n") == (a,)


def test_an_alias_stands_for_its_model():
    fleet = take([worker("a", card("m", "short"))], version=1)
    assert fleet.resolve("short") == "m"
    assert fleet.resolve("m") == "m"
    assert fleet.resolve("x") == "x"
    assert fleet.serving("short") == ()


def test_a_model_beats_an_alias_of_its_name():
    a, b = worker("a", card("m", "n")), worker("b", card("n"))
    assert take([a], version=1).resolve("n") == "m"
    assert take([a, b], version=1).resolve("n") == "n"


def test_nobody_can_claim_the_reserved_name():
    fleet = take([worker("a", card("m", "unknown", ""))], version=1)
    assert dict(fleet.aliases) == {}


def test_an_alias_stays_with_its_owner_and_passes_on_when_the_owner_leaves():
    a, b = worker("a", card("m", "nick")), worker("b", card("n", "nick"))
    first = take([b], version=1)
    second = take([a, b], version=2, owners=first.aliases)
    assert second.resolve("nick") == "n"
    third = take([a], version=3, owners=second.aliases)
    assert third.resolve("nick") == "m"


def test_a_configured_alias_beats_a_declared_one():
    a, b = worker("a", card("m", "nick")), worker("b", card("n", "nick"))
    fleet = take([a, b], version=1, configured={"nick": "n"}, owners={"nick": "m"})
    assert fleet.resolve("nick") == "n"
    assert take([a], version=2, configured={"nick": "n"}).resolve("nick") == "m"


NAMES = st.sampled_from(["m", "n", "o", "unknown", ""])
CARDS = st.builds(ModelCard, NAMES.filter(bool), st.lists(NAMES, max_size=3).map(tuple))
FLEETS = st.lists(st.lists(CARDS, max_size=3), max_size=5)


@given(FLEETS, st.dictionaries(NAMES, NAMES), st.dictionaries(NAMES, NAMES))
def test_every_name_means_at_most_one_model_that_somebody_serves(cards, configured, owners):
    workers = [worker(str(n), *some) for n, some in enumerate(cards)]
    fleet = take(workers, version=1, configured=configured, owners=owners)
    served = {c.id for some in cards for c in some}
    declared = {(alias, c.id) for some in cards for c in some for alias in c.aliases}
    assert set(fleet.models) == served
    assert not set(fleet.aliases) & served
    assert set(fleet.aliases.items()) <= declared
    for model in served:
        expected = [w for w in workers if any(c.id == model for c in w.models)]
        assert list(fleet.serving(model)) == expected + [w for w in workers if not w.models]
