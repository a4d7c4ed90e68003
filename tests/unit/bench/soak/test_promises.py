"""Each promise of the soak, broken by the smallest accounts that break it."""

from dataclasses import replace

import pytest
from bench.soak.accounts import CUT, DELIVERED, HURT, LEFT, RUNS, UNANSWERED, WHOLE, WRONG, Account, Execution, rows
from bench.soak.promises import LEAST_SECS, LEAVING_SECS, MOST_GROWTH_KB, Evidence, judge

CLEAN = Evidence(
    ready_workers=30,
    workers=30,
    loads=0,
    leases=0,
    in_flight=0,
    admitted=0,
    queued=0,
    sockets=4,
    sockets_before=4,
    threads=6,
    threads_before=6,
    growth_kb=0.0,
    seconds=150.0,
    end_secs=2.0,
    exit_code=0,
    complaints=(),
)
RID = "soak-0000001"
GOOD = Account("soak-0000000", single=False, leaves="", sent=True, outcome=WHOLE, status=200, first_byte_at=10.4)
GONE = Account(RID, single=False, leaves="waiting", sent=True, outcome=LEFT, left_at=20.0)
STAYED = replace(GOOD, rid=RID)


def execution(fate: str = DELIVERED, began_at: float = 10.0, ended_at: float = 10.3) -> Execution:
    return Execution(RID, began_at, ended_at, fate)


def broken(accounts=(), executions=(), evidence=CLEAN) -> list[str]:
    """The titles of the broken promises, with plenty of good requests beside the given ones."""
    good = [replace(GOOD, rid=f"soak-1{number:06d}") for number in range(20)]
    done = [Execution(account.rid, 10.0, 10.3, DELIVERED) for account in good]
    return [p.title for p in judge([*good, *accounts], [*done, *executions], evidence) if not p.kept]


def test_a_clean_soak_keeps_every_promise() -> None:
    assert broken([STAYED, GONE], [execution()]) == []


def test_attempts_that_failed_may_be_followed_by_others() -> None:
    tries = [execution(CUT, 10.0, 10.05), execution(HURT, 10.1, 10.15), execution(DELIVERED, 10.2)]
    assert broken([STAYED], tries) == []


@pytest.mark.parametrize(
    ("account", "executions", "title"),
    [
        (replace(STAYED, outcome=UNANSWERED), [], "every client that stays gets an answer"),
        (replace(STAYED, outcome=WRONG), [execution()], "no answer is another request's, or comes twice"),
        (STAYED, [], "a whole answer was executed, and delivered once"),
        (STAYED, [execution(), execution(began_at=10.35)], "what was delivered is not executed again"),
        (
            replace(STAYED, single=True),
            [execution(CUT), execution(began_at=10.35)],
            "what passes through unread is tried once",
        ),
        (STAYED, [execution(CUT), execution(began_at=10.5)], "nothing is tried again once its answer began"),
        (
            GONE,
            [execution(CUT, 20.1 + LEAVING_SECS, 20.1 + LEAVING_SECS)],
            "nothing is tried once its client has left",
        ),
        (
            GONE,
            [execution(began_at=19.0, ended_at=20.1 + LEAVING_SECS)],
            "no engine goes on for a client that has left",
        ),
        (replace(GONE, sent=False), [execution()], "a request that was never sent whole is not executed"),
        (STAYED, [execution(RUNS)], "no engine still works for anybody"),
    ],
)
def test_one_request_breaks_a_promise(account: Account, executions: list[Execution], title: str) -> None:
    assert title in broken([account], executions)


def test_answers_that_hardly_anybody_gets_are_not_enough() -> None:
    refused = [replace(STAYED, rid=f"soak-2{number:06d}", outcome="refused", status=503) for number in range(10)]
    assert broken(refused) == ["most requests are answered"]


@pytest.mark.parametrize(
    ("left_over", "title"),
    [
        ({"ready_workers": 29}, "every worker serves again"),
        ({"loads": 1}, "load of all workers"),
        ({"leases": 1}, "requests in flight to workers, by the metrics"),
        ({"in_flight": 1}, "exchanges in flight"),
        ({"admitted": 1}, "admission permits held"),
        ({"queued": 1}, "requests in the admission queue"),
        ({"sockets": 5}, "sockets, as before the load"),
        ({"threads": 7}, "threads, as before the load"),
        ({"growth_kb": MOST_GROWTH_KB + 1.0}, "memory, first to last quarter of the second half"),
        ({"exit_code": 1}, "ends when told to"),
        ({"end_secs": 60.0}, "ends when told to"),
        ({"complaints": ("Traceback",)}, "complaints in the log"),
    ],
)
def test_what_is_left_over_breaks_a_promise(left_over: dict, title: str) -> None:
    assert broken(evidence=replace(CLEAN, **left_over)) == [title]


def test_memory_is_not_judged_while_it_still_fills() -> None:
    short = replace(CLEAN, growth_kb=MOST_GROWTH_KB * 10, seconds=LEAST_SECS - 1)
    assert broken(evidence=short) == []


def test_a_breaker_is_named() -> None:
    promises = judge([replace(STAYED, outcome=WHOLE)], [], CLEAN)
    assert [promise.found for promise in promises if not promise.kept] == [f"1 ({RID})"]


def test_entries_travel_as_rows() -> None:
    assert [Account(*row) for row in rows([GONE])] == [GONE]
    assert [Execution(*row) for row in rows([execution()])] == [execution()]
