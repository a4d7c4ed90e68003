from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smg.fleet.sticky import CAP, StickyOptions, StickySessions
from smg.fleet.worker import Worker

MODES = ("random", "min_load", "min_group", "delegate")
every_mode = pytest.mark.parametrize("mode", MODES)


class ClosedBreaker:
    def admits(self, now):
        return True


def fleet(count):
    urls = [f"http://worker-{number}:8000" for number in range(count)]
    return tuple(Worker(str(number), url, url, ClosedBreaker()) for number, url in enumerate(urls))


def first(workers):
    return workers[0]


def last(workers):
    return workers[-1]


def nobody(workers):
    return None


def unasked(workers):
    raise AssertionError("the policy was asked")


def sessions_of(mode="delegate", *, max_idle_secs=100.0, clock=None, seed=1):
    return StickySessions(StickyOptions(mode, max_idle_secs), Random(seed), clock or (lambda: 0.0))


def send(sessions, session, workers, choose=first):
    """Place a request and leave it in flight."""
    worker = sessions.place(session, workers, choose)
    sessions.enter(session, worker)
    return worker


def without(workers, *out):
    return tuple(worker for worker in workers if worker not in out)


# --- where a session goes, and that it stays ---


@every_mode
def test_a_session_stays_where_its_first_request_went(mode):
    sessions, workers = sessions_of(mode), fleet(5)
    homes = {name: sessions.place(name, workers, first) for name in map(str, range(20))}
    assert {name: sessions.place(name, workers, unasked) for name in homes} == homes


def test_a_new_session_goes_where_the_policy_says_and_the_policy_is_not_asked_again():
    sessions, workers = sessions_of(), fleet(3)
    assert sessions.place("s", workers, last) is workers[-1]
    assert sessions.place("s", workers, unasked) is workers[-1]


def test_a_policy_that_selects_nobody_pins_nothing():
    sessions, workers = sessions_of(), fleet(3)
    assert sessions.place("s", workers, nobody) is None
    assert len(sessions) == 0


def test_new_sessions_may_go_anywhere():
    sessions, workers = sessions_of("random"), fleet(4)
    assert {sessions.place(str(number), workers, unasked) for number in range(60)} == set(workers)


def test_new_sessions_may_go_to_the_fewest_requests():
    sessions, workers = sessions_of("min_load"), fleet(3)
    workers[0].load, workers[1].load, workers[2].load = 4, 1, 2
    assert {sessions.place(str(number), workers, unasked) for number in range(9)} == {workers[1]}


def test_new_sessions_may_go_to_the_fewest_sessions():
    sessions, workers = sessions_of("min_group"), fleet(3)
    workers[0].load = 90
    homes = Counter(sessions.place(str(number), workers, unasked).id for number in range(30))
    assert homes == {"0": 10, "1": 10, "2": 10}


# --- while workers are out ---


@every_mode
def test_a_session_whose_worker_is_out_is_placed_anew_and_stays_there(mode):
    sessions, workers = sessions_of(mode), fleet(4)
    old = sessions.place("s", workers, first)
    new = sessions.place("s", without(workers, old), first)
    assert new is not old
    assert sessions.place("s", workers, unasked) is new


@every_mode
def test_the_old_worker_is_the_substitute_of_the_new_one(mode):
    sessions, workers = sessions_of(mode), fleet(6)
    old = sessions.place("s", workers, first)
    new = sessions.place("s", without(workers, old), first)
    assert sessions.place("s", without(workers, new), unasked) is old
    assert sessions.place("s", workers, unasked) is new


def test_no_more_than_two_workers_are_remembered():
    sessions, workers = sessions_of(), fleet(3)
    a, b, c = workers
    for worker in workers:
        sessions.place("s", (worker,), first)
    assert sessions.place("s", (a, b), unasked) is b
    assert sessions.place("s", (a, c), unasked) is c
    assert sessions.place("s", (a,), first) is a


def test_a_removed_worker_is_forgotten_and_returns_as_a_stranger():
    sessions, workers = sessions_of(), fleet(3)
    a, b, c = workers
    sessions.place("s", (a,), first)
    sessions.forget(a.url)
    assert sessions.place("s", (b, c), last) is c
    assert sessions.place("s", workers, unasked) is c
    assert sessions.place("s", (a, b), last) is b
    sessions.forget(b.url)
    assert sessions._index._workers == ()


# --- the cap ---


@every_mode
def test_a_third_request_at_once_goes_elsewhere_and_the_session_moves_along(mode):
    sessions, workers = sessions_of(mode), fleet(4)
    home = send(sessions, "s", workers)
    assert send(sessions, "s", workers, unasked) is home
    elsewhere = send(sessions, "s", workers)
    assert elsewhere is not home
    sessions.leave("s", home)
    assert sessions.place("s", workers, unasked) is elsewhere


def test_a_fan_out_fills_every_worker_to_the_cap_before_any_gets_more():
    sessions, workers = sessions_of(), fleet(4)
    sent = Counter(send(sessions, "s", workers).id for _ in range(4 * CAP))
    assert sent == dict.fromkeys("0123", CAP)
    over = send(sessions, "s", workers, unasked)
    assert over in workers


def test_the_policy_chooses_among_those_that_have_room_for_the_session():
    sessions, workers = sessions_of(), fleet(4)
    for _ in range(CAP):
        send(sessions, "s", workers)
    offered = []
    sessions.place("s", workers, lambda free: offered.append(free) or free[0])
    assert list(offered[0]) == list(workers[1:])


def test_a_lone_worker_takes_all_of_a_session():
    sessions, workers = sessions_of(), fleet(1)
    assert [send(sessions, "s", workers) for _ in range(5)] == [workers[0]] * 5


def test_the_home_serves_on_when_the_policy_wants_none_of_the_others():
    sessions, workers = sessions_of(), fleet(3)
    home = send(sessions, "s", workers)
    send(sessions, "s", workers)
    assert sessions.place("s", workers, nobody) is home
    assert sessions.place("s", (home,), unasked) is home


def test_a_session_with_too_much_in_flight_everywhere_and_no_home_is_placed_all_the_same():
    sessions, workers = sessions_of(), fleet(2)
    for _ in range(2 * CAP):
        send(sessions, "s", workers)
    for worker in workers:
        sessions.forget(worker.url)
    assert sessions.place("s", workers, last) is workers[1]


def test_sessions_do_not_count_against_each_other():
    sessions, workers = sessions_of(), fleet(2)
    for number in range(10):
        assert send(sessions, str(number), workers) is workers[0]


# --- bounds ---


def test_idle_sessions_are_swept():
    clock = [0.0]
    sessions, workers = sessions_of(clock=lambda: clock[0]), fleet(2)
    sessions.place("old", workers, first)
    clock[0] = 60.0
    sessions.place("young", workers, first)
    sessions.sweep(101.0)
    assert len(sessions) == 1
    assert sessions.place("old", workers, last) is workers[1]


def test_zero_seconds_keep_idle_sessions():
    sessions, workers = sessions_of(max_idle_secs=0), fleet(2)
    sessions.place("s", workers, first)
    sessions.sweep(1e9)
    assert len(sessions) == 1


def test_distinct_sessions_in_flight_are_counted_by_worker():
    sessions, (a, b) = sessions_of(), fleet(2)
    for name, worker in [("one", a), ("one", a), ("two", a), ("two", b)]:
        sessions.enter(name, worker)
    assert sessions.active_sessions() == {a.url: 2, b.url: 1}
    sessions.leave("one", a)
    assert sessions.active_sessions() == {a.url: 2, b.url: 1}
    sessions.leave("one", a)
    assert sessions.active_sessions() == {a.url: 1, b.url: 1}


def test_requests_of_a_removed_worker_leave_without_a_trace():
    sessions, workers = sessions_of(), fleet(2)
    home = send(sessions, "s", workers)
    sessions.forget(home.url)
    sessions.leave("s", home)
    assert sessions.active_sessions() == {}
    assert sessions._in_flight == {}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=60), st.sampled_from(MODES), st.integers(0, 9)
)
def test_the_same_seed_places_the_same_way(requests, mode, seed):
    def places():
        sessions, workers = sessions_of(mode, seed=seed), fleet(4)
        return [
            sessions.place(str(name), without(workers, workers[out]), lambda free: free[0]).id for name, out in requests
        ]

    assert places() == places()


class Life(RuleBasedStateMachine):
    """Requests of a few sessions come and go while workers are out, are removed and return."""

    def __init__(self):
        super().__init__()
        self.clock = 0.0
        self.sessions = StickySessions(StickyOptions("delegate", 50.0), Random(1), lambda: self.clock)
        self.workers = fleet(4)
        self.out = set()
        self.under_way = []

    def candidates(self):
        return without(self.workers, *[self.workers[number] for number in self.out])

    def holding(self, session, worker):
        return self.under_way.count((session, worker))

    @rule(session=st.sampled_from("abc"), pick=st.integers(0, 3))
    @precondition(lambda self: self.candidates())
    def request(self, session, pick):
        candidates = self.candidates()
        offered = []

        def choose(free):
            offered.append(free)
            return free[pick % len(free)]

        known = self.sessions._pins.recall(session) or []
        before = {worker: self.holding(session, worker) for worker in candidates}
        chosen = self.sessions.place(session, candidates, choose)
        homes = [worker for url in known for worker in candidates if worker.url == url]
        assert chosen in candidates
        if before[chosen] >= CAP:
            assert all(count >= CAP for count in before.values())
        if homes and before[homes[0]] < CAP:
            assert chosen is homes[0]
            assert not offered
        elif chosen not in homes[:1]:
            assert self.sessions._pins.recall(session)[0] == chosen.url
            if known:
                assert self.sessions._pins.recall(session)[1:] == [url for url in known if url != chosen.url][:1]
        self.sessions.enter(session, chosen)
        self.under_way.append((session, chosen))

    @rule(number=st.integers(0, 100))
    @precondition(lambda self: self.under_way)
    def answer(self, number):
        self.sessions.leave(*self.under_way.pop(number % len(self.under_way)))

    @rule(number=st.integers(0, 3))
    def go_out_or_return(self, number):
        self.out ^= {number}

    @rule(number=st.integers(0, 3))
    def remove(self, number):
        self.sessions.forget(self.workers[number].url)
        assert all(self.workers[number].url not in (self.sessions._pins.recall(each) or []) for each in "abc")

    @rule(secs=st.floats(0, 80))
    def wait(self, secs):
        self.clock += secs
        self.sessions.sweep(self.clock)

    @invariant()
    def in_flight_is_what_is_under_way(self):
        counts = Counter((session, worker.url) for session, worker in self.under_way)
        held = self.sessions._in_flight
        assert {(session, url): n for session, urls in held.items() for url, n in urls.items()} == counts
        assert all(held.values())
        assert sum(self.sessions.active_sessions().values()) == len(counts)
        assert len(self.sessions) <= 3


TestLife = Life.TestCase
TestLife.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
