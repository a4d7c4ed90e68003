from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.hints import Hints
from smg.fleet.policies import POLICIES, PREFILL_ONLY
from smg.fleet.policies.base import PolicyContext
from smg.fleet.policies.cache_aware import LABEL_OPTIONS, CacheAwareOptions
from smg.fleet.policy_book import Policies
from smg.fleet.registry import Registry
from smg.fleet.spec import WorkerPatch
from smg.fleet.worker import ModelCard, Status, Worker

LABELLED = sorted(set(POLICIES) - PREFILL_ONLY)


class ClosedBreaker:
    def admits(self, now):
        return True


def worker(name, *models, label=None, **fields):
    url = f"http://{name}"
    labels = {} if label is None else {"policy": label}
    cards = tuple(ModelCard(model) for model in models)
    return Worker(name, url, url, ClosedBreaker(), cards, labels=labels, status=Status.READY, **fields)


class Shelf:
    """A registry, a book that follows it, and what the book said and made on the way."""

    def __init__(self, main="random", options=None, *workers, **book):
        self.registry = Registry()
        for each in workers:
            self.registry.add(each)
        self.warnings = []
        self.made = []
        self.book = Policies(self.registry, main, options, self.context, self.warnings.append, **book)

    def context(self, name):
        self.made.append(name)
        return PolicyContext(Random(1), lambda: 0.0)

    def add(self, *workers):
        for each in workers:
            self.registry.add(each)

    def remove(self, *names):
        for name in names:
            self.registry.remove(name)

    def name_of(self, model):
        return self.book.of(model).name


# --- who chooses ---


@pytest.mark.parametrize("name", LABELLED)
def test_the_label_of_a_models_first_worker_chooses_its_policy(name):
    shelf = Shelf("random")
    shelf.add(worker("a", "m", label=name), worker("b", "m", label="passthrough"), worker("c", "n"))
    assert shelf.name_of("m") == name
    assert shelf.name_of("n") == "random"
    assert shelf.warnings == []


def test_a_first_worker_without_a_label_chooses_the_command_lines():
    shelf = Shelf("random")
    shelf.add(worker("a", "m"), worker("b", "m", label="passthrough"))
    assert shelf.name_of("m") == "random"


def test_models_have_instances_of_their_own():
    shelf = Shelf("round_robin")
    shelf.add(worker("a", "m", "n"))
    assert len({id(shelf.book.of(model)) for model in ("m", "n", None)}) == 3
    assert shelf.book.of("m") is shelf.book.of("m")


@pytest.mark.parametrize("label", ["bogus", "bucket", "Random", " random"])
def test_a_label_that_means_nothing_is_ignored_with_one_warning(label):
    shelf = Shelf("round_robin")
    shelf.add(worker("a", "m", label=label), worker("b", "m", label=label))
    assert shelf.name_of("m") == "round_robin"
    assert len(shelf.warnings) == 1
    assert label in shelf.warnings[0]


def test_an_empty_label_is_no_label():
    shelf = Shelf("round_robin")
    shelf.add(worker("a", "m", label=""))
    assert (shelf.name_of("m"), shelf.warnings) == ("round_robin", [])


def test_without_labels_the_command_line_chooses_for_everybody():
    shelf = Shelf("least_load", worker_type="prefill", by_label=False)
    shelf.add(
        worker("a", "m", label="random", worker_type="prefill"), worker("b", label="bogus", worker_type="prefill")
    )
    assert (shelf.name_of("m"), shelf.name_of(None), shelf.warnings) == ("least_load", "least_load", [])


def test_prefill_workers_may_be_placed_on_by_length():
    shelf = Shelf("bucket", worker_type="prefill", by_label=False)
    shelf.add(worker("a", "m", worker_type="prefill"))
    assert shelf.name_of("m") == "bucket"


def test_workers_of_another_kind_choose_nothing():
    shelf = Shelf("random")
    shelf.add(
        worker("p", "m", label="manual", worker_type="prefill"), worker("w", label="manual", worker_type="decode")
    )
    assert (shelf.name_of("m"), shelf.name_of(None)) == ("random", "random")
    shelf.add(worker("a", "m", label="least_load"))
    assert shelf.name_of("m") == "least_load"


# --- whose options ---


def test_the_same_policy_by_label_has_the_command_lines_options():
    mine = CacheAwareOptions(cache_threshold=0.9)
    shelf = Shelf("cache_aware", mine)
    shelf.add(worker("a", "m", label="cache_aware"))
    assert shelf.book.of("m")._options is mine


def test_another_policy_by_label_has_built_in_options():
    shelf = Shelf("random")
    shelf.add(worker("a", "m", label="cache_aware"), worker("b", "n", label="prefix_hash"))
    assert shelf.book.of("m")._options is LABEL_OPTIONS
    assert shelf.book.of("n")._options.prefix_token_count == 256


def test_what_an_instance_is_given_is_made_for_its_policy():
    shelf = Shelf("random")
    shelf.add(worker("a", "m", label="manual"))
    assert shelf.made == ["random", "manual"]


# --- how long ---


def test_a_choice_stands_until_the_models_last_worker_leaves():
    shelf = Shelf("random")
    shelf.add(worker("a", "m", label="manual"), worker("b", "m", label="passthrough"))
    chosen = shelf.book.of("m")
    shelf.remove("a")
    assert shelf.book.of("m") is chosen
    shelf.add(worker("c", "m", label="least_load"))
    assert shelf.book.of("m") is chosen
    shelf.remove("b", "c")
    shelf.add(worker("d", "m", label="least_load"))
    assert shelf.name_of("m") == "least_load"


def test_a_changed_label_changes_nothing_while_the_model_lives():
    shelf = Shelf("random")
    shelf.add(worker("a", "m", label="manual"))
    shelf.registry.patch("a", WorkerPatch(labels={"policy": "passthrough"}))
    assert shelf.name_of("m") == "manual"


def test_a_worker_that_changes_its_model_leaves_the_old_ones_policy_behind():
    shelf = Shelf("random")
    shelf.add(worker("a", "m", label="manual"))
    shelf.registry.replace("a", 0, worker("a", "n", label="least_load"))
    assert shelf.name_of("n") == "least_load"
    assert shelf.book.of("m") is shelf.book.of(None)
    assert [model for model, _, _ in shelf.book.sizes()] == [None, "n"]


def test_a_worker_that_is_not_ready_keeps_its_models_policy():
    shelf = Shelf("random")
    shelf.add(worker("a", "m", label="manual"))
    chosen = shelf.book.of("m")
    shelf.registry.set_status("a", Status.FAILED, 0)
    assert shelf.book.of("m") is chosen


# --- requests that name no model, or one of nobody's ---


def test_models_of_wildcard_workers_share_one_instance():
    shelf = Shelf("random")
    shelf.add(worker("w"), worker("a", "m"))
    shared = shelf.book.of(None)
    assert {id(shelf.book.of(f"invented {number}")) for number in range(100)} == {id(shared)}
    assert shelf.book.of("m") is not shared
    assert len(list(shelf.book.sizes())) == 2


def test_the_first_wildcard_worker_chooses_for_them_until_the_last_one_leaves():
    shelf = Shelf("random")
    shelf.add(worker("a", "m", label="manual"))
    assert shelf.name_of(None) == "random"
    shelf.add(worker("w", label="least_load"), worker("x", label="passthrough"))
    assert shelf.name_of(None) == shelf.name_of("anything") == "least_load"
    shelf.remove("w")
    assert shelf.name_of(None) == "least_load"
    shelf.remove("x")
    assert shelf.name_of(None) == "random"
    shelf.add(worker("y", label="passthrough"))
    assert shelf.name_of(None) == "passthrough"


def test_the_shared_instance_stays_when_its_policy_does():
    shelf = Shelf("random")
    shared = shelf.book.of(None)
    shelf.add(worker("w"), worker("x", label="manual"))
    shelf.remove("w", "x")
    assert shelf.book.of(None) is shared


# --- upkeep ---


def test_what_is_remembered_of_a_removed_worker_is_purged_from_every_instance():
    shelf = Shelf("manual")
    a, b = worker("a", "m"), worker("b", "m")
    shelf.add(a, b)
    for model in ("m", None):
        assert shelf.book.of(model).select((a,), Hints(routing_key="key")) is a
    shelf.remove("a")
    again = worker("a", "m")
    for model in ("m", None):
        shelf.book.of(model).select((b,), Hints(routing_key="key"))
        assert shelf.book.of(model).select((again, b), Hints(routing_key="key")) is b


def test_sizes_and_sweeps_reach_every_instance():
    shelf = Shelf("manual")
    a = worker("a", "m")
    shelf.add(a)
    for model in ("m", None):
        shelf.book.of(model).select((a,), Hints(routing_key="key"))
    assert list(shelf.book.sizes()) == [(None, "manual", {"entries": 1}), ("m", "manual", {"entries": 1})]
    shelf.book.sweep(1e9)
    assert [sizes["entries"] for _, _, sizes in shelf.book.sizes()] == [0, 0]


def test_a_book_opened_late_knows_who_is_there():
    shelf = Shelf("random", None, worker("a", "m", label="manual"), worker("w", label="least_load"))
    assert (shelf.name_of("m"), shelf.name_of(None)) == ("manual", "least_load")


events = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.lists(st.sampled_from("mno"), max_size=2, unique=True),
        st.sampled_from([None, "manual", "random", "bogus"]),
        st.sampled_from(["regular", "prefill"]),
    ),
    max_size=30,
)


@given(events)
def test_the_book_keeps_exactly_the_models_that_are_served(history):
    shelf, chosen = Shelf("least_load"), {}
    for name, models, label, kind in history:
        if name in shelf.registry.snapshot.by_id:
            shelf.remove(name)
        else:
            shelf.add(worker(name, *models, label=label, worker_type=kind))
        served = {}
        for each in shelf.registry.snapshot.workers:
            for model in (card.id for card in each.models if each.worker_type == "regular"):
                served.setdefault(model, each)
        assert {model for model, _, _ in shelf.book.sizes()} == {None, *served}
        chosen = {model: shown for model, shown in chosen.items() if model in served}
        for model, first in served.items():
            asked = first.labels.get("policy")
            chosen.setdefault(model, asked if asked in {"manual", "random"} else "least_load")
        assert {model: shelf.name_of(model) for model in served} == chosen
