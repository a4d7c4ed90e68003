"""Tenant rate limits on the serving path: a request is charged before it is sent, and settled by its answer.

    limits.reserve(tenant, model, cost)   charges the estimate, or refuses
    charge.answered(status, body)         a whole answer: a success is settled by the usage that it states
    charge.tap(write), charge.ended()     an event stream: its end is kept while it passes, and settled by

What is not settled stays as estimated: errors, clients that leave, streams that do not state their usage.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from smg.admission.tenants import Denied, Reservation, TenantBudgets
from smg.errors import GatewayError
from smg.protocol.prompt_cost import PromptCost
from smg.protocol.usage import TAIL_BYTES, Usage, usage_of_answer, usage_of_stream

# The name that requests without a model are filed under.
_NO_MODEL = "unknown"
_SUCCESS = range(200, 300)
Clock = Callable[[], float]


class Charge:
    """What one request has been charged."""

    __slots__ = ("_cost", "_now", "_reservation", "_tail")

    def __init__(self, reservation: Reservation, cost: PromptCost, now: Clock) -> None:
        self._reservation = reservation
        self._cost = cost
        self._now = now
        self._tail = bytearray()

    def answered(self, status: int, body: bytes) -> None:
        """A worker has answered in full."""
        if status in _SUCCESS:
            self.settle(usage_of_answer(body, self._cost.prompts))

    def tap(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """`write`, with the end of what passes kept in mind."""
        tail = self._tail

        def write_and_keep(piece: bytes) -> None:
            write(piece)
            tail.extend(piece[-TAIL_BYTES:])
            if len(tail) > 2 * TAIL_BYTES:
                del tail[:-TAIL_BYTES]

        return write_and_keep

    def ended(self) -> None:
        """The stream that was tapped has come to its end."""
        self.settle(usage_of_stream(bytes(self._tail[-TAIL_BYTES:]), self._cost.prompts))

    def settle(self, usage: Usage | None) -> None:
        """Charge what was used instead of what was estimated. Counts the first time only; None changes nothing."""
        if usage is not None:
            prompt_tokens = self._cost.tokens if usage.prompt_tokens is None else usage.prompt_tokens
            self._reservation.settle(prompt_tokens + usage.completion_tokens, self._now())


class TenantLimits:
    """The budgets of all tenants. `now` is any clock in seconds that never goes back."""

    def __init__(self, budgets: TenantBudgets, now: Clock) -> None:
        self._budgets = budgets
        self._now = now

    def reserve(self, tenant: str, model: str | None, cost: PromptCost) -> Charge:
        """Charge a request for a model by its canonical name.

        Raises GatewayError if the tenant's budget does not suffice; it says when it will, or nothing if it never will.
        """
        outcome = self._budgets.reserve(tenant, model or _NO_MODEL, cost.tokens, self._now())
        if isinstance(outcome, Denied):
            raise _refusal(outcome)
        return Charge(outcome, cost, self._now)


def _refusal(denied: Denied) -> GatewayError:
    if denied.wait_secs is None:
        return GatewayError("tenant_rate_limit_exceeded", "the request exceeds what its tenant may use in a minute")
    secs = max(1, ceil(denied.wait_secs))
    message = f"the tenant's rate limit is reached, come back in {secs} s"
    return GatewayError("tenant_rate_limit_exceeded", message, retry_after_secs=secs)
