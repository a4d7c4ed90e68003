"""Carries out the plans of `engines/`: which paths to ask of an engine next, until the plan knows enough."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from smg.engines.plan import Answer, Plan
from smg.net.fetch import Fetched

T = TypeVar("T")


async def run_plan(plan: Plan[T], ask: Callable[[str], Awaitable[Answer]]) -> T:
    """What a plan learns. The paths that it wants at once are asked at once."""
    try:
        paths = next(plan)
        while True:
            answers = await asyncio.gather(*map(ask, paths))
            paths = plan.send(dict(zip(paths, answers, strict=True)))
    except StopIteration as end:
        value: T = end.value
        return value


def answer_of(fetched: Fetched) -> Answer:
    """An engine's answer as plans read it."""
    try:
        return Answer(fetched.status, msgspec.json.decode(fetched.body), fetched.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Answer(fetched.status, None, fetched.body)
