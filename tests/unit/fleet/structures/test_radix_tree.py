from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.structures.node_table import NO_NODE
from smg.fleet.structures.radix_tree import MAX_DEPTH, RadixTree

URLS = ["http://a", "http://b", "http://c"]
SPACES = ["", "tenant"]
AMPLE = 1 << 30

prompts = st.text(alphabet="ab", max_size=9)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sampled_from(SPACES), prompts, st.sampled_from(URLS)),
        st.tuples(st.just("forget"), st.just(""), st.just(""), st.sampled_from(URLS)),
    ),
    max_size=40,
)


class Naive:
    """What a tree should know, kept as the plain list of prompts."""

    def __init__(self, stride=1):
        self.stride = stride
        self.prompts = []

    def apply(self, action, space, prompt, url):
        if action == "record":
            self.prompts.append((space, prompt, url))
        else:
            self.prompts = [known for known in self.prompts if known[2] != url]

    def reach(self, space, prompt):
        """URL -> how much of the prompt it was sent."""
        reach = {}
        for known_space, known, url in self.prompts:
            if known_space == space:
                reach[url] = max(reach.get(url, 0), self.shared(known, prompt))
        return reach

    def shared(self, one, other):
        length = 0
        while length < min(len(one), len(other)) and one[length] == other[length]:
            length += 1
        return length - length % self.stride


def record(tree, prompt, url, space=""):
    tree.record(tree.match(prompt, space), url)


def known(tree, prompt, space=""):
    return tree.match(prompt, space).matched


def nearest(tree, prompt, space=""):
    """Holders of the deepest matched node."""
    return next((set(holders) for _, holders in tree.levels(tree.match(prompt, space))), set())


def check_books(tree):
    """The counts are what a walk over the nodes finds, and who holds a node holds its parent."""
    table = tree._table
    nodes = {*tree._roots.values(), *table.children.values()}
    assert len(table) == len(nodes)
    assert tree.size == sum(len(table.edges[node]) * len(table.holders[node]) for node in nodes)
    assert tree.entries == sum(len(table.holders[node]) for node in nodes)
    assert tree.entries == sum(len(held) for held in tree._nodes.values())
    assert all(tree._nodes.values())
    for (parent, key), node in table.children.items():
        assert table.parents[node] == parent
        assert table.edges[node].startswith(key)
        assert table.ends[node] == table.ends[parent] + len(table.edges[node])
        assert table.holders[node]
        assert parent in tree._roots.values() or table.holders[node].keys() <= table.holders[parent].keys()


def check_against(naive, tree, prompt, space):
    reach = naive.reach(space, prompt)
    found = tree.match(prompt, space)
    assert found.matched == max(reach.values(), default=0)
    for matched, holders in tree.levels(found):
        assert set(holders) == {url for url, length in reach.items() if length >= matched}


@given(steps, prompts)
def test_the_tree_agrees_with_a_plain_list_of_prompts(history, query):
    tree, naive = RadixTree(AMPLE), Naive()
    for step in history:
        action, space, prompt, url = step
        naive.apply(*step)
        if action == "record":
            record(tree, prompt, url, space)
        else:
            tree.forget(url)
        check_books(tree)
        for seen in {query, prompt}:
            check_against(naive, tree, seen, space)


@given(steps, prompts)
def test_pages_agree_with_a_plain_list_of_prompts(history, query):
    def pages(text):
        return text[: len(text) - len(text) % 3].encode()

    tree, naive = RadixTree(AMPLE, stride=3), Naive(stride=3)
    for action, space, prompt, url in history:
        naive.apply(action, space, pages(prompt), url)
        if action == "record":
            record(tree, pages(prompt), url, space)
        else:
            tree.forget(url)
        check_books(tree)
        check_against(naive, tree, pages(query), space)


@given(steps, st.integers(1, 30), st.integers(1, 12))
def test_the_bounds_hold_after_every_step_and_nothing_is_invented(history, max_size, max_entries):
    tree, naive = RadixTree(max_size, max_entries=max_entries), Naive()
    for step in history:
        action, space, prompt, url = step
        naive.apply(*step)
        if action == "record":
            record(tree, prompt, url, space)
        else:
            tree.forget(url)
        check_books(tree)
        assert tree.size <= max_size
        assert tree.entries <= max_entries
        reach = naive.reach(space, prompt)
        for matched, holders in tree.levels(tree.match(prompt, space)):
            assert set(holders) <= {url for url, length in reach.items() if length >= matched}


@given(steps, st.integers(9, 20))
def test_a_prompt_just_recorded_is_never_the_one_evicted(history, max_size):
    tree = RadixTree(max_size)
    for action, space, prompt, url in history:
        if action == "record":
            record(tree, prompt, url, space)
            assert known(tree, prompt, space) == len(prompt)
            assert not prompt or url in nearest(tree, prompt, space)


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(URLS)), max_size=60))
def test_what_is_evicted_was_recorded_least_recently(history):
    tree, lru = RadixTree(max_size=40), OrderedDict()
    for number, url in history:
        prompt = str(number) * 10
        record(tree, prompt, url)
        lru.pop((prompt, url), None)
        lru[prompt, url] = True
        while len(lru) > 4:
            lru.popitem(last=False)
        for other in range(7):
            holders = {url for prompt, url in lru if prompt == str(other) * 10}
            assert nearest(tree, str(other) * 10) == holders


def test_a_shared_beginning_outlives_its_tails():
    tree = RadixTree(max_size=60)
    for tail in range(50):
        record(tree, f"system prompt {tail:020d}", "http://a")
    assert known(tree, "system prompt ") == 14
    assert known(tree, f"system prompt {0:020d}") < 34


def test_namespaces_share_nothing():
    tree = RadixTree(AMPLE)
    record(tree, "hello", "http://a", "one")
    assert known(tree, "hello", "one") == 5
    assert known(tree, "hello", "two") == 0
    assert known(tree, "hello") == 0


def test_levels_below_a_length_may_be_left_out():
    tree = RadixTree(AMPLE)
    record(tree, "hello", "http://a")
    record(tree, "hello world", "http://b")
    found = tree.match("hello wonder")
    assert [matched for matched, _ in tree.levels(found)] == [8, 5]
    assert [matched for matched, _ in tree.levels(found, 5)] == [8]
    assert [matched for matched, _ in tree.levels(found, 8)] == []


def test_a_part_of_a_page_never_matches():
    tree = RadixTree(AMPLE, stride=4)
    record(tree, b"aaaabbbb", "http://a")
    assert known(tree, b"aaaabbbc") == 4
    assert known(tree, b"aaacbbbb") == 0


def test_texts_of_all_scripts_are_compared_by_character():
    tree = RadixTree(AMPLE)
    record(tree, "naïve prompt 漢字", "http://a")
    assert known(tree, "naïve prompt 漢") == 14
    assert known(tree, "naive prompt") == 2
    record(tree, "lone \ud800 surrogate", "http://a")
    assert known(tree, "lone \ud800") == 6


def test_a_dialogue_stays_one_node():
    tree, dialogue = RadixTree(AMPLE), "you are"
    for turn in range(50):
        dialogue += f" turn {turn}"
        record(tree, dialogue, "http://a")
    assert tree.entries == 1
    assert tree.size == len(dialogue)


def test_of_a_prompt_longer_than_the_tree_only_the_head_is_kept():
    tree = RadixTree(max_size=10)
    record(tree, "x" * 25, "http://a")
    assert known(tree, "x" * 25) == 10
    pages = RadixTree(max_size=10, stride=4)
    record(pages, b"x" * 24, "http://a")
    assert known(pages, b"x" * 24) == 8


def test_a_tree_smaller_than_a_page_keeps_nothing():
    tree = RadixTree(max_size=10, stride=64)
    record(tree, b"x" * 64, "http://a", "space")
    assert (tree.size, tree.entries, len(tree._table)) == (0, 0, 0)


def test_a_beginning_its_holder_already_has_adds_nothing():
    tree = RadixTree(AMPLE)
    record(tree, "hello world", "http://a")
    record(tree, "hello", "http://a")
    assert (tree.entries, tree.size) == (1, 11)
    record(tree, "hello", "http://b")
    assert (tree.entries, tree.size) == (3, 16)


@pytest.mark.parametrize("lengths", [range(2 * MAX_DEPTH), range(2 * MAX_DEPTH, 0, -1)])
def test_prompts_that_part_again_and_again_cannot_make_a_path_without_end(lengths):
    tree = RadixTree(AMPLE)
    for length in lengths:
        record(tree, "a" * length + "b", "http://a")
        record(tree, "a" * length + "c", "http://b")
    found = tree.match("a" * 4 * MAX_DEPTH)
    assert len(found.path) <= MAX_DEPTH
    check_books(tree)


def test_forgetting_everyone_leaves_nothing():
    tree = RadixTree(AMPLE)
    for number in range(200):
        record(tree, f"{number % 7} prompt {number}", URLS[number % 3], str(number % 5))
    for url in URLS:
        tree.forget(url)
    assert (tree.size, tree.entries, tree.holders, len(tree._table)) == (0, 0, 0, 0)
    assert not tree._roots
    assert not tree._namespaces
    assert not tree._table.children


def test_a_returning_holder_starts_with_nothing():
    tree = RadixTree(AMPLE)
    record(tree, "hello world", "http://a")
    record(tree, "hello there", "http://b")
    tree.forget("http://a")
    record(tree, "bye", "http://a")
    assert nearest(tree, "hello world") == {"http://b"}


def test_forgetting_a_stranger_is_no_error():
    RadixTree(AMPLE).forget("http://nobody")


def test_workers_that_come_and_go_do_not_pile_up_in_the_heap():
    tree = RadixTree(AMPLE)
    record(tree, "stays", "http://stays")
    for round_ in range(20):
        for number in range(300):
            record(tree, f"{number} {round_}", "http://goes")
        tree.forget("http://goes")
    assert len(tree._heap) < 2000
    assert nearest(tree, "stays") == {"http://stays"}


def test_eviction_goes_on_after_holders_were_forgotten():
    tree = RadixTree(max_size=1000)
    for round_ in range(10):
        for number in range(200):
            record(tree, f"{number:05d} {round_:04d}", URLS[number % 3])
            assert tree.size <= 1000
        tree.forget(URLS[round_ % 3])
        check_books(tree)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 255, 256, 4000])
def test_the_point_where_two_prompts_part_is_found_exactly(length):
    tree = RadixTree(AMPLE)
    record(tree, "x" * length + "y" * 50, "http://a")
    assert known(tree, "x" * length + "z" * 70) == length


def test_an_unknown_prompt_matches_nothing():
    found = RadixTree(AMPLE).match("anything")
    assert (found.matched, found.path, found.partial) == (0, [], NO_NODE)
