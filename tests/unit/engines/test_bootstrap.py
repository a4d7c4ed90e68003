import json

from hypothesis import given
from hypothesis import strategies as st

from smg.engines.bootstrap import ROOM_BITS, ranks, rendezvous


def decoded(members):
    return {name: json.loads(text) for name, text in members.items()}


def test_a_single_request_has_one_meeting_point():
    members = decoded(rendezvous("10.0.0.1", 9001, None, lambda bits: bits))
    assert members == {"bootstrap_host": "10.0.0.1", "bootstrap_port": 9001, "bootstrap_room": ROOM_BITS}


def test_a_port_that_is_not_known_is_null():
    assert decoded(rendezvous("h", None, None, lambda _: 0))["bootstrap_port"] is None
    rooms = iter(range(2))
    assert decoded(rendezvous("h", None, 2, lambda _: next(rooms)))["bootstrap_port"] == [None, None]


@given(st.integers(0, 50), st.randoms(use_true_random=False))
def test_every_item_of_a_batch_has_a_room_of_its_own(size, rng):
    members = decoded(rendezvous("h", 1, size, rng.getrandbits))
    assert members["bootstrap_host"] == ["h"] * size
    assert members["bootstrap_port"] == [1] * size
    assert len(set(members["bootstrap_room"])) == len(members["bootstrap_room"]) == size
    assert all(0 <= room < 2**63 for room in members["bootstrap_room"])


def test_a_room_that_is_drawn_twice_is_drawn_again():
    draws = iter([5, 5, 5, 6])
    members = decoded(rendezvous("h", 1, 2, lambda _: next(draws)))
    assert sorted(members["bootstrap_room"]) == [5, 6]


def test_a_batch_of_one_is_a_batch():
    assert decoded(rendezvous("h", 1, 1, lambda _: 7))["bootstrap_room"] == [7]


def test_ranks_are_named_where_there_are_some():
    assert ranks(None) == {}
    assert ranks(0) == {"routed_dp_rank": b"0"}
    assert ranks(1, 2) == {"routed_dp_rank": b"1", "disagg_prefill_dp_rank": b"2"}
    assert ranks(None, 3) == {"disagg_prefill_dp_rank": b"3"}
