from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.hints import Hints
from smg.fleet.structures.head_index import MAX_HOLDERS, HeadIndex
from smg.fleet.structures.prefix_index import NOTHING

URLS = ["http://a", "http://b", "http://c", "http://d"]
BOUNDARIES = (2, 4, 5)
TTL = 100.0

prompts = st.lists(st.integers(0, 1), max_size=7)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), prompts, st.sampled_from(["", "x"]), st.sampled_from(URLS), st.floats(0, 60)),
        st.tuples(st.just("forget"), st.just([]), st.just(""), st.sampled_from(URLS), st.just(0.0)),
        st.tuples(st.just("sweep"), st.just([]), st.just(""), st.just(""), st.floats(0, 150)),
    ),
    max_size=40,
)


class Clocked(HeadIndex):
    """An index whose clock is set."""

    def __init__(self, boundaries, **limits):
        self.now = 0.0
        super().__init__(boundaries, TTL, lambda: self.now, **limits)


def index_of(*boundaries, **limits):
    return Clocked(boundaries or BOUNDARIES, **limits)


def levels(index, tokens, now=0.0, partition=""):
    index.now = now
    found = index.find(Hints(tokens=tokens, partition=partition))
    return [(known, list(urls)) for known, urls in found.levels()]


def record(index, tokens, url, now=0.0, partition=""):
    index.now = now
    index.find(Hints(tokens=tokens, partition=partition)).record(url)


class Naive:
    """What the index should know, kept as a plain table of heads."""

    def __init__(self):
        self.heads = {}

    def record(self, tokens, partition, url, now):
        for end in BOUNDARIES:
            if end <= len(tokens):
                holders = self.heads.setdefault((partition, *tokens[:end]), {})
                holders.pop(url, None)
                holders[url] = now
                while len(holders) > MAX_HOLDERS:
                    del holders[next(iter(holders))]

    def forget(self, url):
        for holders in self.heads.values():
            holders.pop(url, None)

    def levels(self, tokens, partition, now):
        known = []
        for end in reversed(BOUNDARIES):
            holders = self.heads.get((partition, *tokens[:end]), {}) if end <= len(tokens) else {}
            urls = [url for url, since in reversed(holders.items()) if since > now - TTL]
            if urls:
                known.append((end, urls))
        return known


@given(steps, st.lists(prompts, min_size=1, max_size=4))
def test_the_index_agrees_with_a_plain_table_of_heads(history, queries):
    index, naive, now = index_of(), Naive(), 0.0
    for action, tokens, partition, url, secs in history:
        now += secs
        if action == "record":
            record(index, tokens, url, now, partition)
            naive.record(tokens, partition, url, now)
        elif action == "forget":
            index.forget(url)
            naive.forget(url)
        else:
            index.sweep(now)
        for query in [*queries, tokens]:
            assert levels(index, query, now, partition) == naive.levels(query, partition, now)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(URLS)), max_size=60))
def test_when_full_the_least_recently_recorded_head_leaves(history):
    index, lru = index_of(2, max_heads=4), OrderedDict()
    for number, url in history:
        record(index, [number, number], url)
        lru[number] = True
        lru.move_to_end(number)
        if len(lru) > 4:
            lru.popitem(last=False)
        assert index.sizes()["placements"] == len(lru)
        assert {each for each in range(10) if levels(index, [each, each])} == set(lru)


def test_when_full_the_deepest_head_of_a_prompt_leaves_first():
    index = index_of(2, 4, max_heads=3)
    record(index, [1, 1, 1, 1], "http://a")
    record(index, [2, 2, 2, 2], "http://b")
    assert levels(index, [1, 1, 1, 1]) == [(2, ["http://a"])]
    assert levels(index, [2, 2, 2, 2]) == [(4, ["http://b"]), (2, ["http://b"])]


def test_heads_match_whole_or_not_at_all():
    index = index_of(4)
    record(index, [1, 2, 3, 4, 5], "http://a")
    assert levels(index, [1, 2, 3, 4, 9, 9]) == [(4, ["http://a"])]
    assert levels(index, [1, 2, 3, 9, 5]) == []
    assert levels(index, [1, 2, 3]) == []


def test_the_share_is_that_of_the_deepest_head_that_somebody_holds():
    index = index_of(2, 4)
    record(index, [1, 2], "http://a")
    assert index.find(Hints(tokens=[1, 2, 3, 4, 5, 6, 7, 8])).share == 0.25
    assert index.find(Hints(tokens=[9, 2, 3, 4])).share == 0.0


@pytest.mark.parametrize("hints", [Hints(text="a long text of many words"), Hints(tokens=[1]), Hints(tokens=[])])
def test_prompts_without_tokens_or_too_short_are_not_recorded(hints):
    index = index_of(2)
    found = index.find(hints)
    assert found is NOTHING
    found.record("http://a")
    assert (list(found.levels()), index.sizes()["placements"]) == ([], 0)


def test_partitions_share_no_head_however_they_are_spelt():
    index = index_of(2, 3)
    packed = bytes([7, 0, 0, 0])
    record(index, [7, 7], "http://a", partition=packed.decode("latin-1"))
    assert levels(index, [7, 7], partition="\ud800") == []
    assert levels(index, [7, 7, 7]) == []
    assert levels(index, [7, 7], partition=packed.decode("latin-1")) == [(2, ["http://a"])]


def test_the_latest_three_workers_of_a_head_are_remembered_once_each():
    index = index_of(2)
    for url in (*URLS, URLS[1], URLS[1]):
        record(index, [1, 2], url)
    assert levels(index, [1, 2]) == [(2, [URLS[1], URLS[3], URLS[2]])]


def test_a_removed_worker_takes_no_place_from_those_that_are_left():
    index = index_of(2)
    for url in URLS[:3]:
        record(index, [1, 2], url)
    for url in URLS[1:3]:
        index.forget(url)
    record(index, [1, 2], URLS[3])
    assert levels(index, [1, 2]) == [(2, [URLS[3], URLS[0]])]


def test_a_placement_is_believed_until_its_time_is_up_and_each_use_renews_it():
    index = index_of(2)
    record(index, [1, 2], "http://a", now=0.0)
    record(index, [1, 2], "http://b", now=60.0)
    assert levels(index, [1, 2], now=99.0) == [(2, ["http://b", "http://a"])]
    assert levels(index, [1, 2], now=100.0) == [(2, ["http://b"])]
    assert levels(index, [1, 2], now=160.0) == []


def test_new_heads_clear_out_old_ones_without_a_sweep():
    index = index_of(2)
    for number in range(10):
        record(index, [number, 0], "http://a", now=0.0)
    for number in range(5):
        record(index, [number, 1], "http://a", now=1000.0)
    assert index.sizes()["placements"] == 5


def test_a_sweep_drops_what_nobody_holds_any_more():
    index = index_of(2)
    record(index, [1, 1], "http://a", now=0.0)
    record(index, [2, 2], "http://a", now=50.0)
    index.sweep(100.0)
    assert index.sizes() == {"placements": 1}
    assert levels(index, [2, 2], now=100.0)


def test_a_removed_worker_holds_nothing_and_returns_as_a_stranger():
    index = index_of(2)
    record(index, [1, 1], "http://a")
    record(index, [1, 1], "http://b")
    index.forget("http://a")
    assert levels(index, [1, 1]) == [(2, ["http://b"])]
    record(index, [2, 2], "http://a")
    assert levels(index, [1, 1]) == [(2, ["http://b"])]


def test_ids_no_tokenizer_makes_are_kept_apart_all_the_same():
    index = index_of(2)
    record(index, [-1, 1 << 40], "http://a")
    assert levels(index, [-1, 1 << 40]) == [(2, ["http://a"])]
    assert levels(index, [-2, 1 << 40]) == []
