"""What must hold when the soak is over, judged from the accounts of clients, engines and the machine.

The accounts of both sides carry times of one clock. Two differences between them mean nothing: a client's leaving
takes a moment to arrive, and an engine that crashes may have finished an answer that nobody got.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.soak.accounts import (
    DELIVERED,
    LEFT,
    REFUSED,
    RUNS,
    SPOILED,
    UNANSWERED,
    WHOLE,
    WRONG,
    Account,
    Execution,
)

# A client that leaves while it is not read from is noticed within half a second, on a busy machine later.
LEAVING_SECS = 2.0
LEAST_WHOLE = 0.75
MOST_GROWTH_KB = 4096
# Before that, what fills once has not filled.
LEAST_SECS = 120.0
LONGEST_END_SECS = 6.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """The gateway after the storm, and before it: sockets and threads of its process, what its own figures say."""

    ready_workers: int
    workers: int
    loads: int
    leases: int
    in_flight: int
    admitted: int
    queued: int
    sockets: int
    sockets_before: int
    threads: int
    threads_before: int
    growth_kb: float
    seconds: float
    end_secs: float
    exit_code: int
    complaints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Promise:
    title: str
    found: str
    kept: bool


def judge(accounts: Sequence[Account], executions: Sequence[Execution], evidence: Evidence) -> list[Promise]:
    """All promises, in the order in which they are shown."""
    return [*_of_answers(accounts, executions), *_of_leftovers(executions, evidence)]


def _of_answers(accounts: Sequence[Account], executions: Iterable[Execution]) -> list[Promise]:
    outcomes = Counter(account.outcome for account in accounts)
    stayed = len(accounts) - outcomes[LEFT]
    share = outcomes[WHOLE] / max(1, stayed)
    by_rid: dict[str, list[Execution]] = defaultdict(list)
    for execution in sorted(executions, key=lambda execution: execution.began_at):
        by_rid[execution.rid].append(execution)

    def none(title: str, breaks: Callable[[Account, Sequence[Execution]], bool]) -> Promise:
        """A promise that no request breaks."""
        breakers = [account.rid for account in accounts if breaks(account, by_rid.get(account.rid, ()))]
        return Promise(title, _named(breakers), not breakers)

    return [
        Promise("most requests are answered", f"{share:.1%} of {stayed:,}", share >= LEAST_WHOLE),
        Promise("every client that stays gets an answer", *_zero(outcomes[UNANSWERED])),
        Promise("no answer is another request's, or comes twice", *_zero(outcomes[WRONG])),
        none("a whole answer was executed, and delivered once", _is_unfounded),
        none("what was delivered is not executed again", _is_repeated),
        none("what passes through unread is tried once", lambda account, tries: account.single and len(tries) > 1),
        none("nothing is tried again once its answer began", _is_late),
        none("nothing is tried once its client has left", _is_orphaned),
        none("no engine goes on for a client that has left", _is_wasted),
        none("a request that was never sent whole is not executed", _is_half),
    ]


def _is_unfounded(account: Account, tries: Sequence[Execution]) -> bool:
    return account.outcome == WHOLE and not tries


def _is_repeated(_account: Account, tries: Sequence[Execution]) -> bool:
    return any(execution.fate == DELIVERED for execution in tries[:-1])


def _is_late(account: Account, tries: Sequence[Execution]) -> bool:
    return bool(account.first_byte_at) and any(execution.began_at > account.first_byte_at for execution in tries)


def _is_orphaned(account: Account, tries: Sequence[Execution]) -> bool:
    return bool(account.left_at) and any(execution.began_at > account.left_at + LEAVING_SECS for execution in tries)


def _is_wasted(account: Account, tries: Sequence[Execution]) -> bool:
    return bool(account.left_at) and any(execution.ended_at > account.left_at + LEAVING_SECS for execution in tries)


def _is_half(account: Account, tries: Sequence[Execution]) -> bool:
    return account.outcome == LEFT and not account.sent and bool(tries)


def _of_leftovers(executions: Iterable[Execution], evidence: Evidence) -> list[Promise]:
    running = sum(execution.fate == RUNS for execution in executions)
    workers = f"{evidence.ready_workers} of {evidence.workers}"
    return [
        Promise("every worker serves again", workers, evidence.ready_workers == evidence.workers),
        Promise("no engine still works for anybody", *_zero(running)),
        Promise("load of all workers", *_zero(evidence.loads)),
        Promise("requests in flight to workers, by the metrics", *_zero(evidence.leases)),
        Promise("exchanges in flight", *_zero(evidence.in_flight)),
        Promise("admission permits held", *_zero(evidence.admitted)),
        Promise("requests in the admission queue", *_zero(evidence.queued)),
        _no_more("sockets, as before the load", evidence.sockets, evidence.sockets_before),
        _no_more("threads, as before the load", evidence.threads, evidence.threads_before),
        _flat(evidence.growth_kb, evidence.seconds),
        Promise(
            "ends when told to",
            f"{evidence.end_secs:.1f} s, status {evidence.exit_code}",
            evidence.end_secs <= LONGEST_END_SECS and evidence.exit_code == 0,
        ),
        Promise("complaints in the log", *_zero(len(evidence.complaints))),
    ]


def _zero(count: int) -> tuple[str, bool]:
    return f"{count:,}", count == 0


def _named(rids: Sequence[str]) -> str:
    shown = ", ".join(rids[:3])
    return f"{len(rids):,} ({shown}{', ...' if len(rids) > len(rids[:3]) else ''})" if rids else "0"


def _no_more(title: str, after: int, before: int) -> Promise:
    return Promise(title, f"{after} ({before} before)", after <= before)


def _flat(growth_kb: float, seconds: float) -> Promise:
    """What grows by a quarter of a kilobyte a request breaks it; what the allocator moves about does not."""
    judged = seconds >= LEAST_SECS
    found = f"{growth_kb / 1024:+.1f} MiB{'' if judged else f' (judged from {LEAST_SECS:.0f} s on)'}"
    return Promise("memory, first to last quarter of the second half", found, growth_kb <= MOST_GROWTH_KB or not judged)


def summary(accounts: Sequence[Account], executions: Sequence[Execution]) -> list[str]:
    """What happened, in sentences."""
    outcomes = Counter(account.outcome for account in accounts)
    statuses = Counter(account.status for account in accounts if account.outcome == REFUSED)
    leaves = Counter(account.leaves for account in accounts if account.outcome == LEFT)
    fates = Counter(execution.fate for execution in executions)
    ends = Counter({name: outcomes[name] for name in (WHOLE, LEFT, REFUSED, SPOILED)})
    return [
        f"{len(accounts):,} requests: {_counted(ends)}",
        f"refused with: {_counted(statuses)}",
        f"given up: {_counted(leaves)}",
        f"{len(executions):,} executions: {_counted(fates)}",
    ]


def _counted(counts: "Counter[int] | Counter[str]") -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
