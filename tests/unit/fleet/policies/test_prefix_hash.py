import pytest

from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.policies.prefix_hash import PrefixHash, PrefixHashOptions


def policy_of(bench, **options):
    return PrefixHash(bench.context(), PrefixHashOptions(**options))


def homes(policy, workers, hints):
    return [policy.select(workers, each) for each in hints]


def test_prompts_that_begin_alike_stay_together(bench, fleet):
    policy, workers = policy_of(bench, prefix_token_count=8), fleet(*[0] * 6)
    heads = [f"{n:032d}" for n in range(40)]
    first = homes(policy, workers, [Hints(text=head) for head in heads])
    assert homes(policy, workers, [Hints(text=head + " and so on" * n) for n, head in enumerate(heads)]) == first
    assert len(set(first)) > 3


def test_token_heads_stay_together_and_win_over_the_text(bench, fleet):
    policy, workers = policy_of(bench, prefix_token_count=4), fleet(*[0] * 6)
    one = policy.select(workers, Hints(tokens=[1, 2, 3, 4]))
    assert {policy.select(workers, Hints(text=f"{n}", tokens=[1, 2, 3, 4, n])) for n in range(20)} == {one}
    assert len({policy.select(workers, Hints(tokens=[n, 2, 3, 4])) for n in range(20)}) > 3


def test_a_routing_key_wins_over_the_prompt(bench, fleet):
    policy, workers = policy_of(bench), fleet(*[0] * 6)
    hints = [Hints(text=f"{n}", tokens=[n], routing_key="key") for n in range(20)]
    assert len(set(homes(policy, workers, hints))) == 1
    assert bench.branches == {"ring_hit": 20}


def test_nothing_to_hash_goes_to_the_least_loaded(bench, fleet):
    workers = fleet(3, 1, 2)
    assert policy_of(bench).select(workers, NO_HINTS) is workers[1]
    assert bench.branches == {"no_routing_key": 1}


@pytest.mark.parametrize("tokens", [[-1, 2], [1 << 40]])
def test_ids_no_tokenizer_makes_are_hashed_all_the_same(bench, fleet, tokens):
    policy, workers = policy_of(bench), fleet(0, 0, 0)
    assert policy.select(workers, Hints(tokens=tokens)) is policy.select(workers, Hints(tokens=tokens))


def test_lone_surrogates_are_hashed_all_the_same(bench, fleet):
    workers = fleet(0, 0)
    assert policy_of(bench).select(workers, Hints(text="\ud800")) in workers


def overload(policy, workers, hints, load):
    """Put the target of `hints` under load and say where the request goes instead."""
    target = policy.select(workers, hints)
    target.load = load
    return target, policy.select(workers, hints)


@pytest.mark.parametrize(("load", "moves"), [(10, False), (21, False), (22, True), (500, True)])
def test_a_worker_far_above_the_average_passes_its_turn_on(bench, fleet, load, moves):
    # Of two workers one is busy: with 21 the average is 11 and the limit 21, with 22 it is 21.5.
    target, now = overload(policy_of(bench), fleet(0, 0), Hints(text="hello"), load)
    assert (now is not target) == moves
    assert bench.branches["load_balance_walk"] == moves


def test_being_above_one_threshold_is_not_enough(bench, fleet):
    policy, workers = policy_of(bench), fleet(100, 100, 100, 100)
    target, now = overload(policy, workers, Hints(text="hello"), 115)
    assert now is target


def test_the_thresholds_are_options(bench, fleet):
    policy = policy_of(bench, prefix_hash_load_factor=1.0, prefix_hash_balance_abs_threshold=0)
    target, now = overload(policy, fleet(0, 0), Hints(text="hello"), 2)
    assert now is not target


def test_a_single_worker_keeps_whatever_comes(bench, fleet):
    policy, workers = policy_of(bench, prefix_hash_balance_abs_threshold=0), fleet(9)
    assert policy.select(workers, Hints(text="hello")) is workers[0]


def test_the_deepest_boundary_reached_ends_the_head(bench, fleet):
    policy, workers = policy_of(bench, cache_boundaries=(4, 8)), fleet(*[0] * 8)
    eight = policy.select(workers, Hints(tokens=list(range(8))))
    assert policy.select(workers, Hints(tokens=[*range(8), 99])) is eight
    four = {policy.select(workers, Hints(tokens=[0, 1, 2, 3, n])) for n in range(50, 70)}
    assert len(four) == 1
    text = {policy.select(workers, Hints(text="x" * 16 + f"{n:02d}")) for n in range(20)}
    assert len(text) == 1


def test_an_overloaded_owner_gives_way_to_the_owner_of_a_shallower_head(bench, fleet):
    policy, workers = policy_of(bench, cache_boundaries=(4, 8)), fleet(*[0] * 8)
    shallow = policy.select(workers, Hints(tokens=[0, 1, 2, 3]))
    for last in range(100, 200):
        hints = Hints(tokens=[0, 1, 2, 3, 4, 5, 6, last])
        if policy.select(workers, hints) is not shallow:
            break
    bench.branches.clear()
    shallow.load = 1
    target, now = overload(policy, workers, hints, 300)
    assert now is shallow is not target
    assert bench.branches == {"ring_hit": 2}
