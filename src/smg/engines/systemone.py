"""SGLang's way to decide: System One, which scores the possible answers of questions instead of generating text.

    asked = translate(body)            POST /v1/decisions -> POST /v1/systemone; raises Unsupported
    read_answers(asked, body)          its answer -> the answer of /v1/decisions; raises InvalidAnswer

Questions, choices and levels have keys by position there (`q0`, `o0`, `0`): names may repeat, and true is another
choice than "true". Both directions are strict. What System One cannot honour is refused before it is asked, and of its
answers nothing is passed on that contradicts itself, because a decision that is wrong looks like one that is right.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import fsum
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

PATH: Final = "/v1/systemone"

MAX_CHOICES: Final = 255
MAX_LEVELS: Final = 10
# How far sums of probabilities may be from what they should be: engines add up in single precision.
_TOLERANCE: Final = 1e-6

Json = dict[str, Any]


class Unsupported(ValueError):  # noqa: N818  what the API calls it
    """The request needs something that SGLang cannot do; the message says what."""


class InvalidAnswer(ValueError):  # noqa: N818  what the API calls it
    """An answer of System One cannot be relied on; the message says why."""


class Asked(NamedTuple):
    """`body` is what to send, `questions` are those of the request: the answer is read against them."""

    body: bytes
    questions: list[Json]


# --- the request

_REQUEST = frozenset({"model", "input", "questions", "safety_identifier"})
_MESSAGE = frozenset({"role", "type", "content"})
_TEXT_PART = frozenset({"type", "text"})
_OPTION = frozenset({"value", "description"})
_LEVEL = frozenset({"label", "description"})


class _Kind(NamedTuple):
    """A kind of question: its member with the possible answers, what one of these may have and is called, and how many
    there may be.
    """

    member: str = ""
    answer: frozenset[str] = frozenset()
    noun: str = ""
    most: int = 0

    @property
    def members(self) -> frozenset[str]:
        return frozenset({"type", "name", "instructions"} | ({self.member} if self.member else set()))


_KINDS: Final = {
    "predicate": _Kind(),
    "choice": _Kind("choices", _OPTION, "choice option", MAX_CHOICES),
    "score": _Kind("levels", _LEVEL, "score level", MAX_LEVELS),
}


def translate(body: bytes) -> Asked:
    """The request of System One for one of /v1/decisions that has its schema. Raises Unsupported."""
    request: Json = msgspec.json.decode(body)
    check(request)
    questions = request["questions"]
    asked = {
        "model": request["model"],
        "state": request["input"],
        "questions": {f"q{index}": _asked(question) for index, question in enumerate(questions)},
    }
    return Asked(msgspec.json.encode(asked), questions)


def check(request: Json) -> None:
    """Whether SGLang can serve a decoded request that has the schema, by whatever transport. Raises Unsupported."""
    _only(_REQUEST, request, "request")
    if not any(text.strip() for text in _evidence(request["input"])):
        raise Unsupported("SGLang Decisions needs evidence, and there is none or it is blank")
    for question in request["questions"]:
        _check_question(question)
    if not request["questions"]:
        raise Unsupported("SGLang Decisions needs at least one question")


def _evidence(evidence: str | list[Json]) -> list[str]:
    """The texts of the evidence."""
    if isinstance(evidence, str):
        return [evidence]
    texts: list[str] = []
    for message in evidence:
        _only(_MESSAGE, message, "input message")
        content = message["content"]
        if isinstance(content, str):
            texts.append(content)
            continue
        for part in content:
            if part["type"] != "input_text":
                raise Unsupported("SGLang Decisions takes text evidence only, not images")
            _only(_TEXT_PART, part, "input text part")
            texts.append(part["text"])
    return texts


def _check_question(question: Json) -> None:
    name = question["type"]
    kind = _KINDS[name]
    if not question["instructions"].strip():
        raise Unsupported("SGLang Decisions needs instructions in every question, and some are blank")
    _only(kind.members, question, f"{name} question")
    if not kind.member:
        return
    possible = question[kind.member]
    if not 1 <= len(possible) <= kind.most:
        raise Unsupported(f"SGLang Decisions takes 1 to {kind.most} {kind.member} in a question, not {len(possible)}")
    for answer in possible:
        _only(kind.answer, answer, kind.noun)


def _only(known: frozenset[str], members: Iterable[str], place: str) -> None:
    for name in members:
        if name not in known:
            shown = name if len(name) <= 80 else name[:80] + "…"  # noqa: PLR2004  fit for a message
            raise Unsupported(f'SGLang Decisions cannot honor field "{shown}" on {place}')


def _asked(question: Json) -> Json:
    instructions = question["instructions"]
    match question["type"]:
        case "predicate":
            return {"type": "noul", "instructions": instructions}
        case "choice":
            criteria: object = {f"o{index}": option for index, option in enumerate(question["choices"])}
            return {"type": "choice", "instructions": instructions, "criteria": criteria}
        case _:
            return {"type": "score", "instructions": instructions, "criteria": question["levels"]}


# --- the answer


def read_answers(questions: list[Json], body: bytes) -> bytes:
    """The answer of /v1/decisions to these questions, from System One's. Raises InvalidAnswer."""
    answer = _object(_decoded(body), "the answer")
    answers = _object(answer.get("answers"), "`answers`")
    if len(answers) != len(questions):
        raise InvalidAnswer(f"{len(answers)} answers to {len(questions)} questions")
    model = answer.get("model")
    if not isinstance(model, str):
        raise InvalidAnswer("it names no model")
    found = [_read(question, answers, f"q{index}") for index, question in enumerate(questions)]
    try:
        return msgspec.json.encode({"model": model, "answers": found, "usage": _usage(answer.get("usage"))})
    except UnicodeEncodeError:  # of the texts only the model's name is the engine's
        raise InvalidAnswer("its model's name is no text") from None


def _decoded(body: bytes) -> object:
    try:
        return json.loads(body.decode(), object_pairs_hook=_unique, parse_constant=_no_number)
    except InvalidAnswer:
        raise
    except (ValueError, RecursionError):
        raise InvalidAnswer("it is not JSON") from None


def _unique(pairs: list[tuple[str, object]]) -> Json:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidAnswer("an object has a member twice")
    return members


def _no_number(_name: str) -> NoReturn:
    raise InvalidAnswer("a number is not finite")


def _read(question: Json, answers: Json, key: str) -> Json:
    """One answer, as /v1/decisions words it."""
    kind = question["type"]
    answer = _object(answers.get(key), f"the answer `{key}`")
    if answer.get("type") != ("noul" if kind == "predicate" else kind):
        raise InvalidAnswer(f"the answer `{key}` is of another type than its question")
    head = {"type": kind, "name": question.get("name")}
    match kind:
        case "predicate":
            return {**head, "probability": _probability(answer, "noul")}
        case "choice":
            return {**head, **_read_choice(question["choices"], answer)}
        case _:
            return {**head, **_read_score(question["levels"], answer)}


def _read_choice(choices: list[Json], answer: Json) -> Json:
    keys = [f"o{index}" for index in range(len(choices))]
    probabilities = _distribution(answer, keys)
    chosen = answer.get("choice")
    if not isinstance(chosen, str) or chosen not in keys:
        raise InvalidAnswer("the choice is none of the options")
    index = keys.index(chosen)
    if max(probabilities) > probabilities[index]:
        raise InvalidAnswer("the choice is not the most probable option")
    values = [choice["value"] for choice in choices]
    return {
        "choice": values[index],
        "confidence": _probability(answer, "confidence"),
        "probabilities": [{"value": v, "probability": p} for v, p in zip(values, probabilities, strict=True)],
    }


def _read_score(levels: list[Json], answer: Json) -> Json:
    probabilities = _distribution(answer, [str(index) for index in range(len(levels))])
    score, top = _number(answer, "score"), len(levels) - 1
    expected = fsum([index * probability for index, probability in enumerate(probabilities)])
    if not 0 <= score <= top or abs(score - expected) > _TOLERANCE * max(1, top):
        raise InvalidAnswer("the score is not the mean of its levels")
    return {
        "score": score,
        "confidence": _probability(answer, "confidence"),
        "probabilities": [
            {"value": index, "label": level["label"], "probability": probability}
            for index, (level, probability) in enumerate(zip(levels, probabilities, strict=True))
        ],
    }


def _distribution(answer: Json, keys: list[str]) -> list[float]:
    """The probabilities of these keys, in this order; of no others, and one in all."""
    table = _object(answer.get("probabilities"), "`probabilities`")
    if len(table) != len(keys):
        raise InvalidAnswer(f"there are {len(table)} probabilities for {len(keys)} possible answers")
    probabilities = [_probability(table, key) for key in keys]
    if abs(fsum(probabilities) - 1) > _TOLERANCE:
        raise InvalidAnswer("probabilities do not add up to 1")
    return probabilities


def _probability(members: Mapping[str, object], name: str) -> float:
    value = _number(members, name)
    if not 0 <= value <= 1:
        raise InvalidAnswer(f"`{name}` is not between 0 and 1")
    return value


def _number(members: Mapping[str, object], name: str) -> float:
    """A member that is a number. One beyond all floats is infinite by now, and in no range."""
    value = members.get(name)
    if type(value) is not float and type(value) is not int:
        raise InvalidAnswer(f"`{name}` is missing or no number")
    return value


def _object(value: object, place: str) -> Json:
    if not isinstance(value, dict):
        raise InvalidAnswer(f"{place} is missing or no object")
    return value


def _usage(value: object) -> Json:
    """Scoring reads and generates nothing; the zeros for caches mean that System One does not report them."""
    usage = _object(value, "`usage`")
    read, written = usage.get("input_tokens"), usage.get("output_tokens")
    if type(read) is not int or not 0 <= read < 2**63:
        raise InvalidAnswer("`input_tokens` is missing or no count")
    if type(written) is not int or written != 0:
        raise InvalidAnswer("`output_tokens` is not 0")
    return {
        "input_tokens": read,
        "output_tokens": 0,
        "total_tokens": read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
