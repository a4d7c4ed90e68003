import pytest

from smg.fleet.hints import Hints
from smg.fleet.structures.tree_index import LONGEST_PARTITION, TreeIndex


def index_of(max_size=1 << 30, block_size=4, threshold=0.5):
    return TreeIndex(max_size, block_size, threshold)


def record(index, url, text="", **hints):
    index.find(Hints(text=text, **hints)).record(url)


def levels(index, text="", **hints):
    return [(known, sorted(urls)) for known, urls in index.find(Hints(text=text, **hints)).levels()]


def test_text_is_known_by_characters():
    index = index_of()
    record(index, "http://a", "hello world")
    assert index.find(Hints(text="hello there")).share == 6 / 11
    assert levels(index, "hello there") == [(6, ["http://a"])]


def test_tokens_win_over_text_and_are_known_by_whole_pages():
    index = index_of()
    record(index, "http://a", "hello", tokens=[1, 2, 3, 4, 5, 6, 7])
    assert index.find(Hints(tokens=[1, 2, 3, 4, 5, 6])).share == 4 / 6
    assert levels(index, tokens=[1, 2, 3]) == []
    assert levels(index, "hello") == []
    assert index.sizes() == {"chars": 0, "tokens": 4, "text_tenants": 0, "token_tenants": 1}


@pytest.mark.parametrize(("tail", "follows"), [(9, True), (10, False)])
def test_only_more_than_the_threshold_is_worth_following(tail, follows):
    index = index_of(threshold=0.5)
    record(index, "http://a", "a" * 10)
    assert bool(levels(index, "a" * 10 + "b" * tail)) == follows


def test_the_deepest_level_comes_first():
    index = index_of(threshold=0.1)
    record(index, "http://a", "hello")
    record(index, "http://b", "hello world")
    assert levels(index, "hello world!") == [(11, ["http://b"]), (5, ["http://a", "http://b"])]


def test_an_empty_prompt_is_known_to_nobody_and_leaves_nothing():
    index = index_of()
    record(index, "http://a", "")
    assert index.find(Hints()).share == 0.0
    assert levels(index) == []
    assert set(index.sizes().values()) == {0}


def test_partitions_share_nothing_and_their_names_are_bounded():
    index = index_of()
    long = "x" * 1000
    record(index, "http://a", "hello", partition=long + "1")
    record(index, "http://b", "hello", partition="\ud800")
    assert levels(index, "hello", partition=long + "2") == []
    assert levels(index, "hello") == []
    assert levels(index, "hello", partition=long + "1") == [(5, ["http://a"])]
    assert max(map(len, index._text._roots)) <= LONGEST_PARTITION


def test_a_removed_worker_leaves_both_trees():
    index = index_of()
    record(index, "http://a", "hello")
    record(index, "http://a", tokens=[1, 2, 3, 4])
    index.forget("http://a")
    assert set(index.sizes().values()) == {0}


def test_a_sweep_finds_nothing_to_do():
    index = index_of()
    record(index, "http://a", "hello")
    index.sweep(1e9)
    assert levels(index, "hello") == [(5, ["http://a"])]


def test_each_tree_keeps_its_bound():
    index = index_of(max_size=100)
    for number in range(50):
        record(index, "http://a", f"{number:020d}")
        record(index, "http://a", tokens=list(range(number * 100, number * 100 + 20)))
        sizes = index.sizes()
        assert sizes["chars"] <= 100
        assert sizes["tokens"] <= 100
    assert sizes["chars"] > 60
    assert sizes["tokens"] > 60
