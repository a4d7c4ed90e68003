from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.structures.placement_map import LONGEST_KEY, PlacementMap


def test_a_key_remembers_its_home_and_one_substitute():
    pins = PlacementMap(max_idle_secs=0)
    pins.settle("key", "http://a", 0)
    pins.settle("key", "http://b", 0)
    assert pins.recall("key") == ["http://a", "http://b"]
    pins.settle("key", "http://c", 0)
    assert pins.recall("key") == ["http://b", "http://c"]


def test_going_back_to_a_remembered_worker_changes_no_preference():
    pins = PlacementMap(max_idle_secs=0)
    for url in ("http://a", "http://b", "http://a", "http://b"):
        pins.settle("key", url, 0)
    assert pins.recall("key") == ["http://a", "http://b"]


def test_a_new_key_remembers_nothing():
    assert PlacementMap(max_idle_secs=0).recall("key") is None


def test_keys_are_counted_where_they_went_last():
    pins = PlacementMap(max_idle_secs=0)
    pins.settle("key", "http://a", 0)
    pins.settle("other", "http://a", 0)
    assert pins.keys_at("http://a") == 2
    pins.settle("key", "http://b", 0)
    assert (pins.keys_at("http://a"), pins.keys_at("http://b")) == (1, 1)
    pins.settle("key", "http://a", 0)
    pins.settle("key", "http://a", 0)
    assert (pins.keys_at("http://a"), pins.keys_at("http://b")) == (2, 0)
    assert pins.keys_at("http://stranger") == 0


def test_a_removed_worker_is_forgotten_by_every_key_and_returns_as_a_stranger():
    pins = PlacementMap(max_idle_secs=0)
    for key in ("one", "two"):
        pins.settle(key, "http://a", 0)
    pins.settle("two", "http://b", 0)
    pins.forget("http://a")
    pins.forget("http://nobody")
    assert pins.recall("one") == []
    assert pins.recall("two") == ["http://b"]
    pins.settle("three", "http://a", 0)
    assert pins.recall("one") == []
    assert pins.keys_at("http://a") == 1
    pins.settle("one", "http://b", 0)
    assert pins.keys_at("http://a") == 1


def test_a_substitute_takes_the_place_of_a_removed_home():
    pins = PlacementMap(max_idle_secs=0)
    pins.settle("key", "http://a", 0)
    pins.settle("key", "http://b", 0)
    pins.forget("http://b")
    pins.settle("key", "http://c", 0)
    assert pins.recall("key") == ["http://a", "http://c"]


def test_idle_keys_leave_when_swept():
    pins = PlacementMap(max_idle_secs=10)
    pins.settle("old", "http://a", 0)
    pins.settle("young", "http://a", 5)
    pins.evict_idle(10.5)
    assert pins.recall("old") is None
    assert pins.recall("young") == ["http://a"]
    assert pins.keys_at("http://a") == 1


def test_a_use_keeps_a_key():
    pins = PlacementMap(max_idle_secs=10)
    pins.settle("key", "http://a", 0)
    pins.settle("other", "http://a", 5)
    pins.settle("key", "http://a", 8)
    pins.evict_idle(15.5)
    assert pins.recall("key") == ["http://a"]
    assert len(pins) == 1


def test_new_keys_clear_out_idle_ones_without_a_sweep():
    pins = PlacementMap(max_idle_secs=10)
    for number in range(10):
        pins.settle(f"old {number}", "http://a", 0)
    for number in range(5):
        pins.settle(f"new {number}", "http://a", 100)
    assert len(pins) == 5


def test_zero_seconds_keep_idle_keys():
    pins = PlacementMap(max_idle_secs=0)
    pins.settle("key", "http://a", 0)
    pins.evict_idle(1e9)
    assert len(pins) == 1


@given(st.lists(st.integers(0, 9), max_size=60))
def test_when_full_the_least_recently_used_key_leaves(history):
    pins, lru = PlacementMap(max_idle_secs=0, max_keys=4), OrderedDict()
    for number in history:
        assert (pins.recall(str(number)) is not None) == (number in lru)
        pins.settle(str(number), "http://a", 0)
        lru[number] = True
        lru.move_to_end(number)
        if len(lru) > 4:
            lru.popitem(last=False)
        assert len(pins) == len(lru) == pins.keys_at("http://a")


def test_long_keys_are_kept_apart_but_not_kept_whole():
    pins = PlacementMap(max_idle_secs=0)
    long = "k" * (LONGEST_KEY + 1)
    pins.settle(long + "1", "http://a", 0)
    pins.settle(long + "2", "http://b", 0)
    assert pins.recall(long + "1") == ["http://a"]
    assert pins.recall(long + "2") == ["http://b"]
    assert all(len(key) <= LONGEST_KEY for key in pins._pins)


URLS = ["http://a", "http://b", "http://c"]
lives = st.lists(
    st.one_of(
        st.tuples(st.just("settle"), st.sampled_from("xyz"), st.sampled_from(URLS), st.floats(0, 6)),
        st.tuples(st.just("lead"), st.sampled_from("xyz"), st.sampled_from(URLS), st.floats(0, 6)),
        st.tuples(st.just("forget"), st.just(""), st.sampled_from(URLS), st.just(0.0)),
        st.tuples(st.just("evict"), st.just(""), st.just(""), st.floats(0, 12)),
    ),
    max_size=50,
)


class Naive:
    """What a map should know, kept as plain lists. A key idle for more than ten seconds may leave with any new key."""

    def __init__(self):
        self.homes = {}
        self.last = {}
        self.used = {}

    def settle(self, key, url, now, lead):
        homes = self.homes.setdefault(key, [])
        if lead:
            homes[:] = [url, *[home for home in homes if home != url]][:2]
        elif url not in homes:
            homes[:] = [*homes, url][-2:]
        self.last[key], self.used[key] = url, now

    def forget(self, url):
        for homes in self.homes.values():
            homes[:] = [home for home in homes if home != url]
        self.last = {key: None if last == url else last for key, last in self.last.items()}

    def drop(self, keys):
        for table in (self.homes, self.last, self.used):
            for key in keys:
                table.pop(key, None)


@given(lives)
def test_the_map_agrees_with_plain_lists(history):
    pins, naive, now = PlacementMap(max_idle_secs=10), Naive(), 0.0
    for action, key, url, secs in history:
        now += secs
        idle = {each for each, used in naive.used.items() if used < now - 10}
        if action == "forget":
            pins.forget(url)
            naive.forget(url)
        elif action == "evict":
            pins.evict_idle(now)
            naive.drop(idle)
        else:
            pins.settle(key, url, now, lead=action == "lead")
            naive.drop({each for each in idle if pins.recall(each) is None})
            naive.settle(key, url, now, action == "lead")
        assert {each: pins.recall(each) for each in "xyz"} == {each: naive.homes.get(each) for each in "xyz"}
        assert [pins.keys_at(each) for each in URLS] == [list(naive.last.values()).count(each) for each in URLS]
        assert len(pins) == len(naive.homes)
