"""Whether a request's body is read and parsed, or passes to the worker as it comes. Decided from the head alone.

Passing through saves memory and time on large bodies, and gives up what needs the body: validation, alias rewriting,
text-based placement, and every attempt but the first. The first reason that applies decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from smg.fleet.placement import Needs
from smg.fleet.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class BodyPathOptions:
    """Who needs the body: `sticky_override` its `rid`, `retries` all of it again, up to `max_buffered_bytes`, and
    `pairs` change it.
    """

    sticky_override: bool
    retries: bool
    max_buffered_bytes: int
    pairs: bool = False


def standing_reason(options: BodyPathOptions, snapshot: Snapshot, policy: Needs, *, has_token_hint: bool) -> str | None:
    """The reason to read every body, as metrics name it; None if that depends on the body."""
    if options.pairs:
        return "pd"
    if options.sticky_override:
        return "routing_key_override"
    if policy.reads_text and not has_token_hint:
        return "policy_needs_text"
    if len(snapshot.models) > 1:
        return "model_ambiguous"
    if snapshot.ranked:
        return "worker_mutates_body"
    return None


def reason_by_length(options: BodyPathOptions, length: int | None) -> tuple[bool, str]:
    """Whether to read a body of this length that need not be read otherwise, and why."""
    if length is None:
        return True, "no_content_length"
    if not options.retries:
        return False, "pure_forward"
    if length <= options.max_buffered_bytes:
        return True, "retryable"
    return False, "retry_forfeited"
