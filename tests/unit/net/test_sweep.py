"""One timer looks after all members, while there are any."""

import pytest

from smg.net.sweep import MAX_INTERVAL_SECS, MIN_INTERVAL_SECS, Sweeper, interval_for


class Loop:
    """A loop whose timers fire when told."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def time(self):
        return self.now

    def call_later(self, delay, callback):
        timer = Timer(delay, callback)
        self.timers.append(timer)
        return timer

    def fire(self):
        (timer,) = [t for t in self.timers if not t.cancelled]
        self.timers.clear()
        self.now += timer.delay
        timer.callback()


class Timer:
    def __init__(self, delay, callback):
        self.delay = delay
        self.callback = callback
        self.cancelled = False

    def cancel(self):
        self.cancelled = True


class Member:
    def __init__(self, action=None):
        self.swept = []
        self.action = action

    def sweep(self, now):
        self.swept.append(now)
        if self.action:
            self.action()


@pytest.mark.parametrize(
    ("timeouts", "interval"),
    [
        ((2.0, 1.0), 0.25),
        ((0.0, 2.0), 0.5),
        ((0.0, 0.0), MAX_INTERVAL_SECS),
        ((), MAX_INTERVAL_SECS),
        ((1800.0,), MAX_INTERVAL_SECS),
        ((0.001,), MIN_INTERVAL_SECS),
    ],
)
def test_the_shortest_timeout_sets_the_interval(timeouts, interval):
    assert interval_for(*timeouts) == interval


def test_every_member_is_swept_each_interval_by_one_timer():
    loop = Loop()
    sweeper = Sweeper(loop, 0.5)
    members = [Member(), Member()]
    for member in members:
        sweeper.add(member)
    assert len(loop.timers) == 1
    loop.fire()
    loop.fire()
    assert [member.swept for member in members] == [[0.5, 1.0]] * 2
    assert len(sweeper) == 2
    assert set(sweeper.members()) == set(members)


def test_without_members_there_is_no_timer():
    loop = Loop()
    sweeper = Sweeper(loop, 0.5)
    assert loop.timers == []
    member = Member()
    sweeper.add(member)
    sweeper.discard(member)
    sweeper.discard(member)
    loop.fire()
    assert member.swept == []
    assert loop.timers == []
    sweeper.add(member)
    loop.fire()
    assert member.swept == [1.0]


def test_members_may_come_and_go_during_the_sweep():
    loop = Loop()
    sweeper = Sweeper(loop, 0.5)
    late = Member()
    leaving = Member(lambda: (sweeper.discard(leaving), sweeper.add(late)))
    sweeper.add(leaving)
    loop.fire()
    assert late.swept == []
    loop.fire()
    assert len(late.swept) == 1
    assert len(leaving.swept) == 1
    assert len(loop.timers) == 1


def test_a_member_that_fails_does_not_stop_the_clock():
    def fail():
        raise ZeroDivisionError

    loop = Loop()
    sweeper = Sweeper(loop, 0.5)
    failing = Member(fail)
    sweeper.add(failing)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            loop.fire()
    assert len(failing.swept) == 2


def test_a_stopped_sweeper_sweeps_no_more():
    loop = Loop()
    sweeper = Sweeper(loop, 0.5)
    sweeper.stop()
    sweeper.add(Member())
    sweeper.stop()
    assert all(timer.cancelled for timer in loop.timers)
