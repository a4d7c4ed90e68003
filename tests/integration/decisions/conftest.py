"""A gateway in front of SGLang engines that answer as a test says, and the requests to it."""

import json

import pytest

from support.bodies import MODEL
from support.stage import Stage

DECISIONS = "/v1/decisions"


class Courtroom(Stage):
    """A stage whose engines may be of a stated kind."""

    async def engines_behind(self, *kinds_and_scripts, roles=(), **settings):
        """A gateway and its engines: each a (runtime, *behaviours)."""
        gateway = await self.gateway(ready=False, **settings)
        engines = []
        for position, (runtime, *script) in enumerate(kinds_and_scripts):
            engine = await self.raw_engine(*script)
            spec = {"url": engine.url, "runtime_type": runtime, "models": [{"id": MODEL}]}
            if position < len(roles):
                spec["worker_type"] = roles[position]
            assert (await gateway.post("/workers", spec)).status == 202
            engines.append(engine)
        await gateway.registered(len(engines))
        return gateway, *engines


@pytest.fixture
def stage_type():
    return Courtroom


class Decisions:
    """Requests with predicates only, and what System One says to them."""

    path = DECISIONS

    @staticmethod
    def body(*, count=1, **members):
        question = {"type": "predicate", "instructions": "Is it so?"}
        return {"model": MODEL, "input": "It is so.", "questions": [question] * count, **members}

    @staticmethod
    def scored(probability=0.25, *headers, count=1, **members):
        """A behaviour: score every question alike."""
        answers = {f"q{index}": {"type": "noul", "noul": probability} for index in range(count)}
        usage = {"input_tokens": 12, "output_tokens": 0}
        answer = json.dumps({"model": "engine's", "answers": answers, "usage": usage, **members}).encode()
        return lambda call: call.answer(200, answer, *headers)


@pytest.fixture
def decisions():
    return Decisions
