from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.structures.length_ranges import MAX_SAMPLES, SPAN, LengthRanges

URLS = [f"http://{name}" for name in "abcde"]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(0, 9000), st.floats(0, 3)),
        st.tuples(st.just("admit"), st.integers(0, 4), st.just(0.0)),
        st.tuples(st.just("forget"), st.integers(0, 4), st.just(0.0)),
        st.tuples(st.just("advance"), st.just(0), st.floats(0, 12)),
    ),
    max_size=60,
)


def ranges_of(*urls, interval_secs=5.0):
    ranges = LengthRanges(interval_secs)
    ranges.admit(urls or URLS[:4])
    return ranges


def send(ranges, lengths, now=0.0):
    """Give every length to the owner of its range, and say who got how much."""
    work = Counter()
    for length in lengths:
        url = ranges.owner(length)
        ranges.record(length, url, now)
        work[url] += length
    return work


def test_without_traffic_the_span_is_split_evenly_and_the_last_range_has_no_end():
    quarter = SPAN // 4
    assert ranges_of().ranges() == [
        (URLS[0], -1, quarter),
        (URLS[1], quarter, 2 * quarter),
        (URLS[2], 2 * quarter, 3 * quarter),
        (URLS[3], 3 * quarter, None),
    ]


def test_an_end_belongs_to_the_range_it_ends():
    ranges = ranges_of()
    assert ranges.owner(0) == URLS[0]
    assert ranges.owner(SPAN // 4) == URLS[0]
    assert ranges.owner(SPAN // 4 + 1) == URLS[1]
    assert ranges.owner(10**9) == URLS[3]


def test_a_lone_worker_owns_every_length():
    ranges = ranges_of(URLS[0])
    assert {ranges.owner(length) for length in (0, 5000, 10**9)} == {URLS[0]}


def test_the_first_look_comes_one_interval_after_the_first_request():
    ranges = ranges_of()
    before = ranges.ranges()
    send(ranges, [10, 20, 30, 40], now=100.0)
    ranges.advance(104.9)
    assert ranges.ranges() == before
    send(ranges, [10, 20, 30, 40], now=104.9)
    ranges.advance(105.0)
    assert ranges.ranges() != before


def test_ranges_are_cut_so_that_each_brings_the_same_work():
    ranges = ranges_of()
    lengths = [10] * 300 + [100] * 30 + [1000] * 3 + [3000]
    send(ranges, lengths, now=0.1)
    ranges.advance(5.1)  # too late: the window has just emptied
    send(ranges, lengths, now=6.0)
    ranges.advance(10.9)
    assert ranges.owner(10) != ranges.owner(100) != ranges.owner(1000) != ranges.owner(3000)
    work = send(ranges, lengths, now=10.9)
    assert dict(work) == dict.fromkeys(URLS[:4], 3000)


def looked_twice(second):
    """The ranges after traffic of 100 characters each, and after a second interval of other traffic."""
    ranges = ranges_of(URLS[0], URLS[1])
    send(ranges, [100] * 20, now=1.0)
    ranges.advance(1.0)
    send(ranges, [100] * 20, now=5.5)
    ranges.advance(6.0)
    first = ranges.ranges()
    send(ranges, second, now=10.8)
    ranges.advance(11.0)
    return first, ranges.ranges()


@pytest.mark.parametrize(
    ("second", "moves"), [([50] * 40, False), ([50] * 80, False), ([50] * 82, True), ([50] * 18, True)]
)
def test_ranges_move_only_when_the_work_has_changed_by_more_than_twice(second, moves):
    first, then = looked_twice(second)
    assert (then != first) == moves


def test_nothing_moves_between_two_looks():
    ranges = ranges_of(URLS[0], URLS[1])
    send(ranges, [100] * 20, now=1.0)
    send(ranges, [100] * 20, now=5.5)
    ranges.advance(6.0)
    before = ranges.ranges()
    send(ranges, [7] * 2000, now=7.0)
    ranges.advance(10.9)
    assert ranges.ranges() == before
    ranges.advance(11.0)
    assert ranges.ranges() != before


def test_traffic_that_begins_again_is_looked_at_one_interval_later():
    ranges = ranges_of(URLS[0], URLS[1])
    send(ranges, [100] * 20, now=0.0)
    ranges.advance(60.0)
    before = ranges.ranges()
    send(ranges, [7] * 20, now=100.0)
    ranges.advance(103.0)
    assert ranges.ranges() == before
    send(ranges, [7] * 20, now=104.0)
    ranges.advance(105.0)
    assert ranges.ranges() == [(URLS[0], -1, 7), (URLS[1], 7, None)]


def test_a_newcomer_gets_a_share_of_what_is_known_of_the_traffic():
    ranges = ranges_of(URLS[0])
    send(ranges, range(1, 101), now=0.0)
    ranges.admit([URLS[0], URLS[1]])
    (_, _, end), _ = ranges.ranges()
    assert 60 <= end <= 80  # half of the sum of 1 to 100 lies below 71


def test_the_work_of_a_worker_is_that_of_the_window():
    ranges = ranges_of(URLS[0], URLS[1])
    ranges.record(10, URLS[0], 0.0)
    ranges.record(20, URLS[0], 3.0)
    ranges.record(5, URLS[1], 3.0)
    assert ranges.work([URLS[1], URLS[0], "http://stranger"]) == [5, 30, 0]
    ranges.advance(5.0)
    assert ranges.work(URLS[:2]) == [20, 5]
    ranges.advance(60.0)
    assert ranges.work(URLS[:2]) == [0, 0]
    assert ranges.samples == 0


def test_the_mean_length_is_that_of_the_window():
    ranges = ranges_of(URLS[0], URLS[1])
    assert ranges.mean_length == 1
    ranges.record(10, URLS[0], 0.0)
    ranges.record(21, URLS[1], 3.0)
    assert ranges.mean_length == 15
    ranges.advance(5.0)
    assert ranges.mean_length == 21


def test_a_removed_worker_leaves_its_range_and_its_work_to_nobody_it_knows():
    ranges = ranges_of()
    send(ranges, range(0, 4000, 100))
    ranges.forget(URLS[1])
    assert URLS[1] not in {url for url, _, _ in ranges.ranges()}
    assert ranges.work([URLS[1]]) == [0]
    assert all(url != URLS[1] for _, _, url in ranges._window)
    assert {ranges.owner(length) for length in range(0, 5000, 50)} <= {URLS[0], URLS[2], URLS[3]}
    for url in URLS[:4]:
        ranges.forget(url)
    assert (len(ranges), ranges.samples, ranges.ranges()) == (0, 0, [])


def test_only_the_latest_requests_count_when_there_are_too_many():
    ranges = ranges_of(URLS[0])
    for _ in range(MAX_SAMPLES + 500):
        ranges.record(1, URLS[0], 0.0)
    assert ranges.samples == MAX_SAMPLES
    assert ranges.work([URLS[0]]) == [MAX_SAMPLES]


@given(steps)
def test_ranges_always_cover_every_length_once_and_the_books_are_right(history):
    ranges, now, members, sent = LengthRanges(5.0), 0.0, [], []
    for action, number, secs in history:
        now += secs
        if action == "admit" and URLS[number] not in members:
            members.append(URLS[number])
            ranges.admit(list(members))
        elif action == "forget" and URLS[number] in members:
            members.remove(URLS[number])
            ranges.forget(URLS[number])
            sent = [sample for sample in sent if sample[2] != URLS[number]]
        elif action == "record" and members:
            ranges.advance(now)
            url = ranges.owner(number)
            ranges.record(number, url, now)
            sent.append((now, number, url))
        elif action == "advance":
            ranges.advance(now)
        cut = ranges.ranges()
        assert [url for url, _, _ in cut] == members
        if members:
            assert cut[0][1] == -1
            assert cut[-1][2] is None
            assert all(above <= end for _, above, end in cut[:-1])
            for (_, _, end), (_, above, _) in pairwise(cut):
                assert end == above
            for length in (0, 1, 1000, number, 10**6):
                assert ranges.owner(length) in members
        window = [sample for sample in sent if sample[0] > now - 5.0]
        ranges.advance(now)
        assert ranges.samples == len(window)
        assert ranges.work(URLS) == [sum(length for _, length, of in window if of == url) for url in URLS]


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=200), st.integers(2, 5))
def test_no_range_brings_more_than_its_share_and_one_length(lengths, count):
    ranges = LengthRanges(5.0)
    ranges.admit(URLS[:1])
    for length in lengths:
        ranges.record(length, URLS[0], 0.0)
    ranges.admit(URLS[:count])
    work, most = Counter(), {}
    for length in lengths:
        work[ranges.owner(length)] += length
    for url, total in work.items():
        single = Counter(length for length in lengths if ranges.owner(length) == url)
        most[url] = max(length * times for length, times in single.items())
        assert total <= sum(lengths) / count + most[url]
