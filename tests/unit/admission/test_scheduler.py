"""Who gets a slot, who waits and who has to give one up."""

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from smg.admission.scheduler import Scheduler, State, Ticket
from smg.config.scheduler_rules import DEFAULT_CLASSES, ClassRules, Priority

SYSTEM, INTERACTIVE, DEFAULT, BULK = Priority
SHORTHAND = {"s": SYSTEM, "i": INTERACTIVE, "d": DEFAULT, "b": BULK}


@dataclass(slots=True, eq=False)
class Request(Ticket):
    name: str = ""
    answered: bool = False


class House:
    """A scheduler and its requests by name; a name begins with the letter of its class."""

    def __init__(self, capacity, **classes):
        plain = {"reserved_floor": 0, "queue_size": 4, "queue_timeout_secs": 30, "starvation_threshold_secs": 25}
        rules = {
            priority: ClassRules(**{**plain, "can_preempt": False, **classes.get(priority.label, {})})
            for priority in Priority
        }
        self.now = 0.0
        self.requests = {}
        self.scheduler = Scheduler(rules, capacity, lambda request: not request.answered)

    def __getitem__(self, name):
        return self.requests[name]

    def come(self, *names):
        """They arrive one after the other; the state that each is in then."""
        states = []
        for name in names:
            request = self.requests[name] = Request(SHORTHAND[name[0]], name=name)
            accepted = self.scheduler.arrive(request, self.now)
            assert accepted is (request.state is not State.OVER)
            states.append(request.state)
        return states[0] if len(states) == 1 else states

    def go(self, name):
        """One departs; the names of those that run from now on."""
        return named(self.scheduler.depart(self[name], self.now))

    def resize(self, capacity):
        return named(self.scheduler.resize(capacity, self.now))

    def wait(self, secs):
        """Time passes; the names of those that run, and of those that waited too long."""
        self.now += secs
        granted, expired = self.scheduler.advance(self.now)
        return named(granted), named(expired)

    def give_up(self, name):
        self.scheduler.abandon(self[name])

    def victim(self, name):
        victim = self[name].victim
        return victim and victim.name


def named(requests):
    return [request.name for request in requests]


# --- order


def test_slots_are_free_up_to_the_capacity():
    house = House(2)
    assert house.come("d1", "b1", "d2") == [State.RUNNING, State.RUNNING, State.WAITING]
    assert (house.scheduler.in_flight, house.scheduler.waiting) == (2, 1)


def test_a_freed_slot_goes_to_the_highest_class_and_within_it_to_who_came_first():
    house = House(1)
    house.come("d0", "b1", "d1", "s1", "d2", "i1")
    order = ["d0", "s1", "i1", "d1", "d2", "b1"]
    assert [house.go(name) for name in order] == [[name] for name in order[1:]] + [[]]
    assert (house.scheduler.in_flight, house.scheduler.waiting) == (0, 0)


def test_who_gives_up_is_passed_over():
    house = House(1)
    house.come("d0", "d1", "d2")
    house.give_up("d1")
    assert house["d1"].state is State.OVER
    assert house.go("d0") == ["d2"]


def test_a_full_queue_refuses_its_class_and_no_other():
    house = House(1, bulk={"queue_size": 1}, default={"queue_size": 0})
    assert house.come("s0", "b1", "b2", "d1", "i1") == [
        State.RUNNING,
        State.WAITING,
        State.OVER,
        State.OVER,
        State.WAITING,
    ]


# --- reservations


def test_idle_reservations_are_kept_from_lower_classes_only():
    house = House(4, interactive={"reserved_floor": 2})
    assert house.come("b1", "b2", "b3") == [State.RUNNING, State.RUNNING, State.WAITING]
    assert house.come("s1") is State.RUNNING
    assert house.come("i1") is State.RUNNING
    assert house.come("i2") is State.WAITING


def test_a_reservation_in_use_is_not_kept_twice():
    house = House(4, interactive={"reserved_floor": 2})
    house.come("i1", "i2", "i3")
    assert house.come("b1", "b2") == [State.RUNNING, State.WAITING]
    assert house.go("i3") == ["b2"]
    assert house.come("b3") is State.WAITING
    assert house.go("i2") == []


def test_a_reservation_is_the_floor_or_the_share_of_the_capacity_rounded_up():
    def reserved(capacity):
        return [one.reserved for one in Scheduler(DEFAULT_CLASSES, capacity, bool).classes]

    assert reserved(1024) == [32, 256, 103, 0]
    assert reserved(400) == [32, 128, 40, 0]
    assert reserved(70 * 10) == [32, 175, 70, 0]


def test_where_the_capacity_is_too_small_each_class_keeps_the_same_fraction_of_its_reservation():
    house = House(10, system={"reserved_floor": 2}, interactive={"reserved_floor": 4}, bulk={"reserved_floor": 3})
    assert not house.scheduler.clamped
    for capacity, expected in [(9, [2, 4, 0, 3]), (8, [1, 3, 0, 2]), (5, [1, 2, 0, 1]), (1, [0, 0, 0, 0])]:
        house.resize(capacity)
        assert [one.reserved for one in house.scheduler.classes] == expected
        assert house.scheduler.clamped is (capacity < 9)


def test_the_built_in_reservations_leave_room_for_default_requests_beside_one_small_engine():
    for capacity in (1, 2, 16, 64):
        assert Scheduler(DEFAULT_CLASSES, capacity, bool).free(DEFAULT) > 0


# --- capacity


def test_more_slots_admit_those_who_wait():
    house = House(1)
    house.come("d0", "b1", "d1", "b2")
    assert house.resize(3) == ["d1", "b1"]


def test_fewer_slots_take_nothing_from_those_who_have_one():
    house = House(3)
    house.come("d1", "d2", "d3", "d4")
    assert house.resize(1) == []
    assert house.scheduler.in_flight == 3
    assert [house.go(name) for name in ("d1", "d2", "d3")] == [[], [], ["d4"]]


# --- time


def test_a_wait_ends_at_the_timeout_of_its_class():
    house = House(1, bulk={"queue_timeout_secs": 2})
    house.come("d0", "b1", "d1")
    house.wait(1)
    house.come("b2")
    assert house.scheduler.due_at() == 2
    assert house.wait(0.9) == ([], [])
    assert house.wait(0.1) == ([], ["b1"])
    assert house["b1"].state is State.OVER
    assert house.scheduler.due_at() == 3
    assert house.wait(1) == ([], ["b2"])
    assert house.scheduler.due_at() == 30


def test_nothing_is_due_while_nobody_waits():
    assert House(1).scheduler.due_at() is None


def test_a_starving_head_goes_before_higher_classes_once():
    house = House(1, bulk={"starvation_threshold_secs": 1})
    house.come("d0", "b1")
    house.wait(0.5)
    house.come("s1", "s2", "b2")
    assert house.wait(0.5) == ([], [])
    assert house.go("d0") == ["b1"]
    assert house["b1"].promoted
    assert house.go("b1") == ["s1"]
    assert not house["s1"].promoted


def test_the_lowest_starving_class_is_helped_first():
    house = House(1, **{p.label: {"starvation_threshold_secs": 1} for p in Priority})
    house.come("d0", "i1", "d1", "b1", "s1")
    house.wait(1)
    assert [house.go(name) for name in ("d0", "b1", "d1", "i1")] == [["b1"], ["d1"], ["i1"], ["s1"]]
    assert not house["s1"].promoted


def test_a_starving_head_takes_an_idle_reserved_slot_when_its_time_has_come():
    house = House(2, system={"reserved_floor": 1}, bulk={"starvation_threshold_secs": 5})
    house.come("b1", "b2")
    assert house.scheduler.due_at() == 5
    assert house.wait(4.9) == ([], [])
    assert house.wait(0.1) == (["b2"], [])


def test_starving_is_no_reason_to_go_beyond_the_capacity():
    house = House(1, bulk={"starvation_threshold_secs": 5})
    house.come("b1", "b2")
    assert house.scheduler.due_at() == 30
    assert house.wait(6) == ([], [])


# --- preemption

PREEMPTS = {"can_preempt": True}


def test_the_newest_of_the_lowest_class_is_the_victim_and_its_slot_goes_to_the_preemptor():
    house = House(4, interactive=PREEMPTS)
    house.come("d1", "b1", "b2", "d2")
    assert house.come("i1") is State.WAITING
    assert house.victim("i1") == "b2"
    assert house.go("b2") == ["i1"]
    assert (house.scheduler.in_flight, house.scheduler.waiting) == (4, 0)


@pytest.mark.parametrize("newcomer", ["b9", "d9"])
def test_equals_and_higher_classes_are_no_victims(newcomer):
    house = House(2, bulk=PREEMPTS, default=PREEMPTS)
    house.come("d1", "i1")
    house.come(newcomer)
    assert house.victim(newcomer) is None


def test_only_classes_that_may_preempt_do():
    house = House(1, interactive=PREEMPTS)
    house.come("b1", "s1")
    assert house.victim("s1") is None


def test_an_answer_under_way_protects():
    house = House(3, interactive=PREEMPTS)
    house.come("b1", "b2", "d1")
    house["b2"].answered = True
    house.come("i1")
    assert house.victim("i1") == "b1"
    house.come("i2")
    assert house.victim("i2") == "d1"
    house.come("i3")
    assert house.victim("i3") is None


def test_each_preemptor_has_a_victim_of_its_own():
    house = House(2, interactive=PREEMPTS)
    house.come("b1", "b2", "i1", "i2", "i3")
    assert [house.victim(name) for name in ("i1", "i2", "i3")] == ["b2", "b1", None]


def test_preemptors_of_a_class_enter_in_their_order_whoever_departs_first():
    house = House(2, interactive=PREEMPTS)
    house.come("b1", "b2", "i1", "i2")
    assert house.go("b1") == ["i1"]
    assert house.victim("i2") == "b2"
    assert house.go("b2") == ["i2"]


def test_the_slot_of_a_victim_goes_to_an_equal_who_waits_longer():
    house = House(2, interactive=PREEMPTS)
    house.come("b1", "b2")
    house.resize(1)
    house.come("i1")
    house.go("b2")
    house.come("i2")
    assert house.victim("i2") == "b1"
    assert house.go("b1") == ["i1"]
    assert house.victim("i2") is None
    assert house.go("i1") == ["i2"]


def test_nobody_preempts_while_a_higher_class_waits_with_nothing_in_prospect():
    house = House(1, interactive=PREEMPTS)
    house.come("b1", "s1", "i1")
    assert house.victim("i1") is None
    assert house.go("b1") == ["s1"]


def test_a_preemptor_needs_no_place_in_the_queue_and_takes_none():
    house = House(2, interactive={**PREEMPTS, "queue_size": 1})
    house.come("b1", "d1")
    assert house.come("i1", "i2", "i3", "i4") == [State.WAITING] * 3 + [State.OVER]
    assert [house.victim(name) for name in ("i1", "i2", "i3")] == ["b1", "d1", None]


def test_an_abandoned_preemption_leaves_its_slot_to_the_others():
    house = House(1, interactive=PREEMPTS)
    house.come("b1", "i1", "d1")
    house.give_up("i1")
    assert house.go("b1") == ["d1"]


def test_a_preemptor_may_get_another_slot_first():
    house = House(2, interactive=PREEMPTS)
    house.come("s1", "b1", "i1", "d1")
    assert house.go("s1") == ["i1"]
    assert house.victim("i1") is None
    assert house.go("b1") == ["d1"]


def test_nobody_is_preempted_where_one_slot_is_not_enough():
    house = House(3, system={"reserved_floor": 1}, interactive=PREEMPTS, bulk={"starvation_threshold_secs": 1})
    house.come("b1", "b2", "b3")
    assert house.wait(1) == (["b3"], [])
    house.come("i1")
    assert house.victim("i1") is None
    house = House(2, interactive=PREEMPTS)
    house.come("b1", "b2")
    house.resize(1)
    house.come("i1")
    assert house.victim("i1") is None


def test_who_was_admitted_because_it_starved_is_nobody_s_victim():
    house = House(1, interactive=PREEMPTS, bulk={"starvation_threshold_secs": 1})
    house.come("s0", "b1")
    house.wait(1)
    house.go("s0")
    house.come("i1")
    assert house.victim("i1") is None


def test_a_preemptor_whose_slot_is_no_more_waits_on():
    house = House(2, interactive=PREEMPTS)
    house.come("s1", "b1", "i1")
    house.resize(1)
    assert house.go("b1") == []
    assert house["i1"].state is State.WAITING
    house.come("i2")
    assert house.go("s1") == ["i1"]
    assert house.go("i1") == ["i2"]


def test_a_preemptor_whose_slot_is_not_enough_any_more_waits_on():
    house = House(4, system={"reserved_floor": 2}, interactive=PREEMPTS, bulk={"starvation_threshold_secs": 1})
    house.come("b1", "b2", "b3", "i1")
    assert house.victim("i1") == "b2"
    assert house.wait(1) == (["b3"], [])
    assert house.go("b2") == []
    assert house.go("b1") == ["i1"]


def test_a_preemptor_s_wait_has_the_timeout_of_its_class():
    house = House(1, interactive={**PREEMPTS, "queue_timeout_secs": 1})
    house.come("b1", "i1")
    assert house.wait(1) == ([], ["i1"])
    assert house.go("b1") == []
    assert house.scheduler.in_flight == 0


# --- whatever happens

counts = st.integers(0, 4)
any_class = st.builds(
    ClassRules,
    reserved_floor=counts,
    queue_size=st.integers(0, 6),
    queue_timeout_secs=st.integers(1, 20),
    starvation_threshold_secs=st.integers(1, 20),
    can_preempt=st.booleans(),
    reserved_per_slot=st.sampled_from([0.0, 0.1, 0.25, 1.0]),
)


class Conduct(RuleBasedStateMachine):
    """Requests come, answer, leave and give up, slots come and go, time passes."""

    @initialize(rules=st.tuples(*[any_class] * len(Priority)), capacity=st.integers(1, 8))
    def open(self, rules, capacity):
        self.rules = dict(zip(Priority, rules, strict=True))
        self.scheduler = Scheduler(self.rules, capacity, lambda request: not request.answered)
        self.now = 0.0
        self.came = []
        self.admitted = []
        self.told_to_leave = []

    def of(self, state, priority=None):
        """The requests in a state, in the order in which they came."""
        return [r for r in self.came if r.state is state and priority in {None, r.priority}]

    def idle_above(self, priority):
        reserved = [one.reserved for one in self.scheduler.classes]
        return sum(max(0, reserved[p] - len(self.of(State.RUNNING, p))) for p in Priority if p < priority)

    def settle(self, granted):
        """What holds of any that were admitted together."""
        self.admitted += granted
        if not granted:
            return
        assert len(self.of(State.RUNNING)) <= self.scheduler.capacity
        for priority in Priority:
            mine = [r for r in granted if r.priority is priority]
            assert mine == [r for r in self.came if r in mine], "within a class the first comes first"
            waiting = self.of(State.WAITING, priority)
            if mine and waiting:
                assert self.came.index(mine[-1]) < self.came.index(waiting[0])
        if not any(r.promoted for r in granted):
            lowest = max(r.priority for r in granted)
            assert self.scheduler.capacity - len(self.of(State.RUNNING)) >= self.idle_above(lowest)

    def victims_for(self, priority):
        """Who might be preempted, in the order of preference."""
        eligible = [
            r
            for r in reversed(self.admitted)
            if r.state is State.RUNNING and r.priority > priority and not r.answered and not r.promoted
        ]
        free = [r for r in eligible if r not in self.told_to_leave]
        return sorted(free, key=lambda r: -r.priority)

    @rule(priority=st.sampled_from(Priority))
    def come(self, priority):
        victims = self.victims_for(priority)
        blocked = any(not r.victim for p in Priority if p < priority for r in self.of(State.WAITING, p))
        may_preempt = self.rules[priority].can_preempt and self.scheduler.free(priority) == 0 and not blocked
        ordinary = [r for r in self.of(State.WAITING, priority) if not r.victim]
        request = Request(priority)
        self.came.append(request)
        accepted = self.scheduler.arrive(request, self.now)
        if request.state is State.RUNNING:
            self.settle([request])
        elif may_preempt and victims:
            assert request.victim is victims[0]
            self.told_to_leave.append(request.victim)
        else:
            assert request.victim is None
            assert accepted is (len(ordinary) < self.rules[priority].queue_size)

    @precondition(lambda self: self.of(State.RUNNING))
    @rule(data=st.data())
    def answer(self, data):
        data.draw(st.sampled_from(self.of(State.RUNNING))).answered = True

    @precondition(lambda self: self.of(State.RUNNING))
    @rule(data=st.data())
    def depart(self, data):
        leaving = data.draw(st.sampled_from(self.of(State.RUNNING)))
        preemptor = leaving.preemptor
        enough = preemptor is not None and self.scheduler.free(preemptor.priority) == 0
        granted = self.scheduler.depart(leaving, self.now)
        self.settle(granted)
        if enough:
            assert granted[0].priority is preemptor.priority, "a preempted slot is its preemptor's"

    @precondition(lambda self: self.of(State.WAITING))
    @rule(data=st.data())
    def give_up(self, data):
        self.scheduler.abandon(data.draw(st.sampled_from(self.of(State.WAITING))))

    @rule(capacity=st.integers(1, 12))
    def resize(self, capacity):
        self.settle(self.scheduler.resize(capacity, self.now))

    @rule(secs=st.integers(1, 8))
    def wait(self, secs):
        due_at = self.scheduler.due_at()
        self.now += secs
        before = self.of(State.WAITING)
        granted, expired = self.scheduler.advance(self.now)
        self.settle(granted)
        assert (due_at is not None and due_at <= self.now) or (not granted and not expired)
        late = [r for r in before if r.arrived_at + self.rules[r.priority].queue_timeout_secs <= self.now]
        assert sorted(map(id, late)) == sorted(id(r) for r in [*expired, *granted] if r in late)

    @invariant()
    def nobody_is_lost(self):
        waiting = self.of(State.WAITING)
        queued = [r for one in self.scheduler.classes for r in one.waiting]
        assert sorted(map(id, waiting)) == sorted(map(id, queued))
        assert self.scheduler.waiting == len(waiting)
        assert self.scheduler.in_flight == len(self.of(State.RUNNING))
        for priority, one in zip(Priority, self.scheduler.classes, strict=True):
            assert one.running == len(self.of(State.RUNNING, priority))
            assert one.promised == len([r for r in self.of(State.WAITING, priority) if r.victim])

    @invariant()
    def nobody_waits_for_a_slot_that_is_free(self):
        for priority in Priority:
            if self.of(State.WAITING, priority):
                assert self.scheduler.free(priority) <= 0

    @invariant()
    def promises_are_mutual(self):
        for request in self.of(State.WAITING):
            if request.victim:
                assert request.victim.state is State.RUNNING
                assert request.victim.preemptor is request
                assert not request.victim.promoted

    def teardown(self):
        """However it went, in the end every slot is free and nobody waits."""
        while self.of(State.WAITING) or self.of(State.RUNNING):
            for request in self.of(State.RUNNING):
                self.scheduler.depart(request, self.now)
            self.now = self.scheduler.due_at() or self.now
            self.scheduler.advance(self.now)
        assert (self.scheduler.in_flight, self.scheduler.waiting) == (0, 0)


TestConduct = Conduct.TestCase
TestConduct.settings = settings(max_examples=200, stateful_step_count=40)
