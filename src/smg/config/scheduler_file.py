"""The file of `--priority-scheduler-config` to the rules of the scheduler, or to every problem with it.

    classes:
      interactive:
        reserved_floor: 128
        reserved_per_slot: 0.25
        queue_size: 256
        queue_timeout_secs: 30
        starvation_threshold_secs: 5
        can_preempt: true
    tenant_policies:
      auth:batch: { max_class: bulk }

A class that is not named keeps its built-in rules; one that is named states all of them but `reserved_per_slot`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smg.config.load import read_file
from smg.config.origins import suggestion
from smg.config.scheduler_rules import DEFAULT_CLASSES, PRIORITIES, ClassRules, Priority, SchedulerRules
from smg.config.tenant_rules import tenant_key_complaint
from smg.config.yaml_document import Document, Value, open_document

FLAG: Final = "--priority-scheduler-config"

# A year: more is a slip of the pen, and beyond what timers take.
_LONGEST_SECS: Final = 31_536_000

_REQUIRED: Final = ("reserved_floor", "queue_size", "queue_timeout_secs", "starvation_threshold_secs", "can_preempt")


def read_scheduler_file(path: str, read_text: Callable[[str], str] = read_file) -> SchedulerRules:
    """The rules that a file states. Raises ConfigError with every problem of the file, each with its line."""
    document, root = open_document(FLAG, path, read_text)
    parts = document.fields(root, (), ("classes", "tenant_policies")) if root else {}
    classes = dict(DEFAULT_CLASSES)
    if "classes" in parts:
        classes |= _classes(document, parts["classes"])
    ceilings = _ceilings(document, parts["tenant_policies"]) if "tenant_policies" in parts else {}
    document.refuse()
    return SchedulerRules(classes, ceilings)


def _classes(document: Document, value: Value) -> dict[Priority, ClassRules]:
    found: dict[Priority, ClassRules] = {}
    for name, entry in document.entries(value):
        if name not in PRIORITIES:
            document.complain(entry, f"is no class{suggestion(name, list(PRIORITIES))}")
            continue
        fields = document.fields(entry, _REQUIRED, ("reserved_per_slot",))
        if fields.keys() >= set(_REQUIRED):
            found[PRIORITIES[name]] = _class(document, fields)
    return found


def _class(document: Document, fields: dict[str, Value]) -> ClassRules:
    share = fields.get("reserved_per_slot")
    return ClassRules(
        reserved_floor=document.whole(fields["reserved_floor"], 0),
        queue_size=document.whole(fields["queue_size"], 0),
        queue_timeout_secs=document.number(fields["queue_timeout_secs"], above=0, maximum=_LONGEST_SECS),
        starvation_threshold_secs=document.number(fields["starvation_threshold_secs"], above=0, maximum=_LONGEST_SECS),
        can_preempt=document.truth(fields["can_preempt"]),
        reserved_per_slot=document.number(share, maximum=1) if share else 0.0,
    )


def _ceilings(document: Document, value: Value) -> dict[str, Priority]:
    found: dict[str, Priority] = {}
    for tenant, entry in document.entries(value):
        complaint = tenant_key_complaint(tenant)
        if complaint is not None:
            document.complain(entry, complaint)
        fields = document.fields(entry, ("max_class",))
        if "max_class" in fields:
            ceiling = document.choice(fields["max_class"], PRIORITIES)
            found[tenant] = Priority.BULK if ceiling is None else ceiling
    return found
