"""Chats that call a tool: the arguments are what the model says."""

from __future__ import annotations

from smg.sim.dialect import Dialect, quoted
from smg.sim.forms import ChatForm, Identity, escaped
from smg.sim.requests import Call
from smg.sim.scheduler import Sequence

_MESSAGE = b'{"role":"assistant","content":null,"tool_calls":[%b]}'
_CALL = b'{"id":"%b","type":"function","function":{"name":%b,"arguments":"%b"}}'
_OPENING = b'%b{"index":%d,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,%b]},'


class ToolCallForm(ChatForm):
    """`/v1/chat/completions` where the answer calls a tool."""

    def __init__(self, dialect: Dialect, call: Call, identity: Identity) -> None:
        super().__init__(dialect, call, identity)
        self._tool = quoted(call.tool)

    def _choice(self, sequence: Sequence, position: int) -> bytes:
        return b'{"index":%d,"message":%b,"logprobs":null,"finish_reason":"%b"%b}' % (
            position,
            _MESSAGE % self._called(position, escaped(sequence.text)),
            self._finish(sequence),
            self._dialect.choice_extra(sequence),
        )

    def opening(self, position: int) -> bytes:
        opened = _OPENING % (self._lead, position, self._called(position, b"")[1:])
        return opened + b'"logprobs":null,"finish_reason":null}]}\n\n'

    def _frame(self, position: int) -> tuple[bytes, bytes]:
        head = b'%b{"index":%d,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"' % (self._lead, position)
        return head, b'"}}]}'

    def _finish(self, sequence: Sequence) -> bytes:
        return b"tool_calls" if sequence.ended == "stop" else super()._finish(sequence)

    def _called(self, position: int, arguments: bytes) -> bytes:
        return _CALL % (call_id(self._id.decode(), position).encode(), self._tool, arguments)


def call_id(id_: str, position: int) -> str:
    """The id of the call in an answer's choice."""
    return f"call_{id_.rpartition('-')[2]}{position:02x}"
