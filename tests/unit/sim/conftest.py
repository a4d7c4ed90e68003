"""Drives forms and control routes without a network."""

from types import SimpleNamespace

import msgspec
import pytest

from smg.sim.dialect import Control as ControlCall
from smg.sim.dialect import SimError
from smg.sim.dialects import DIALECTS
from smg.sim.machine import Machine
from smg.sim.options import SimOptions
from smg.sim.output import Sampling, Writer
from smg.sim.prompt import text_prompt
from smg.sim.requests import Reader
from smg.sim.scheduler import Sequence


def call_of(kind, **body):
    return Reader(10, 1000).generation(kind, msgspec.json.encode(body))


def sequences_of(call):
    writer, sequences = Writer("m", 0), []
    for prompt, sampling in zip(call.prompts, call.samplings, strict=True):
        for choice in range(call.choices):
            output = writer.write(prompt, sampling, choice, "v1")
            sequence = Sequence(f"r_{len(sequences)}", prompt, sampling, output, lambda _: None, choice=choice)
            sequence.position = len(sequences)
            sequences.append(sequence)
    return sequences


def finish(sequence, ended=None):
    sequence.produced = sequence.output.tokens
    sequence.ended = ended or sequence.output.finish
    return sequence


def stream(form, sequence, *steps):
    """The events of one choice whose produced tokens take these values, the last of them its end."""
    out = form.opening(sequence.position)
    for produced in steps:
        sequence.produced = produced
        if produced == steps[-1]:
            sequence.ended = sequence.output.finish
        out += form.events(sequence, sequence.position, "v1")
    return out + form.closing(sequence, sequence.position, "v1", 9.0)


def events(raw):
    """The JSON of every event; the end mark as it is."""
    blocks = raw.split(b"\n\n")
    assert blocks.pop() == b""
    assert all(block.startswith(b"data: ") for block in blocks)
    return [b"[DONE]" if b == b"data: [DONE]" else msgspec.json.decode(b[6:]) for b in blocks]


@pytest.fixture(scope="session")
def talk():
    """The functions of this file."""
    return SimpleNamespace(call_of=call_of, sequences_of=sequences_of, finish=finish, stream=stream, events=events)


class Control:
    """The control routes of one engine, called without a network."""

    def __init__(self, engine, **options):
        self.machine = Machine(SimOptions(engine=engine, model="m", **options))
        self.routes = DIALECTS[engine].control
        self.now = 100.0

    def start(self, prompt="hello", tokens=8, rid="r", rank=0):
        sequence = self.machine.sequence(rid, text_prompt(prompt), Sampling(tokens), lambda _: None, rank=rank)
        self.machine.scheduler.submit(sequence, self.now)
        return sequence

    def call(self, method, target, body=None):
        """Answer of a route as (status, value); `body` is JSON, or bytes as they are. Waits are left out."""
        path, _, query = target.partition("?")
        sent = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        route = self.routes[method, path]
        control = ControlCall(self.machine, query, sent, self.now, 1_700_000_000.0)
        try:
            if route.prepare is not None:
                route.prepare(control)
            answer = route.run(control)
        except SimError as error:
            return error.status, error.message
        if answer.content_type != b"application/json":
            return answer.status, answer.body.decode()
        return answer.status, msgspec.json.decode(answer.body)

    def waits(self, path, body=None, query=""):
        """Whether a route would wait until nothing runs."""
        sent = b"" if body is None else msgspec.json.encode(body)
        return self.routes["POST", path].prepare(ControlCall(self.machine, query, sent, self.now, 0.0))


@pytest.fixture
def control():
    """Makes the control routes of an engine."""
    return Control
