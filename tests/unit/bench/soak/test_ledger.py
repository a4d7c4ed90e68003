"""What an engine enters of the requests it executes."""

import random

import pytest
from bench.soak.accounts import CUT, DELIVERED, HURT, RUNS, Execution
from bench.soak.ledger import LedgerFaults, LedgerMachine
from bench.soak.requests import ENGINE

from smg.sim.faults import Fault
from smg.sim.output import Sampling
from smg.sim.prompt import text_prompt

PATH = "/v1/chat/completions"


@pytest.fixture
def ledger() -> list[Execution]:
    return []


@pytest.fixture
def machine(ledger: list[Execution]) -> LedgerMachine:
    return LedgerMachine(ENGINE, ledger)


def begin(machine: LedgerMachine, rid: str = "soak-1", **rest):
    sequence = machine.sequence(rid, text_prompt("hello"), Sampling(4), lambda _: None, **rest)
    machine.scheduler.submit(sequence, 0.0)
    return sequence


def test_an_execution_is_entered_when_it_begins_and_delivered_with_its_last_token(machine, ledger) -> None:
    begin(machine)
    assert [(entry.rid, entry.fate) for entry in ledger] == [("soak-1", RUNS)]
    machine.scheduler.tick(60.0)
    assert ledger[0].fate == DELIVERED
    assert ledger[0].ended_at >= ledger[0].began_at > 0


def test_an_execution_that_is_aborted_is_cut(machine, ledger) -> None:
    machine.scheduler.abort(begin(machine), 0.0)
    assert ledger[0].fate == CUT


def test_the_choices_of_a_request_are_one_execution(machine, ledger) -> None:
    for choice in range(3):
        begin(machine, f"soak-1_{choice}", choice=choice)
    assert [entry.rid for entry in ledger] == ["soak-1"]


def test_an_execution_whose_answer_a_fault_shapes_is_hurt_and_the_next_one_is_not(machine, ledger) -> None:
    faults = LedgerFaults([Fault(PATH, "truncate", count=1)], random.Random(0).random)
    for _ in range(2):
        assert faults
        faults.take(PATH)
        begin(machine)
    machine.scheduler.tick(60.0)
    assert [entry.fate for entry in ledger] == [HURT, DELIVERED]


def test_a_delay_hurts_no_answer(machine, ledger) -> None:
    faults = LedgerFaults([Fault(PATH, "latency")], random.Random(0).random)
    faults.take(PATH)
    begin(machine)
    machine.scheduler.tick(60.0)
    assert ledger[0].fate == DELIVERED


def test_a_crash_takes_along_what_has_just_been_finished_and_nothing_older(machine, ledger) -> None:
    begin(machine)
    begin(machine)
    machine.scheduler.tick(60.0)
    ledger[0].ended_at -= 10
    machine.crashes()
    assert [entry.fate for entry in ledger] == [DELIVERED, CUT]
