"""Request bodies of the inference routes, read into what the engine works with.

Only what changes an answer is looked at; every other field is accepted and ignored, as a lenient engine would. Bodies
that come again (benchmarks send little else) are recognised by their bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from smg.sim.bodies import (
    ChatBody,
    Common,
    CompletionBody,
    DecisionsBody,
    EmbeddingBody,
    GenerateBody,
    Generation,
    Message,
    RerankBody,
    SamplingParams,
    SystemOneBody,
)
from smg.sim.demands import demand_of
from smg.sim.dialect import SimError
from smg.sim.output import Sampling, sampling_for
from smg.sim.prompt import Prompt, ids_prompt, render_chat, text_prompt

MAX_CHOICES = 128
_MEMO_ENTRIES = 1024
_MEMO_BODY_BYTES = 64 * 1024
_NO_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Call:
    """A generation request. `samplings` has one entry a prompt; each prompt gets `choices` answers.

    `logprobs` is None unless asked for, else the number of alternatives a token. `many` says that the answer is a
    list (of `/generate`), `usage` that a stream ends with its usage. `rid` is the request's own id, empty without one.
    `tool` is the tool that the answer calls, empty for none; `json` says that the answer is JSON.
    """

    model: str
    prompts: tuple[Prompt, ...]
    samplings: tuple[Sampling, ...]
    choices: int = 1
    stream: bool = False
    usage: bool = False
    logprobs: int | None = None
    many: bool = False
    rid: str = ""
    rank: int = 0
    tool: str = ""
    json: bool = False


class Question(NamedTuple):
    """A question of `kind`, and what can be answered to it. A statement that is true or false has no options."""

    kind: str
    name: str | None
    options: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Scoring:
    """A request that is answered by prefill alone. `texts` are a rerank's query and documents; `questions` are those of
    decisions, a prompt each.
    """

    model: str
    prompts: tuple[Prompt, ...]
    texts: tuple[str, ...]
    dimensions: int = 64
    base64: bool = False
    top: int | None = None
    with_documents: bool = True
    rid: str = ""
    rank: int = 0
    questions: tuple[Question, ...] = ()


class Reader:
    """Reads bodies for one engine: answers are `default_tokens` long by nature, prompts at most `context_tokens`, and
    both together too, whatever a request asks for.
    """

    def __init__(self, default_tokens: int, context_tokens: int) -> None:
        self._default_tokens = default_tokens
        self._context_tokens = context_tokens
        self._memo: dict[tuple[str, bytes], Call | Scoring] = {}

    def generation(self, kind: str, body: bytes) -> Call:
        """A generation request of a kind. Raises SimError 400."""
        call = self._read(kind, body)
        assert isinstance(call, Call)
        return call

    def scoring(self, kind: str, body: bytes) -> Scoring:
        """A scoring request of a kind. Raises SimError 400."""
        call = self._read(kind, body)
        assert isinstance(call, Scoring)
        return call

    def _read(self, kind: str, body: bytes) -> Call | Scoring:
        known = self._memo.get((kind, body))
        if known is not None:
            return known
        decoder, build = _READERS[kind]
        try:
            call = build(decoder.decode(body), self._default_tokens)
        except msgspec.DecodeError as error:
            raise SimError(400, f"the body is not a valid request: {error}") from error
        longest = max([prompt.tokens for prompt in call.prompts])
        if longest > self._context_tokens:
            raise SimError(400, f"the prompt has {longest} tokens, the model takes at most {self._context_tokens}")
        if isinstance(call, Call):
            call = _fitted(call, self._context_tokens)
        if len(body) <= _MEMO_BODY_BYTES:
            if len(self._memo) >= _MEMO_ENTRIES:
                self._memo.clear()
            self._memo[kind, body] = call
        return call


def _chat(body: ChatBody, default_tokens: int) -> Call:
    if not body.messages:
        raise SimError(400, "messages must not be empty", "messages")
    turns = [(m.role, _flatten(m.content) + bytes(m.tool_calls).decode()) for m in body.messages]
    text = render_chat(turns, bytes(body.tools).decode())
    limit = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    logprobs = (body.top_logprobs or 0) if body.logprobs else None
    call = _call(body, (text_prompt(text, body.namespace),), limit, logprobs, default_tokens)
    demand = demand_of(body)
    if demand.schema is None:
        return call
    (sampling,) = call.samplings
    bounded = replace(sampling, limit_tokens=_NO_LIMIT if limit is None else limit, stops=(), schema=demand.schema)
    return replace(call, samplings=(bounded,), tool=demand.tool, json=True)


def _completion(body: CompletionBody, default_tokens: int) -> Call:
    return _call(body, _prompts(body.prompt, body.namespace), body.max_tokens, body.logprobs, default_tokens)


def _call(
    body: Generation, prompts: tuple[Prompt, ...], max_tokens: int | None, logprobs: int | None, default_tokens: int
) -> Call:
    sampling = _sampling(
        default_tokens,
        max_tokens,
        body.min_tokens,
        body.stop,
        body.seed,
        ignore_eos=body.ignore_eos,
        field="max_tokens",
    )
    return Call(
        model=body.model,
        prompts=prompts,
        samplings=(sampling,) * len(prompts),
        choices=_choices(1 if body.n is None else body.n),
        stream=bool(body.stream),
        usage=body.usage,
        logprobs=logprobs,
        rid=body.id,
        rank=body.rank,
    )


def _generate(body: GenerateBody, default_tokens: int) -> Call:
    given = body.text if body.input_ids is None else body.input_ids
    if given is None:
        raise SimError(400, "either text or input_ids is required")
    prompts = _prompts(given, body.namespace)
    params = body.sampling_params or SamplingParams()
    each = params if isinstance(params, list) else [params] * len(prompts)
    if len(each) != len(prompts):
        raise SimError(400, "sampling_params must be one object or one a prompt", "sampling_params")
    choices = _choices(each[0].n)
    top = body.top_logprobs_num[0] if isinstance(body.top_logprobs_num, list) else body.top_logprobs_num
    wanted = any(body.return_logprob) if isinstance(body.return_logprob, list) else body.return_logprob
    return Call(
        model=body.model,
        prompts=prompts,
        samplings=tuple(
            [
                _sampling(
                    default_tokens,
                    p.max_new_tokens,
                    p.min_new_tokens,
                    p.stop,
                    p.sampling_seed,
                    ignore_eos=p.ignore_eos,
                    field="max_new_tokens",
                )
                for p in each
            ]
        ),
        choices=choices,
        stream=body.stream,
        logprobs=(top or 0) if wanted else None,
        many=choices > 1 or _is_batch(given),
        rid=body.id,
        rank=body.rank,
    )


def _embeddings(body: EmbeddingBody, _: int) -> Scoring:
    prompts = _prompts(body.input, body.namespace)
    dimensions = 64 if body.dimensions is None else body.dimensions
    if dimensions < 1:
        raise SimError(400, "dimensions must be at least 1", "dimensions")
    return Scoring(
        body.model,
        prompts,
        (),
        dimensions=dimensions,
        base64=body.encoding_format == "base64",
        rid=body.id,
        rank=body.rank,
    )


def _rerank(body: RerankBody, _: int) -> Scoring:
    if not body.documents:
        raise SimError(400, "documents must not be empty", "documents")
    return Scoring(
        body.model,
        tuple([text_prompt(f"{body.query}\n{document}", body.namespace) for document in body.documents]),
        (body.query, *body.documents),
        top=body.top_n if body.top_k is None else body.top_k,
        with_documents=body.return_documents is not False,
        rid=body.id,
        rank=body.rank,
    )


def _decisions(body: DecisionsBody, _: int) -> Scoring:
    questions = []
    for asked in body.questions:
        options = asked.choices if asked.type == "choice" else asked.levels
        member = "value" if asked.type == "choice" else "label"
        questions.append(Question(asked.type, asked.name, tuple([option.get(member) for option in options])))
    return _asked(body, body.input, [asked.instructions for asked in body.questions], questions)


def _system_one(body: SystemOneBody, _: int) -> Scoring:
    questions = []
    for key, asked in body.questions.items():
        options = tuple(asked.criteria or ()) if asked.type != "noul" else ()
        questions.append(Question(asked.type, key, options))
    return _asked(body, body.state, [asked.instructions for asked in body.questions.values()], questions)


def _asked(body: Common, evidence: str | list[Message], instructions: list[str], questions: list[Question]) -> Scoring:
    """A prompt a question, all with the evidence first."""
    if not questions or any(q.kind not in {"noul", "predicate"} and not q.options for q in questions):
        raise SimError(400, "there must be questions, and something to answer to each", "questions")
    text = evidence if isinstance(evidence, str) else "\n".join([_flatten(message.content) for message in evidence])
    prompts = tuple([text_prompt(f"{text}\n{asked}", body.namespace) for asked in instructions])
    return Scoring(body.model, prompts, (), rid=body.id, rank=body.rank, questions=tuple(questions))


def _fitted(call: Call, context_tokens: int) -> Call:
    """The call with answers that end where the context does."""
    cut = []
    for prompt, sampling in zip(call.prompts, call.samplings, strict=True):
        room = context_tokens - prompt.tokens
        cut.append(sampling if sampling.limit_tokens <= room else replace(sampling, limit_tokens=room, finish="length"))
    return replace(call, samplings=tuple(cut))


def _sampling(
    default_tokens: int,
    max_tokens: int | None,
    min_tokens: int,
    stop: str | list[str] | None,
    seed: int | None,
    *,
    ignore_eos: bool,
    field: str,
) -> Sampling:
    if max_tokens is not None and max_tokens < 0:
        raise SimError(400, f"{field} must not be negative", field)
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    return sampling_for(
        default_tokens,
        max_tokens,
        min_tokens=min_tokens,
        ignore_eos=ignore_eos,
        stops=tuple([s for s in stops if s]),
        seed=seed,
    )


def _choices(n: int) -> int:
    if not 1 <= n <= MAX_CHOICES:
        raise SimError(400, f"n must be between 1 and {MAX_CHOICES}", "n")
    return n


def _prompts(given: str | list[Any], namespace: str) -> tuple[Prompt, ...]:
    """The prompts of a field that takes a text, token ids, or a list of either."""
    if isinstance(given, str):
        return (text_prompt(given, namespace),)
    if not given:
        raise SimError(400, "the input must not be empty")
    if _is_ids(given):
        return (ids_prompt(given, namespace),)
    prompts = []
    for item in given:
        if isinstance(item, str):
            prompts.append(text_prompt(item, namespace))
        elif _is_ids(item):
            prompts.append(ids_prompt(item, namespace))
        else:
            raise SimError(400, "the input must be text, token ids, or a list of either")
    return tuple(prompts)


def _is_ids(given: object) -> bool:
    return isinstance(given, list) and all(type(item) is int for item in given)


def _is_batch(given: str | list[Any]) -> bool:
    return not isinstance(given, str) and not isinstance(given[0], int)


def _flatten(content: Any) -> str:
    """A message's content as text. What is no text stands as a mark that differs when the part differs."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = []
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            kind = part.get("type", "part") if isinstance(part, dict) else "part"
            texts.append(f"<|{kind} {zlib.crc32(msgspec.json.encode(part)):08x}|>")
    return "".join(texts)


_READERS: dict[str, tuple[msgspec.json.Decoder[Any], Callable[[Any, int], Call | Scoring]]] = {
    "chat": (msgspec.json.Decoder(ChatBody), _chat),
    "completions": (msgspec.json.Decoder(CompletionBody), _completion),
    "generate": (msgspec.json.Decoder(GenerateBody), _generate),
    "embeddings": (msgspec.json.Decoder(EmbeddingBody), _embeddings),
    "classify": (msgspec.json.Decoder(EmbeddingBody), _embeddings),
    "rerank": (msgspec.json.Decoder(RerankBody), _rerank),
    "decisions": (msgspec.json.Decoder(DecisionsBody), _decisions),
    "systemone": (msgspec.json.Decoder(SystemOneBody), _system_one),
}
