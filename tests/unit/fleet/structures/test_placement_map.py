from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.structures.placement_map import LONGEST_KEY, PlacementMap


def urls(pins, key, now=0.0):
    pin = pins.find(key, now)
    return None if pin is None else pin.urls()


def test_a_key_remembers_its_home_and_one_substitute():
    pins = PlacementMap(max_idle_secs=0)
    pins.pin("key", "http://a", 0)
    pins.append(pins.find("key", 0), "http://b")
    assert urls(pins, "key") == ["http://a", "http://b"]
    pins.append(pins.find("key", 0), "http://c")
    assert urls(pins, "key") == ["http://b", "http://c"]


def test_a_home_given_again_is_not_remembered_twice():
    pins = PlacementMap(max_idle_secs=0)
    pins.pin("key", "http://a", 0)
    pins.append(pins.find("key", 0), "http://a")
    assert urls(pins, "key") == ["http://a"]


def test_keys_are_counted_where_they_went_last():
    pins = PlacementMap(max_idle_secs=0)
    pins.pin("key", "http://a", 0)
    pin = pins.find("key", 0)
    pins.append(pin, "http://b")
    assert (pins.keys_at("http://a"), pins.keys_at("http://b")) == (0, 1)
    pins.follow(pin, "http://a")
    pins.follow(pin, "http://a")
    assert (pins.keys_at("http://a"), pins.keys_at("http://b")) == (1, 0)
    assert pins.keys_at("http://stranger") == 0


def test_a_removed_worker_is_forgotten_by_every_key_and_returns_as_a_stranger():
    pins = PlacementMap(max_idle_secs=0)
    for key in ("one", "two"):
        pins.pin(key, "http://a", 0)
    pins.append(pins.find("two", 0), "http://b")
    pins.forget("http://a")
    pins.forget("http://nobody")
    assert urls(pins, "one") == []
    assert urls(pins, "two") == ["http://b"]
    pins.pin("three", "http://a", 0)
    assert urls(pins, "one") == []
    assert pins.keys_at("http://a") == 1


def test_a_substitute_takes_the_place_of_a_removed_home():
    pins = PlacementMap(max_idle_secs=0)
    pins.pin("key", "http://a", 0)
    pin = pins.find("key", 0)
    pins.forget("http://a")
    pins.append(pin, "http://b")
    pins.append(pin, "http://c")
    assert pin.urls() == ["http://b", "http://c"]


def test_idle_keys_leave_when_swept():
    pins = PlacementMap(max_idle_secs=10)
    pins.pin("old", "http://a", 0)
    pins.pin("young", "http://a", 5)
    pins.evict_idle(10.5)
    assert urls(pins, "old", 10.5) is None
    assert urls(pins, "young", 10.5) == ["http://a"]
    assert pins.keys_at("http://a") == 1


def test_a_use_keeps_a_key():
    pins = PlacementMap(max_idle_secs=10)
    pins.pin("key", "http://a", 0)
    pins.find("key", 8)
    pins.evict_idle(15)
    assert len(pins) == 1


def test_new_keys_clear_out_idle_ones_without_a_sweep():
    pins = PlacementMap(max_idle_secs=10)
    for number in range(10):
        pins.pin(f"old {number}", "http://a", 0)
    for number in range(5):
        pins.pin(f"new {number}", "http://a", 100)
    assert len(pins) == 5


def test_zero_seconds_keep_idle_keys():
    pins = PlacementMap(max_idle_secs=0)
    pins.pin("key", "http://a", 0)
    pins.evict_idle(1e9)
    assert len(pins) == 1


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60))
def test_when_full_the_least_recently_used_key_leaves(history):
    pins, lru = PlacementMap(max_idle_secs=0, max_keys=4), OrderedDict()
    for number, looks_only in history:
        key = str(number)
        assert (pins.find(key, 0) is not None) == (key in lru)
        if key in lru:
            lru.move_to_end(key)
        elif not looks_only:
            pins.pin(key, "http://a", 0)
            lru[key] = True
            if len(lru) > 4:
                lru.popitem(last=False)
        assert len(pins) == len(lru) == pins.keys_at("http://a")


def test_long_keys_are_kept_apart_but_not_kept_whole():
    pins = PlacementMap(max_idle_secs=0)
    long = "k" * (LONGEST_KEY + 1)
    pins.pin(long + "1", "http://a", 0)
    pins.pin(long + "2", "http://b", 0)
    assert urls(pins, long + "1") == ["http://a"]
    assert urls(pins, long + "2") == ["http://b"]
    assert all(len(key) <= LONGEST_KEY for key in pins._pins)
