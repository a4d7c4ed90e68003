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


def reason_to_buffer(
    options: BodyPathOptions, snapshot: Snapshot, policy: Needs, length: int | None, *, has_token_hint: bool
) -> tuple[bool, str]:
    """Whether to read the body, and the reason as metrics name it."""
    if options.pairs:
        return True, "pd"
    if options.sticky_override:
        return True, "routing_key_override"
    if policy.reads_text and not has_token_hint:
        return True, "policy_needs_text"
    if len(snapshot.models) > 1:
        return True, "model_ambiguous"
    if snapshot.ranked:
        return True, "worker_mutates_body"
    if length is None:
        return True, "no_content_length"
    if not options.retries:
        return False, "pure_forward"
    if length <= options.max_buffered_bytes:
        return True, "retryable"
    return False, "retry_forfeited"
