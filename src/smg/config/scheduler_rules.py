"""The rules of the priority scheduler: its classes, what each may claim, and who may ask for which.

Reading them from a file is left to `scheduler_file`, following them to the admission room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final


class Priority(IntEnum):
    """The classes of requests, the most urgent first: the smaller value goes before the larger."""

    SYSTEM = 0
    INTERACTIVE = 1
    DEFAULT = 2
    BULK = 3

    @property
    def label(self) -> str:
        """The name of the class in headers, files and metrics."""
        return self.name.lower()


PRIORITIES: Final[Mapping[str, Priority]] = {priority.label: priority for priority in Priority}


@dataclass(frozen=True, slots=True)
class ClassRules:
    """What a class may claim.

    It reserves `reserved_floor` slots, or `reserved_per_slot` of each slot there is if that is more: classes below it
    leave these free. `queue_size` requests may wait, each for `queue_timeout_secs`; one that has waited for
    `starvation_threshold_secs` goes before the classes above. `can_preempt` lets a request take the slot of a lower
    class.
    """

    reserved_floor: int
    queue_size: int
    queue_timeout_secs: float
    starvation_threshold_secs: float
    can_preempt: bool
    reserved_per_slot: float = 0.0


DEFAULT_CLASSES: Final[Mapping[Priority, ClassRules]] = {
    Priority.SYSTEM: ClassRules(32, 64, 30, 5, can_preempt=True),
    Priority.INTERACTIVE: ClassRules(128, 256, 30, 5, can_preempt=True, reserved_per_slot=0.25),
    Priority.DEFAULT: ClassRules(0, 512, 60, 30, can_preempt=False, reserved_per_slot=0.1),
    Priority.BULK: ClassRules(0, 1024, 300, 120, can_preempt=False),
}


@dataclass(frozen=True, slots=True)
class SchedulerRules:
    """The rules of every class, and by tenant key the highest class that a tenant gets, where it has one of its own."""

    classes: Mapping[Priority, ClassRules] = field(default_factory=lambda: DEFAULT_CLASSES)
    max_class: Mapping[str, Priority] = field(default_factory=dict)
