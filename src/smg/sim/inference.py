"""The inference routes: a request becomes sequences, and what the scheduler makes of them becomes the answer.

Tokens are written from the scheduler's tick itself; the task of a request only waits for the end. When the client
leaves, that task is cancelled and its sequences are aborted.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable

from smg.sim import decisions, messages, responses
from smg.sim.conversation import Conversation
from smg.sim.dialect import JSON, TRANSCRIPTIONS, Dialect, SimError
from smg.sim.forms import ChatForm, CompletionForm, Form, Identity
from smg.sim.generate_form import GenerateForm
from smg.sim.machine import Machine
from smg.sim.output import Sampling
from smg.sim.pacer import Pacer
from smg.sim.reply import Reply
from smg.sim.requests import Call, Reader, Scoring
from smg.sim.scheduler import Sequence
from smg.sim.scoring import RENDERERS as SCORING_RENDERERS
from smg.sim.scoring import Frame
from smg.sim.tool_calls import ToolCallForm
from smg.sim.transcripts import TranscriptForm, read_form

RESPONSES = "responses"
ID_PREFIXES = {
    "chat": "chatcmpl-",
    "completions": "cmpl-",
    "generate": "",
    "embeddings": "embd-",
    "rerank": "rerank-",
    "classify": "classify-",
    "decisions": "decision_",
    "systemone": "",
    TRANSCRIPTIONS: "trsc-",
    RESPONSES: "resp_",
    messages.MESSAGES: "msg_",
}
RENDERERS = {**SCORING_RENDERERS, **decisions.RENDERERS}

_NO_OUTPUT = Sampling(0)


class Inference:
    """Serves the inference routes of one engine."""

    def __init__(self, machine: Machine, dialect: Dialect, pacer: Pacer) -> None:
        self._machine = machine
        self._dialect = dialect
        self._pacer = pacer
        self._reader = Reader(machine.options.output_tokens, machine.options.context_tokens)
        self._nonce = os.urandom(8).hex()
        self._numbers = itertools.count(1)

    async def serve(self, kind: str, body: bytes, reply: Reply) -> None:
        """Answer one request of a kind. Raises SimError for a request that is refused."""
        self._machine.requests += 1
        if kind in RENDERERS:
            await self._score(kind, body, reply)
            return
        if kind == messages.COUNT:
            call = self._chat(messages.read(body, counting=True).chat)
            reply.answer(200, b'{"input_tokens":%d}' % call.prompts[0].tokens)
            return
        call, id_, form = self._generation(kind, body)
        if call.stream:
            await self._stream(call, id_, form, reply)
        else:
            await self._whole(call, id_, form, reply)

    async def transcribe(self, content_type: bytes | None, body: bytes, reply: Reply) -> None:
        """Answer one form with audio. Raises SimError for one that is refused."""
        self._machine.requests += 1
        asked = read_form(content_type, body)
        call = self._reader.generation("completions", asked.completion)
        self._check_model(call.model)
        id_, form = self._new_id(TRANSCRIPTIONS), TranscriptForm(asked)
        if call.stream:
            await self._stream(call, id_, form, reply)
        else:
            await self._whole(call, id_, form, reply, asked.content_type)

    # --- realtime

    def conversation(self, model: str) -> Conversation:
        """A new session. Raises SimError for a model that is not served."""
        self._check_model(model)
        return Conversation(model, f"{self._nonce}{next(self._numbers):08x}")

    def spoken(self, chat: bytes) -> tuple[Call, str]:
        """A response that is to be spoken, and its id. Raises SimError."""
        self._machine.requests += 1
        return self._chat(chat), self._new_id(RESPONSES)

    async def speak(self, call: Call, id_: str, form: Form, reply: Reply) -> None:
        """Stream a response."""
        await self._stream(call, id_, form, reply)

    # --- inside

    async def _whole(self, call: Call, id_: str, form: Form, reply: Reply, content_type: bytes = JSON) -> None:
        gathering = _Gathering()
        sequences = self._sequences(call, id_, gathering.progress)
        await self._run(sequences, gathering)
        machine = self._machine
        reply.answer(200, form.whole(sequences, machine.weight_version, self._pacer.now()), content_type)

    async def _stream(self, call: Call, id_: str, form: Form, reply: Reply) -> None:
        streaming = _Streaming(form, reply, self._machine, self._pacer.now)
        sequences = self._sequences(call, id_, streaming.progress)
        reply.start(200)
        await self._run(sequences, streaming)
        reply.write(form.ending(sequences))
        reply.end()

    async def _score(self, kind: str, body: bytes, reply: Reply) -> None:
        call: Scoring = self._reader.scoring(kind, body)
        self._check_model(call.model)
        id_ = call.rid or self._new_id(kind)
        started_at = self._pacer.now()
        gathering = _Gathering()
        sequences = [
            self._machine.sequence(f"{id_}_{at}", prompt, _NO_OUTPUT, gathering.progress, rank=call.rank)
            for at, prompt in enumerate(call.prompts)
        ]
        await self._run(sequences, gathering)
        if any(sequence.ended == "abort" for sequence in sequences):
            raise SimError(503, "the request was aborted")
        model = call.model or self._machine.options.model
        elapsed_secs = self._pacer.now() - started_at
        reply.answer(200, RENDERERS[kind](self._dialect, call, Frame(id_, model, int(time.time()), elapsed_secs)))

    async def _run(self, sequences: list[Sequence], gathering: _Gathering) -> None:
        """Let sequences run to their ends; abort them if nobody waits any more."""
        gathering.left = len(sequences)
        scheduler, now = self._machine.scheduler, self._pacer.now()
        for sequence in sequences:
            scheduler.submit(sequence, now)
        if not gathering.left:
            return
        self._pacer.settle()
        gathering.done = asyncio.get_running_loop().create_future()
        try:
            await gathering.done
        finally:
            for sequence in sequences:
                if sequence.ended is None:
                    gathering.mute = True
                    scheduler.abort(sequence, self._pacer.now())
            self._pacer.settle()

    def _sequences(self, call: Call, id_: str, progress: Callable[[Sequence], None]) -> list[Sequence]:
        if len(call.prompts) == 1 and call.choices == 1:
            return [self._machine.sequence(id_, call.prompts[0], call.samplings[0], progress, rank=call.rank)]
        sequences: list[Sequence] = []
        for prompt, sampling in zip(call.prompts, call.samplings, strict=True):
            for choice in range(call.choices):
                rid = f"{id_}_{len(sequences)}"
                sequence = self._machine.sequence(rid, prompt, sampling, progress, choice=choice, rank=call.rank)
                sequence.position = len(sequences)
                sequences.append(sequence)
        return sequences

    def _generation(self, kind: str, body: bytes) -> tuple[Call, str, Form]:
        """A request of a kind, its id, and the form of its answer. Raises SimError."""
        if kind == RESPONSES:
            asked = responses.read(body)
            call = self._chat(asked.chat)
            id_ = call.rid or self._new_id(kind)
            return call, id_, responses.ResponsesForm(asked.body, call, self._identity(call, id_))
        if kind == messages.MESSAGES:
            call = self._chat(messages.read(body).chat)
            id_ = call.rid or self._new_id(kind)
            return call, id_, messages.MessageForm(call, self._identity(call, id_))
        call = self._reader.generation(kind, body)
        self._check_model(call.model)
        id_ = call.rid or self._new_id(kind)
        if kind == "generate":
            return call, id_, GenerateForm(call)
        form = CompletionForm if kind == "completions" else ToolCallForm if call.tool else ChatForm
        return call, id_, form(self._dialect, call, self._identity(call, id_))

    def _chat(self, body: bytes) -> Call:
        call = self._reader.generation("chat", body)
        self._check_model(call.model)
        return call

    def _identity(self, call: Call, id_: str) -> Identity:
        machine = self._machine
        return Identity(id_, int(time.time()), call.model or machine.options.model, machine.weight_version)

    def _new_id(self, kind: str) -> str:
        return f"{ID_PREFIXES[kind]}{self._nonce}{next(self._numbers):08x}"

    def _check_model(self, model: str) -> None:
        if self._dialect.checks_model and model and model != self._machine.options.model:
            raise SimError(404, f"The model `{model}` does not exist.", "model")


class _Gathering:
    """Waits for the last of a request's sequences. `left` counts those that have not ended."""

    __slots__ = ("done", "left", "mute")

    def __init__(self) -> None:
        self.left = 0
        self.done: asyncio.Future[None] | None = None
        self.mute = False

    def progress(self, sequence: Sequence) -> None:
        if sequence.ended:
            self._one_ended()

    def _one_ended(self) -> None:
        self.left -= 1
        if not self.left and self.done is not None and not self.done.done():
            self.done.set_result(None)


class _Streaming(_Gathering):
    """Writes tokens as they appear."""

    __slots__ = ("_form", "_machine", "_now", "_reply")

    def __init__(self, form: Form, reply: Reply, machine: Machine, now: Callable[[], float]) -> None:
        super().__init__()
        self._form = form
        self._reply = reply
        self._machine = machine
        self._now = now

    def progress(self, sequence: Sequence) -> None:
        if not self.mute:
            form, position, version = self._form, sequence.position, self._machine.weight_version
            opening = b"" if sequence.sent else form.opening(position)
            piece = opening + form.events(sequence, position, version)
            if sequence.ended:
                piece += form.closing(sequence, position, version, self._now())
            self._reply.write(piece)
        if sequence.ended:
            self._one_ended()
