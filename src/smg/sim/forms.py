"""How OpenAI's generation answers look, whole and streamed.

A form renders the answer of one request. Everything that repeats from token to token is made once; simulated text is
ASCII without quotes, so events are joined from slices of it with no JSON encoder in between (lists of log
probabilities and answers in JSON are the exceptions). `generate_form` has the shape of SGLang's own `/generate`,
`tool_calls` that of chats which call a tool.
"""

from __future__ import annotations

from collections.abc import Sequence as ListOf
from typing import Any, NamedTuple, Protocol

import msgspec

from smg.sim.dialect import Dialect, quoted
from smg.sim.output import logprob
from smg.sim.prompt import CHARS_PER_TOKEN
from smg.sim.requests import Call
from smg.sim.scheduler import Sequence

DONE = b"data: [DONE]\n\n"

_PLAIN_TAIL = b',"logprobs":null,"finish_reason":null}]}\n\n'
_CHAT_OPENING = b'{"index":%d,"delta":{"role":"assistant","content":""}' + _PLAIN_TAIL
_CHAT_CHOICE = b'{"index":%d,"message":{"role":"assistant","content":"%b"},"logprobs":%b,"finish_reason":"%b"%b}'


class Form(Protocol):
    """Renders one request's answer. A sequence is choice `position` of its answer."""

    def whole(self, sequences: ListOf[Sequence], version: str, now: float) -> bytes:
        """The body of an answer that is not streamed."""

    def opening(self, position: int) -> bytes:
        """What comes before a choice's first token."""

    def events(self, sequence: Sequence, position: int, version: str) -> bytes:
        """The tokens that were produced since the last call (`sequence.sent` says how many were sent)."""

    def closing(self, sequence: Sequence, position: int, version: str, now: float) -> bytes:
        """What ends a choice."""

    def ending(self, sequences: ListOf[Sequence]) -> bytes:
        """What ends the stream."""


class Identity(NamedTuple):
    """What an answer says about itself. `version` is the weight version it began with."""

    id: str
    created: int
    model: str
    version: str


class OpenAiForm:
    """What chat and plain completions share. Subclasses say how a choice is wrapped."""

    object_whole = b""
    object_chunk = b""

    def __init__(self, dialect: Dialect, call: Call, identity: Identity) -> None:
        self._dialect = dialect
        self._call = call
        self._id = quoted(identity.id)[1:-1]  # the caller may have chosen it
        self._created = identity.created
        self._model = quoted(identity.model)
        self._escaped = escaped if call.json else str.encode
        lead = b'data: {"id":"%b","object":"%b","created":%d,"model":%b%b' % (
            self._id,
            self.object_chunk,
            self._created,
            self._model,
            dialect.chunk_extra(identity.version),
        )
        self._lead = lead + b',"choices":['

    # --- whole

    def whole(self, sequences: ListOf[Sequence], version: str, now: float) -> bytes:  # noqa: ARG002  no times in it
        choices = [self._choice(sequence, position) for position, sequence in enumerate(sequences)]
        return b'{"id":"%b","object":"%b","created":%d,"model":%b,"choices":[%b],"usage":%b%b}' % (
            self._id,
            self.object_whole,
            self._created,
            self._model,
            b",".join(choices),
            usage(sequences, self._call.choices),
            self._dialect.answer_extra(version),
        )

    # --- streamed

    def opening(self, position: int) -> bytes:  # noqa: ARG002  most answers need none
        return b""

    def events(self, sequence: Sequence, position: int, version: str) -> bytes:  # noqa: ARG002  the lead names it
        start = sequence.sent
        sequence.sent = sequence.produced
        pieces = sequence.output.pieces(start, sequence.produced)
        if not pieces:
            return b""
        head, close = self._frame(position)
        if self._call.logprobs is None:
            tail = close + _PLAIN_TAIL
            return head + (tail + head).join(list(map(self._escaped, pieces))) + tail
        events = []
        for at, piece in enumerate(pieces, start):
            listed = self._logprobs([piece], at * CHARS_PER_TOKEN)
            text = self._escaped(piece)
            events.append(b'%b%b%b,"logprobs":%b,"finish_reason":null}]}\n\n' % (head, text, close, listed))
        return b"".join(events)

    def closing(self, sequence: Sequence, position: int, version: str, now: float) -> bytes:  # noqa: ARG002  see events
        return b'%b,"logprobs":null,"finish_reason":"%b"%b}]}\n\n' % (
            self._last_frame(position),
            self._finish(sequence),
            self._dialect.choice_extra(sequence),
        )

    def ending(self, sequences: ListOf[Sequence]) -> bytes:
        if not self._call.usage:
            return DONE
        return b'%b],"usage":%b}\n\n%b' % (self._lead, usage(sequences, self._call.choices), DONE)

    # --- what a subclass says

    def _choice(self, sequence: Sequence, position: int) -> bytes:
        """A choice of a whole answer."""
        raise NotImplementedError

    def _frame(self, position: int) -> tuple[bytes, bytes]:
        """What stands before a token's text, and what closes the text."""
        raise NotImplementedError

    def _last_frame(self, position: int) -> bytes:
        """The beginning of the event that ends a choice."""
        raise NotImplementedError

    def _logprobs(self, pieces: list[str], offset: int) -> bytes:
        """Log probabilities of tokens; `offset` is where in the text they begin."""
        raise NotImplementedError

    def _finish(self, sequence: Sequence) -> bytes:
        return (sequence.ended or "").encode()

    def _logprobs_of(self, sequence: Sequence) -> bytes:
        if self._call.logprobs is None:
            return b"null"
        return self._logprobs(sequence.output.pieces(0, sequence.produced), 0)


class ChatForm(OpenAiForm):
    """`/v1/chat/completions`."""

    object_whole = b"chat.completion"
    object_chunk = b"chat.completion.chunk"

    def _choice(self, sequence: Sequence, position: int) -> bytes:
        return _CHAT_CHOICE % (
            position,
            self._escaped(sequence.text),
            self._logprobs_of(sequence),
            (sequence.ended or "").encode(),
            self._dialect.choice_extra(sequence),
        )

    def opening(self, position: int) -> bytes:
        return self._lead + _CHAT_OPENING % position

    def _frame(self, position: int) -> tuple[bytes, bytes]:
        return b'%b{"index":%d,"delta":{"content":"' % (self._lead, position), b'"}'

    def _last_frame(self, position: int) -> bytes:
        return b'%b{"index":%d,"delta":{}' % (self._lead, position)

    def _logprobs(self, pieces: list[str], offset: int) -> bytes:  # noqa: ARG002  chat has no offsets
        top = self._call.logprobs or 0
        rows = [{**_token(piece, 0), "top_logprobs": [_token(piece, rank) for rank in range(top)]} for piece in pieces]
        return msgspec.json.encode({"content": rows})


class CompletionForm(OpenAiForm):
    """`/v1/completions`."""

    object_whole = b"text_completion"
    object_chunk = b"text_completion"

    def _choice(self, sequence: Sequence, position: int) -> bytes:
        return b'{"index":%d,"text":"%b","logprobs":%b,"finish_reason":"%b"%b}' % (
            position,
            sequence.text.encode(),
            self._logprobs_of(sequence),
            (sequence.ended or "").encode(),
            self._dialect.choice_extra(sequence),
        )

    def _frame(self, position: int) -> tuple[bytes, bytes]:
        return b'%b{"index":%d,"text":"' % (self._lead, position), b'"'

    def _last_frame(self, position: int) -> bytes:
        return b'%b{"index":%d,"text":""' % (self._lead, position)

    def _logprobs(self, pieces: list[str], offset: int) -> bytes:
        top = self._call.logprobs or 0
        offsets = []
        for piece in pieces:
            offsets.append(offset)
            offset += len(piece)
        listed: dict[str, Any] = {
            "tokens": pieces,
            "token_logprobs": [logprob(piece) for piece in pieces],
            "top_logprobs": [{_alternative(p, rank): logprob(p, rank) for rank in range(top)} for p in pieces],
            "text_offset": offsets,
        }
        return msgspec.json.encode(listed)


def usage(sequences: ListOf[Sequence], choices: int) -> bytes:
    """OpenAI's usage object. A prompt with several answers counts once; cached tokens are those of its first."""
    firsts = sequences[::choices]
    prompt = sum([s.prompt.tokens for s in firsts])
    cached = sum([s.cached_tokens for s in firsts])
    generated = sum([s.produced for s in sequences])
    return (
        b'{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}'
        % (prompt, generated, prompt + generated, cached)
    )


def escaped(text: str) -> bytes:
    """Text as it stands within a JSON string."""
    return quoted(text)[1:-1]


def _token(piece: str, rank: int) -> dict[str, Any]:
    token = _alternative(piece, rank)
    return {"token": token, "logprob": logprob(piece, rank), "bytes": list(token.encode())}


def _alternative(piece: str, rank: int) -> str:
    """The token of a rank: the one chosen, then made-up others."""
    return f"{piece}{'~' * rank}"
