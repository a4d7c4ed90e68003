"""The concurrency limit: never above capacity, strictly first come first served, and no permit is ever lost."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smg.admission.slots import Slots


def test_permits_are_handed_out_up_to_the_capacity():
    slots = Slots(2, 1)
    assert slots.take()
    assert slots.take()
    assert not slots.take()
    assert slots.in_flight == 2
    assert slots.release() is None
    assert slots.in_flight == 1
    assert slots.take()


def test_the_queue_is_a_hard_bound():
    slots = Slots(1, 2)
    slots.take()
    assert slots.queue("a")
    assert slots.queue("b")
    assert not slots.queue("c")
    assert slots.waiting == 2
    slots.leave("a")
    assert slots.queue("c")


def test_without_a_queue_nobody_waits():
    slots = Slots(1, 0)
    slots.take()
    assert not slots.queue("a")


def test_a_freed_permit_goes_to_the_oldest_and_stays_taken():
    slots = Slots(1, 3)
    slots.take()
    for ticket in "abc":
        slots.queue(ticket)
    slots.leave("b")
    assert slots.release() == "a"
    assert slots.in_flight == 1
    assert not slots.take()
    assert slots.release() == "c"
    assert slots.release() is None
    assert slots.in_flight == 0


def test_leaving_a_queue_one_is_not_in_means_nothing():
    slots = Slots(1, 1)
    slots.leave("stranger")
    assert slots.waiting == 0


class Conduct(RuleBasedStateMachine):
    """Callers come, wait, give up and leave in any order, as a gate would drive them."""

    capacity = 3
    queue_size = 4

    def __init__(self):
        super().__init__()
        self.slots = Slots(self.capacity, self.queue_size)
        self.inside = 0
        self.line = []
        self.count = 0

    @rule()
    def come(self):
        free = self.inside < self.capacity and not self.line
        assert self.slots.take() is free
        if free:
            self.inside += 1
            return
        self.count += 1
        queued = self.slots.queue(self.count)
        assert queued is (len(self.line) < self.queue_size)
        if queued:
            self.line.append(self.count)

    @precondition(lambda self: self.inside)
    @rule()
    def depart(self):
        woken = self.slots.release()
        if self.line:
            assert woken == self.line.pop(0)
        else:
            assert woken is None
            self.inside -= 1

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def give_up(self, data):
        ticket = data.draw(st.sampled_from(self.line))
        self.line.remove(ticket)
        self.slots.leave(ticket)

    @invariant()
    def counts_agree(self):
        assert self.slots.in_flight == self.inside <= self.capacity
        assert self.slots.waiting == len(self.line) <= self.queue_size
        assert not self.line or self.inside == self.capacity  # nobody waits beside a free permit


TestConduct = Conduct.TestCase


@given(st.integers(1, 5), st.integers(0, 5), st.integers(0, 30))
def test_after_everybody_departed_everything_is_free_again(capacity, queue_size, callers):
    slots = Slots(capacity, queue_size)
    inside = 0
    for number in range(callers):
        if slots.take():
            inside += 1
        else:
            slots.queue(number)
    while inside:
        if slots.release() is None:
            inside -= 1
    assert slots.in_flight == slots.waiting == 0
    assert slots.take()
