from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from smg.fleet.structures.hash_ring import POINTS_PER_URL, HashRing, WorkerRing, position

KEYS = [position(f"key {number}".encode()) for number in range(300)]
numbers = st.lists(st.integers(0, 50), min_size=2, max_size=8, unique=True)


def url(number):
    return f"http://worker-{number}:8000"


def ring_of(urls):
    ring = HashRing()
    ring.add(urls)
    return ring


def owners(ring, allowed):
    return [ring.owner(key, allowed) for key in KEYS]


@given(numbers)
def test_removing_a_worker_moves_only_its_keys(fleet):
    urls = [url(number) for number in fleet]
    ring = ring_of(urls)
    before = owners(ring, urls)
    ring.discard(urls[0])
    after = owners(ring, urls)
    assert urls[0] not in after
    assert all(new == old for new, old in zip(after, before, strict=True) if old != urls[0])
    ring.add([urls[0]])
    assert owners(ring, urls) == before


@given(numbers)
def test_an_unavailable_worker_is_passed_over_as_if_it_were_not_on_the_ring(fleet):
    urls = [url(number) for number in fleet]
    assert owners(ring_of(urls), set(urls[1:])) == owners(ring_of(urls[1:]), set(urls[1:]))


@given(numbers, st.randoms())
def test_the_order_of_arrival_does_not_matter(fleet, chance):
    urls = [url(number) for number in fleet]
    shuffled = urls[:]
    chance.shuffle(shuffled)
    one_by_one = HashRing()
    for each in shuffled:
        one_by_one.add([each])
    assert owners(one_by_one, urls) == owners(ring_of(urls), urls)


def test_the_keys_of_a_lost_worker_spread_over_all_others():
    urls = [url(number) for number in range(4)]
    ring = ring_of(urls)
    lost = [key for key in KEYS if ring.owner(key, urls) == urls[0]]
    ring.discard(urls[0])
    assert {ring.owner(key, urls) for key in lost} == set(urls[1:])


def test_every_worker_owns_a_fair_share():
    urls = [url(number) for number in range(5)]
    ring = ring_of(urls)
    shares = Counter(ring.owner(position(str(number).encode()), urls) for number in range(5000))
    assert all(600 < shares[each] < 1400 for each in urls)


def test_adding_twice_and_discarding_strangers_change_nothing():
    ring = ring_of([url(1), url(2)])
    before = owners(ring, [url(1), url(2)])
    ring.add([url(1)])
    ring.discard(url(3))
    assert len(ring) == 2
    assert len(ring._points) == 2 * POINTS_PER_URL
    assert owners(ring, [url(1), url(2)]) == before


def test_a_discarded_worker_leaves_no_points():
    ring = ring_of([url(1), url(2)])
    ring.discard(url(1))
    ring.discard(url(2))
    assert (len(ring), ring._points, ring._owner) == (0, [], {})
    assert url(1) not in ring


def test_nobody_owns_a_key_when_nobody_is_allowed():
    assert ring_of([url(1)]).owner(KEYS[0], set()) is None
    assert HashRing().owner(KEYS[0], {url(1)}) is None


def test_a_point_claimed_twice_goes_to_the_same_worker_in_any_order(monkeypatch):
    monkeypatch.setattr("smg.fleet.structures.hash_ring._points_of", lambda _: (5, 9))
    for pair in (["http://a", "http://b"], ["http://b", "http://a"]):
        ring = ring_of(pair)
        assert ring._points == [5, 9]
        assert ring.owner(0, {"http://a", "http://b"}) == "http://a"


def test_the_ring_of_workers_answers_with_candidates_only(fleet):
    workers = fleet(6)
    ring = WorkerRing()
    keys = [str(number).encode() for number in range(100)]
    home = {key: ring.owner(key, workers) for key in keys}
    assert set(home.values()) == set(workers)
    for key in keys:
        without = tuple(worker for worker in workers if worker is not home[key])
        assert ring.owner(key, without) in without
        assert ring.owner(key, list(workers)) is home[key]


def test_the_ring_of_workers_forgets_at_once(fleet):
    workers = fleet(3)
    ring = WorkerRing()
    ring.owner(b"key", workers)
    for worker in workers:
        ring.forget(worker.url)
    assert len(ring._ring) == 0
    assert not ring._known
