"""Chats for the contracts of model families."""

import json

import pytest

from smg.protocol.body import edit
from smg.protocol.contracts import settle
from smg.protocol.decoding import decode
from smg.protocol.requests import ChatRequest

USER = {"role": "user", "content": "Hi"}


class Settling:
    """What became of a chat."""

    def __init__(self, model, *messages, **fields):
        body = json.dumps({"model": model, "messages": list(messages) or [USER], **fields}).encode()
        self.request = decode(ChatRequest, body)
        edits, self.broken, self.foreign = settle(self.request, body)
        self.edited = edit(body, edits)
        self.sent = json.loads(body)
        self.body = json.loads(self.edited)

    @property
    def filled(self):
        """What is there that the client did not send, or not so."""
        return {name: value for name, value in self.body.items() if self.sent.get(name) != value}


@pytest.fixture(scope="session")
def settled():
    return Settling


@pytest.fixture(scope="session")
def tool():
    def make(name="f", kind="function"):
        return {"type": kind, "function": {"name": name}}

    return make
