from collections import Counter

import pytest

from smg.fleet.hints import Hints
from smg.fleet.policies.cache_aware import LABEL_OPTIONS, CacheAware, CacheAwareOptions
from smg.fleet.worker import LoadReport


def prose(number, length=600):
    """Text that shares no beginning with another number's."""
    return (f"{number * 7919:d} " * length)[:length]


def policy_of(bench, **options):
    return CacheAware(bench.context(), CacheAwareOptions(**options))


def ask(policy, workers, text="", **hints):
    return policy.select(workers, Hints(text=text, **hints))


def test_prompts_that_share_a_beginning_share_a_worker(bench, fleet):
    policy, workers = policy_of(bench), fleet(0, 0, 0, 0)
    homes = [ask(policy, workers, prose(n)) for n in range(24)]
    assert set(homes) == set(workers)
    for turn in range(3):
        assert [ask(policy, workers, f"{prose(n)} turn {turn}") for n in range(24)] == homes
    assert bench.branches == {"expected_wait_fallback": 24, "tree_match": 72}
    assert len(bench.samples) == 96
    assert bench.samples[0] == ("match_ratio", 0.0)
    assert bench.samples[-1][1] > 0.9


@pytest.mark.parametrize(("tail", "stays"), [(9, True), (10, False)])
def test_a_match_must_exceed_the_threshold(bench, fleet, tail, stays):
    policy, workers = policy_of(bench, cache_threshold=0.5), fleet(0, 0)
    home = ask(policy, workers, "a" * 10)
    home.load = 1
    assert (ask(policy, workers, "a" * 10 + "b" * tail) is home) == stays


def test_an_unknown_prompt_goes_to_the_lowest_expected_wait(bench, fleet):
    policy, workers = policy_of(bench), fleet(2, 1, 3)
    assert ask(policy, workers, "hello") is workers[1]
    for worker, waiting in zip(workers, (5, 9, 1), strict=True):
        worker.report = LoadReport(waiting_requests=waiting)
    assert ask(policy, workers, "another") is workers[2]


def test_an_empty_prompt_follows_load_and_is_not_recorded(bench, fleet):
    policy, workers = policy_of(bench), fleet(1, 0)
    assert ask(policy, workers) is workers[1]
    assert policy.sizes() == {"chars": 0, "tokens": 0, "text_tenants": 0, "token_tenants": 0}


def test_a_matched_worker_that_is_too_busy_spills_and_the_substitute_is_recorded(bench, fleet):
    policy = policy_of(bench, balance_abs_threshold=2, balance_rel_threshold=1.1)
    workers = fleet(0, 0, 0)
    home = ask(policy, workers, prose(1))
    home.load = 3
    assert ask(policy, workers, prose(1)) is home
    home.load = 4
    substitute = ask(policy, workers, prose(1))
    assert substitute is not home
    assert bench.branches["spill"] == 1
    substitute.load = 1
    assert ask(policy, workers, prose(1)) is substitute
    assert bench.branches["spill"] == 1


def test_a_burst_on_one_prefix_spreads_before_it_piles_up(bench, fleet):
    policy, workers = policy_of(bench), fleet(0, 0, 0)
    for number in range(60):
        ask(policy, workers, f"{prose(1)} {number}").load += 1
    assert all(10 <= worker.load <= 32 for worker in workers)


@pytest.mark.parametrize(
    ("mean", "threshold", "margin"),
    [(1, 64, 4), (100, 64, 20), (400, 64, 40), (10_000, 64, 64), (100, 3, 3)],
)
def test_the_margin_is_two_deviations_of_the_mean_within_its_limits(bench, fleet, mean, threshold, margin):
    policy = policy_of(bench, balance_abs_threshold=threshold, balance_rel_threshold=1.0)
    workers = fleet(*[mean] * 5)
    home = ask(policy, workers, prose(1))
    other = next(worker for worker in workers if worker is not home)
    for excess, stays in ((margin, True), (margin + 1, False)):
        home.load, other.load = mean + excess, mean - excess
        assert (ask(policy, workers, prose(1)) is home) == stays


def test_the_relative_threshold_must_be_exceeded_as_well(bench, fleet):
    policy, workers = policy_of(bench, balance_rel_threshold=3.0), fleet(10, 10, 10, 10)
    home = ask(policy, workers, prose(1))
    home.load = 40
    assert ask(policy, workers, prose(1)) is home


def test_a_spill_passes_over_hot_workers_that_hold_nothing(bench, fleet):
    policy, workers = policy_of(bench, balance_abs_threshold=2, balance_rel_threshold=1.1), fleet(0, 0, 0)
    home = ask(policy, workers, prose(1))
    hot, cool = (worker for worker in workers if worker is not home)
    home.load, hot.load = 9, 9
    hot.report, cool.report = LoadReport(), LoadReport(waiting_requests=100)
    assert ask(policy, workers, prose(1)) is cool


def test_when_everyone_is_hot_the_lowest_wait_decides_among_all(bench, fleet):
    policy, workers = policy_of(bench, balance_abs_threshold=-9.0, balance_rel_threshold=0.1), fleet(9, 8)
    assert ask(policy, workers, prose(1)) is workers[1]
    workers[1].load = 20
    assert ask(policy, workers, prose(1)) is workers[0]


def test_of_several_holders_the_one_with_the_lowest_wait_is_taken(bench, fleet):
    policy, workers = policy_of(bench), fleet(0, 0, 0)
    for worker in workers[:2]:
        ask(policy, (worker,), prose(1))
    workers[0].load = 2
    assert {ask(policy, workers, prose(1)) for _ in range(20)} == {workers[1]}
    workers[1].load = 2
    assert {ask(policy, workers, prose(1)) for _ in range(20)} == set(workers[:2])


def test_a_prefix_held_by_many_is_not_confined_to_eight_of_them(bench, fleet):
    policy, workers = policy_of(bench), fleet(*[0] * 30)
    for worker in workers:
        ask(policy, (worker,), prose(1))
    taken = Counter(ask(policy, workers, prose(1)).id for _ in range(1500))
    assert len(taken) == 30
    assert max(taken.values()) < 150


def test_while_the_deepest_holder_is_out_a_shallower_one_serves(bench, fleet):
    policy, workers = policy_of(bench), fleet(0, 0, 0, 0)
    ask(policy, workers[:1], prose(1))
    ask(policy, workers[1:2], prose(1) + "and on")
    workers[0].load = 1
    assert ask(policy, (workers[0], *workers[2:]), prose(1) + "and on") is workers[0]


def test_while_every_holder_is_out_the_lowest_wait_decides(bench, fleet):
    policy, workers = policy_of(bench), fleet(0, 0, 0)
    home = ask(policy, workers, prose(1))
    assert ask(policy, [worker for worker in workers if worker is not home], prose(1)) is not home
    assert bench.branches == {"expected_wait_fallback": 2}


def test_tokens_win_over_text_and_match_by_pages(bench, fleet):
    policy, workers = policy_of(bench), fleet(*[0] * 6)
    home = ask(policy, workers, prose(1), tokens=list(range(96)))
    assert {ask(policy, workers, prose(n), tokens=[*range(96), n]) for n in range(30)} == {home}
    home.load = 1
    assert ask(policy, workers, prose(1)) is not home
    assert policy.sizes()["tokens"] >= 96


def test_less_than_a_page_of_tokens_never_matches(bench, fleet):
    policy, workers = policy_of(bench, block_size=32), fleet(0, 0)
    for _ in range(5):
        ask(policy, workers, tokens=list(range(31)))
    assert bench.branches == {"expected_wait_fallback": 5}
    assert policy.sizes()["tokens"] == 0


def test_the_share_of_tokens_counts_the_unfinished_page(bench, fleet):
    policy, workers = policy_of(bench, cache_threshold=0.8), fleet(0, 0)
    ask(policy, workers, tokens=list(range(16)))
    ask(policy, workers, tokens=list(range(31)))
    assert bench.branches == {"expected_wait_fallback": 2}
    assert bench.samples[-1] == ("match_ratio", 16 / 31)


@pytest.mark.parametrize("stray", [-1, 1 << 32, 1 << 80])
def test_ids_no_tokenizer_makes_are_placed_all_the_same(bench, fleet, stray):
    policy, workers = policy_of(bench), fleet(0, 0)
    assert ask(policy, workers, tokens=[stray] * 20) is ask(policy, workers, tokens=[stray] * 20)
    assert bench.branches["tree_match"] == 1


def test_partitions_do_not_share_prompts(bench, fleet):
    policy, workers = policy_of(bench), fleet(0, 0, 0, 0)
    for partition in ("", "one", "two", "x" * 1000 + "1", "x" * 1000 + "2"):
        ask(policy, workers, prose(1), partition=partition)
        ask(policy, workers, tokens=list(range(64)), partition=partition)
    assert bench.branches == {"expected_wait_fallback": 10}
    ask(policy, workers, prose(1), partition="x" * 1000 + "2")
    assert bench.branches["tree_match"] == 1
    assert max(map(len, policy._index._text._roots)) <= 64


def test_affinity_is_off_while_a_cache_is_critically_full(bench, fleet):
    policy, workers = policy_of(bench, overload_token_usage_threshold=0.9), fleet(0, 0)
    home = ask(policy, workers, prose(1))
    home.load = 1
    home.report = LoadReport(token_usage=0.9)
    assert ask(policy, workers, prose(1)) is home
    home.report = LoadReport(token_usage=0.95)
    assert ask(policy, workers, prose(1)) is not home
    assert bench.branches["expected_wait_fallback"] == 2


def test_affinity_is_off_while_caches_fill_unevenly(bench, fleet):
    policy, workers = policy_of(bench, balance_token_usage_threshold=0.3), fleet(0, 0)
    home = ask(policy, workers, prose(1))
    other = next(worker for worker in workers if worker is not home)
    home.report, other.report = LoadReport(token_usage=0.7), LoadReport(token_usage=0.5)
    assert ask(policy, workers, prose(1)) is home
    other.report = LoadReport(token_usage=0.3)
    assert ask(policy, workers, prose(1)) is other


def test_usage_thresholds_wait_for_reports(bench, fleet):
    policy = policy_of(bench, balance_token_usage_threshold=0.1, overload_token_usage_threshold=0.1)
    workers = fleet(0, 0)
    assert ask(policy, workers, prose(1)) is ask(policy, workers, prose(1))


def test_usage_is_not_watched_by_default(bench, fleet):
    policy, workers = policy_of(bench), fleet(0, 0)
    home = ask(policy, workers, prose(1))
    home.report = LoadReport(token_usage=1.0)
    assert ask(policy, workers, prose(1)) is home


def test_a_removed_worker_is_purged_and_does_not_reclaim_its_prompts(bench, fleet):
    policy, workers = policy_of(bench), fleet(0, 0, 0)
    homes = {n: ask(policy, workers, prose(n)) for n in range(18)}
    gone = homes[0]
    policy.forget(gone.url)
    rest = tuple(worker for worker in workers if worker is not gone)
    fresh = {n: ask(policy, rest, prose(n) + " more") for n in homes}
    assert all(fresh[n] is home for n, home in homes.items() if home is not gone)
    assert {n: ask(policy, workers, prose(n) + " later") for n in homes} == fresh


def test_both_trees_stay_within_their_bound(bench, fleet):
    policy, workers = policy_of(bench, max_tree_size=5000), fleet(0, 0, 0)
    for number in range(300):
        ask(policy, workers, prose(number))
        ask(policy, workers, tokens=list(range(number * 100, number * 100 + 90)))
        sizes = policy.sizes()
        assert sizes["chars"] <= 5000
        assert sizes["tokens"] <= 5000
    assert sizes["chars"] > 4000
    assert sizes["tokens"] > 4000
    assert ask(policy, workers, prose(299)) is ask(policy, workers, prose(299))


def hashing(bench, *boundaries, **options):
    return policy_of(bench, cache_index="hash", cache_boundaries=boundaries, **options)


def test_the_hash_index_keeps_prompts_with_a_common_head_together(bench, fleet):
    policy, workers = hashing(bench, 4, 8), fleet(*[0] * 6)
    homes = [ask(policy, workers, tokens=[n, 1, 2, 3, 4]) for n in range(20)]
    assert len(set(homes)) > 3
    assert [ask(policy, workers, prose(n), tokens=[n, 1, 2, 3, 9, 9, 9, 9, n]) for n in range(20)] == homes
    assert bench.branches == {"expected_wait_fallback": 20, "tree_match": 20}
    assert bench.samples[-1] == ("match_ratio", 4 / 9)
    assert policy.sizes() == {"placements": 40}


def test_the_hash_index_prefers_the_deepest_head(bench, fleet):
    policy, workers = hashing(bench, 2, 4), fleet(0, 0, 0)
    ask(policy, workers[:1], tokens=[1, 2])
    ask(policy, workers[1:2], tokens=[1, 2, 3, 4])
    workers[1].load = 3
    assert ask(policy, workers, tokens=[1, 2, 3, 4, 5]) is workers[1]
    assert ask(policy, (workers[0], workers[2]), tokens=[1, 2, 3, 4, 5]) is workers[0]


def test_the_hash_index_asks_for_no_share_of_the_prompt(bench, fleet):
    policy, workers = hashing(bench, 2, cache_threshold=1.0), fleet(0, 0)
    home = ask(policy, workers, tokens=[1, 2])
    home.load = 1
    assert ask(policy, workers, tokens=[1, 2, *range(1000)]) is home


@pytest.mark.parametrize("hints", [{"text": prose(1)}, {"tokens": [1, 2, 3]}])
def test_the_hash_index_balances_prompts_without_tokens_or_too_short(bench, fleet, hints):
    policy, workers = hashing(bench, 4), fleet(0, 0)
    for worker in (workers[1], workers[0]) * 2:
        workers[0].load, workers[1].load = (worker is workers[1]), (worker is workers[0])
        assert ask(policy, workers, **hints) is worker
    assert bench.branches == {"expected_wait_fallback": 4}
    assert policy.sizes() == {"placements": 0}


def test_the_hash_index_believes_a_placement_for_its_time(bench, fleet):
    policy, workers = hashing(bench, 4, cache_ttl_secs=30), fleet(0, 0)
    home = ask(policy, workers, tokens=[1, 2, 3, 4])
    home.load = 1
    bench.now = 29
    assert ask(policy, workers, tokens=[1, 2, 3, 4]) is home
    bench.now = 58
    assert ask(policy, workers, tokens=[1, 2, 3, 4]) is home
    bench.now = 88
    assert ask(policy, workers, tokens=[1, 2, 3, 4]) is not home


def test_the_hash_index_spills_and_records_the_substitute(bench, fleet):
    policy = hashing(bench, 2, balance_abs_threshold=2, balance_rel_threshold=1.1)
    workers = fleet(0, 0, 0)
    home = ask(policy, workers, tokens=[1, 2])
    home.load = 4
    substitute = ask(policy, workers, tokens=[1, 2])
    assert substitute is not home
    assert ask(policy, workers, tokens=[1, 2]) is substitute
    assert bench.branches == {"expected_wait_fallback": 1, "spill": 1, "tree_match": 1}


def test_the_hash_index_is_swept_and_purged(bench, fleet):
    policy, workers = hashing(bench, 2), fleet(0, 0)
    home = ask(policy, workers, tokens=[1, 2])
    policy.forget(home.url)
    home.load = 1
    assert ask(policy, workers, tokens=[1, 2]) is not home
    policy.sweep(1000)
    assert policy.sizes() == {"placements": 0}


def test_decay_makes_way_for_a_worker_that_knows_less_and_has_less_to_do(bench, fleet):
    prompt = "p" * 400  # counts as 100 tokens

    def taken(decay, waiting):
        policy, workers = policy_of(bench, overlap_decay=decay), fleet(0, 0, 0)
        ask(policy, workers[1:2], prompt[:200])
        ask(policy, workers[:1], prompt)
        workers[0].report = LoadReport(waiting_uncached_tokens=waiting)
        workers[1].report = workers[2].report = LoadReport()
        return ask(policy, workers, prompt).id

    assert taken(0.0, 10**6) == "0"
    assert taken(1.0, 99) == "0"
    assert taken(1.0, 101) == "1"
    assert taken(0.1, 101) == "0"


def test_decay_leaves_out_those_that_know_too_little(bench, fleet):
    policy, workers = policy_of(bench, overlap_decay=1.0), fleet(0, 0)
    ask(policy, workers[1:], "p" * 29)
    ask(policy, workers[:1], "p" * 100)
    workers[0].report, workers[1].report = LoadReport(waiting_uncached_tokens=10**6), LoadReport()
    assert ask(policy, workers, "p" * 100) is workers[0]


def test_equal_scores_are_decided_by_the_lowest_wait(bench, fleet):
    policy, workers = policy_of(bench, overlap_decay=1.0), fleet(0, 3, 0)
    for worker in workers[:2]:
        ask(policy, (worker,), prose(1))
    assert {ask(policy, workers, prose(1)) for _ in range(20)} == {workers[0]}


def test_a_hot_worker_is_passed_over_however_well_it_scores(bench, fleet):
    policy = policy_of(bench, overlap_decay=0.1, balance_abs_threshold=2, balance_rel_threshold=1.1)
    workers = fleet(0, 0, 0)
    ask(policy, workers[1:2], prose(1)[:300])
    ask(policy, workers[:1], prose(1))
    workers[0].load = 9
    assert ask(policy, workers, prose(1)) is workers[1]
    assert bench.branches["spill"] == 0


def test_temperature_spreads_a_prompt_over_all_that_know_enough_of_it(bench, fleet):
    def taken(temperature):
        policy, workers = policy_of(bench, selection_temperature=temperature), fleet(0, 0, 0)
        ask(policy, workers[1:2], prose(1)[:300])
        ask(policy, workers[:1], prose(1))
        return Counter(ask(policy, workers, prose(1) + prose(number + 2)[:40]).id for number in range(400))

    assert taken(0.0).keys() == {"0"}
    warm = taken(1000.0)
    assert warm.keys() == {"0", "1"}
    assert min(warm.values()) > 100


def test_scores_are_compared_among_the_eight_that_know_the_most(bench, fleet):
    policy, workers = policy_of(bench, selection_temperature=1e6, cache_threshold=0.0), fleet(*[0] * 20)
    for number, worker in enumerate(workers):
        ask(policy, (worker,), prose(1)[: 10 * (number + 1)])
    taken = {ask(policy, workers, prose(1)).id for _ in range(200)}
    assert taken == {str(number) for number in range(12, 20)}


def test_a_model_that_asks_for_the_policy_by_label_has_options_of_its_own():
    assert (LABEL_OPTIONS.cache_threshold, LABEL_OPTIONS.balance_abs_threshold) == (0.5, 32)
    assert (LABEL_OPTIONS.balance_rel_threshold, LABEL_OPTIONS.max_tree_size) == (1.1, 10_000)
    assert CacheAware.label_options is LABEL_OPTIONS
