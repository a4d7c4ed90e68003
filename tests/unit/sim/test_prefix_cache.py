from hypothesis import given
from hypothesis import strategies as st

from smg.sim.prefix_cache import PrefixCache


def test_a_prefix_is_cached_as_far_as_its_leading_blocks_are():
    cache = PrefixCache(10)
    cache.insert([1, 2, 3])
    assert cache.match([1, 2, 9, 3]) == 2
    assert (cache.hit_blocks, cache.looked_up_blocks) == (2, 4)


def test_asking_without_looking_up_counts_nothing():
    cache = PrefixCache(10)
    cache.insert([1])
    assert cache.covered([1, 2]) == 1
    assert cache.looked_up_blocks == 0


def test_the_least_recently_used_chain_goes_first():
    cache = PrefixCache(4)
    cache.insert([1, 2])
    cache.insert([3, 4])
    cache.insert([1, 2])
    cache.insert([5])
    assert cache.covered([1, 2]) == 2
    assert cache.covered([3, 4]) == 1
    assert cache.evicted == 1


def test_a_chain_is_eaten_from_its_far_end():
    cache = PrefixCache(3)
    cache.insert([1, 2, 3])
    cache.insert([8])
    assert cache.covered([1, 2, 3]) == 2


def test_of_a_chain_that_does_not_fit_the_beginning_stays():
    cache = PrefixCache(2)
    cache.insert([1, 2, 3, 4])
    assert cache.covered([1, 2, 3, 4]) == 2


def test_clearing_forgets_everything():
    cache = PrefixCache(4)
    cache.insert([1, 2])
    assert cache.clear() == 2
    assert cache.covered([1]) == 0


@given(st.integers(0, 6), st.lists(st.lists(st.integers(0, 9), max_size=8, unique=True), max_size=12))
def test_it_never_holds_more_than_its_capacity(capacity, chains):
    cache = PrefixCache(capacity)
    for chain in chains:
        cache.insert(chain)
        assert len(cache) <= capacity
