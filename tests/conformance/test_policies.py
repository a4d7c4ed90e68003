"""One suite over every routing policy of the table: what a policy owes to its callers, whatever it does."""

import gc
import pkgutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smg.fleet.policies as table
from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.policies.base import PolicyContext
from smg.fleet.worker import LoadReport, Worker

NAMES = sorted(table.POLICIES)


class ClosedBreaker:
    def admits(self, now):
        return True


def worker(number, load=0, report=None):
    url = f"http://worker-{number}:8000"
    return Worker(str(number), url, url, ClosedBreaker(), load=load, report=report)


def fleet(count):
    return tuple(worker(number) for number in range(count))


def make(name, seed=1, clock=None, **options):
    policy = table.load(name)
    context = PolicyContext(Random(seed), clock or (lambda: 0.0))
    return policy(context, policy.options(**options)) if options else policy(context)


def by_key(number):
    return Hints(routing_key=f"key {number}")


def by_text(number):
    return Hints(text=f"{number * 7919} " * 60)


def by_tokens(number):
    return Hints(tokens=list(range(number * 1000, number * 1000 + 64)))


def bare(_):
    return NO_HINTS


@dataclass(frozen=True)
class Case:
    """What a policy's requests look like, and what it does on purpose.

    `unrelated` makes the n-th of many requests that have nothing in common, `sticks` says that one request
    repeated goes where it went before, `returns` that it goes back to a worker that was out for a while,
    `balances` that it uses all workers. `options` are set where the defaults are not what is looked at.
    """

    unrelated: Callable[[int], Hints]
    sticks: bool = False
    returns: bool = False
    balances: bool = True
    options: dict = field(default_factory=dict)


HASHED = {"cache_index": "hash", "cache_boundaries": (16, 48)}
SCORED = {"overlap_decay": 0.5, "selection_temperature": 0.5}

CASES = {
    "bucket": [Case(by_text), Case(by_tokens), Case(bare)],
    "cache_aware": [
        Case(by_text, sticks=True),
        Case(by_tokens, sticks=True),
        Case(by_tokens, sticks=True, options=HASHED),
        Case(by_text, options=HASHED),
        Case(by_text, options=SCORED),
    ],
    "consistent_hashing": [Case(by_key, sticks=True, returns=True), Case(bare)],
    "least_load": [Case(bare)],
    "manual": [Case(by_key, sticks=True, returns=True), Case(bare)],
    "passthrough": [Case(bare, sticks=True, returns=True, balances=False)],
    "power_of_two": [Case(bare)],
    "prefix_hash": [
        Case(by_text, sticks=True, returns=True),
        Case(by_tokens, sticks=True, returns=True),
        Case(by_key, sticks=True, returns=True),
        Case(bare),
    ],
    "random": [Case(bare)],
    "round_robin": [Case(bare)],
}


def cases(wanted=lambda _: True):
    return [
        pytest.param(name, case, id="-".join([name, case.unrelated.__name__, *case.options]))
        for name, each in CASES.items()
        for case in each
        if wanted(case)
    ]


every_policy = pytest.mark.parametrize("name", NAMES)
every_case = pytest.mark.parametrize(("name", "case"), cases())

reports = st.one_of(
    st.none(),
    st.builds(
        LoadReport,
        waiting_requests=st.integers(0, 100),
        waiting_uncached_tokens=st.one_of(st.none(), st.integers(0, 1_000_000)),
        token_usage=st.one_of(st.none(), st.floats(0, 1)),
        throughput_tokens_per_sec=st.one_of(st.none(), st.floats(0, 1e6)),
    ),
)
workers_in_any_state = st.lists(st.tuples(st.integers(0, 300), reports), min_size=1, max_size=7)
any_hints = st.builds(
    Hints,
    text=st.text(alphabet="abé漢\ud800", max_size=40),
    tokens=st.one_of(st.none(), st.lists(st.integers(0, 3), max_size=40)),
    routing_key=st.one_of(st.none(), st.text(max_size=5)),
    target=st.one_of(st.none(), st.sampled_from(["0", "1", "6", "7", "-1", "x"])),
    identity=st.one_of(st.none(), st.text(max_size=5)),
    partition=st.sampled_from(["", "a", "b"]),
)


# --- the table ---


@every_policy
def test_an_entry_loads_the_policy_of_its_name(name):
    policy = table.load(name)
    assert policy.name == name
    assert isinstance(policy.reads_text, bool)


def test_every_module_of_the_room_is_in_the_table_and_every_policy_in_this_suite():
    modules = {module.name for module in pkgutil.iter_modules(table.__path__)} - {"base"}
    assert modules == {entry.split(":")[0].rpartition(".")[2] for entry in table.POLICIES.values()}
    assert set(CASES) == set(NAMES)


def test_a_name_that_is_not_in_the_table_is_refused():
    with pytest.raises(KeyError):
        table.load("no_such_policy")


@every_policy
def test_options_are_a_frozen_dataclass_with_a_default_for_every_field(name):
    options = table.load(name).options
    assert is_dataclass(options)
    assert options.__dataclass_params__.frozen
    assert {field.name for field in fields(options())} == {field.name for field in fields(options)}
    assert make(name).select(fleet(1), NO_HINTS) is not None
    assert table.load(name)(PolicyContext(Random(1), float), options()) is not None


@every_policy
def test_a_policy_does_not_import_its_siblings(name):
    module = import_module(table.POLICIES[name].split(":")[0])
    siblings = {entry.split(":")[0] for entry in table.POLICIES.values()} - {module.__name__}
    origins = {getattr(value, "__module__", None) for value in vars(module).values()}
    assert not origins & siblings


# --- choosing ---


@every_policy
@given(
    states=workers_in_any_state,
    requests=st.lists(st.tuples(any_hints, st.sets(st.integers(0, 6))), max_size=12),
)
def test_only_a_candidate_is_ever_chosen(name, states, requests):
    policy = make(name)
    workers = tuple(worker(n, load, report) for n, (load, report) in enumerate(states))
    for hints, out in requests:
        candidates = tuple(one for n, one in enumerate(workers) if n not in out) or workers
        chosen = policy.select(candidates, hints)
        assert chosen in candidates or (chosen is None and hints.target is not None)


@every_case
def test_a_choice_changes_no_worker(name, case):
    policy, workers = make(name, **case.options), fleet(3)
    before = [(one.load, one.dispatched_tokens, one.status) for one in workers]
    for number in range(20):
        policy.select(workers, case.unrelated(number))
    assert [(one.load, one.dispatched_tokens, one.status) for one in workers] == before


@every_case
def test_the_same_seed_makes_the_same_choices(name, case):
    def choices(seed):
        policy, workers = make(name, seed, **case.options), fleet(5)
        return [policy.select(workers, case.unrelated(number)).id for number in range(60)]

    assert choices(1) == choices(1)


@every_case
def test_a_list_of_candidates_does_as_well_as_a_tuple(name, case):
    policy, workers = make(name, **case.options), list(fleet(4))
    for number in range(20):
        assert policy.select(workers, case.unrelated(number)) in workers
        assert policy.select(workers[1:], case.unrelated(number)) in workers[1:]


@pytest.mark.parametrize(("name", "case"), cases(lambda case: case.balances))
@pytest.mark.parametrize("reporting", [False, True])
def test_equal_workers_share_unrelated_requests(name, case, reporting):
    policy, workers = make(name, **case.options), fleet(5)
    for one in workers:
        one.report = LoadReport() if reporting else None
    taken = Counter(policy.select(workers, case.unrelated(number)).id for number in range(1000))
    assert len(taken) == 5
    assert max(taken.values()) < 350


# --- affinity ---


@pytest.mark.parametrize(("name", "case"), cases(lambda case: case.sticks))
def test_a_request_repeated_goes_where_it_went(name, case):
    policy, workers = make(name, **case.options), fleet(5)
    first = [policy.select(workers, case.unrelated(number)) for number in range(40)]
    assert [policy.select(workers, case.unrelated(number)) for number in range(40)] == first


@pytest.mark.parametrize(("name", "case"), cases(lambda case: case.sticks))
def test_while_a_worker_is_out_only_its_requests_move(name, case):
    policy, workers = make(name, **case.options), fleet(5)
    first = [policy.select(workers, case.unrelated(number)) for number in range(40)]
    out = first[0]
    rest = tuple(one for one in workers if one is not out)
    during = [policy.select(rest, case.unrelated(number)) for number in range(40)]
    assert all(now is then for now, then in zip(during, first, strict=True) if then is not out)
    again = [policy.select(rest, case.unrelated(number)) for number in range(40)]
    assert again == during
    back = [policy.select(workers, case.unrelated(number)) for number in range(40)]
    if case.returns:
        assert back == first
    else:
        assert all(now in pair for now, *pair in zip(back, first, during, strict=True))


# --- memory ---


def sees(policy, value):
    """Whether a policy still refers to a value, at any depth."""
    seen, heap = set(), [vars(policy)]
    while heap:
        found = heap.pop()
        if found is value or (isinstance(value, str) and found == value):
            return True
        if id(found) not in seen and not isinstance(found, type) and not callable(found):
            seen.add(id(found))
            heap += gc.get_referents(found)
            heap += list(found) if isinstance(found, dict) else []  # the collector skips keys that are text
    return False


@every_case
def test_nothing_is_left_of_a_forgotten_worker(name, case):
    policy, workers = make(name, **case.options), fleet(3)
    for one in workers:
        one.report = LoadReport()
    for number in range(50):
        policy.select(workers, case.unrelated(number))
        policy.select(workers, case.unrelated(number))
    for one in workers:
        policy.forget(one.url)
    assert not any(sees(policy, one) or sees(policy, one.url) for one in workers)


@every_case
def test_a_worker_that_was_removed_returns_as_a_stranger(name, case):
    policy, workers = make(name, **case.options), fleet(4)
    first = [policy.select(workers, case.unrelated(number)) for number in range(30)]
    policy.forget(first[0].url)
    rest = tuple(one for one in workers if one is not first[0])
    for number in range(30):
        assert policy.select(rest, case.unrelated(number)) in rest
    newcomer = worker(first[0].id)
    returned = tuple(newcomer if one is first[0] else one for one in workers)
    for number in range(30):
        assert policy.select(returned, case.unrelated(number)) in returned


@every_policy
def test_forgetting_a_stranger_and_sweeping_an_empty_policy_are_no_errors(name):
    policy = make(name)
    policy.forget("http://nobody")
    policy.sweep(0.0)
    assert all(size == 0 for size in policy.sizes().values())


@every_case
def test_memory_does_not_grow_with_the_fleets_that_came_and_went(name, case):
    policy = make(name, **case.options)
    sizes = []
    for generation in range(6):
        workers = tuple(worker(f"{generation}-{number}") for number in range(4))
        for number in range(100):
            policy.select(workers, case.unrelated(number))
        for one in workers:
            policy.forget(one.url)
        sizes.append(dict(policy.sizes()))
    assert sizes[-1] == sizes[0]


@every_policy
def test_a_sweep_long_after_leaves_only_what_is_bounded_by_size(name):
    clock = [0.0]
    policy, workers = make(name, clock=lambda: clock[0]), fleet(3)
    for number in range(200):
        policy.select(workers, by_key(number))
    clock[0] = 1e9
    policy.sweep(clock[0])
    assert policy.sizes().get("entries", 0) == 0
