"""Sending Decisions to a worker in the words it has for them.

Engines with System One get a translated request on a path of its own, and their answers are translated back; an error
of theirs stays what it is. Every other engine gets the request as it came, and its answer is nobody's business here.
"""

from __future__ import annotations

from smg.engines import engine_of
from smg.engines.systemone import PATH, InvalidAnswer, Unsupported, read_answers, translate
from smg.errors import GatewayError, UpstreamError
from smg.fleet.placement import Placement
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.http1.codec import ResponseHead
from smg.net.reply import Reply
from smg.serving.call import Call
from smg.serving.upstreams.http import HttpUpstream

_OK = range(200, 300)
# What is said of the engine's bytes is not true of ours.
_OF_THE_BODY = frozenset(
    {
        b"accept-ranges",
        b"content-digest",
        b"content-encoding",
        b"content-length",
        b"content-md5",
        b"content-range",
        b"content-type",
        b"digest",
        b"etag",
        b"last-modified",
        b"repr-digest",
        b"transfer-encoding",
    }
)
_JSON = (b"content-type", b"application/json", b"content-type: application/json")


class DecisionsUpstream:
    """Sends Decisions over the links of an `HttpUpstream`. An answer to translate has at most `max_answer_bytes`."""

    def __init__(self, http: HttpUpstream, max_answer_bytes: int) -> None:
        self._http = http
        self._max_answer_bytes = max_answer_bytes

    def routed_line(self, worker: Worker) -> bytes:
        """The response header that names the worker."""
        return self._http.routed_line(worker)

    async def send(self, placement: Placement, call: Call, exchange: Exchange) -> Reply:
        """Send a call and wait for its answer.

        Raises UpstreamError, also for an answer that makes no sense; GatewayError for a request that this worker's
        engine cannot serve.
        """
        worker, body = placement.worker, call.body
        if engine_of(worker.runtime).decisions == "forwarded":
            return await self._http.send(placement, call, exchange)
        assert body is not None  # Decisions are checked, so their bodies are never passed through
        try:
            asked = translate(body)
        except Unsupported as error:
            raise GatewayError("unsupported_decisions_request", str(error)) from None
        reply = await self._http.send_body(worker, call, asked.body, exchange, path=PATH)
        if reply.status not in _OK:
            return reply
        try:
            answer = reply.take(self._max_answer_bytes)
            if answer is None:
                answer = await reply.read(self._max_answer_bytes)
            reply.rewrite(read_answers(asked.questions, answer))
        except InvalidAnswer as error:
            raise UpstreamError("invalid_decisions_response", f"the worker's answer is unusable: {error}") from None
        finally:
            reply.close()
        reply.head = _translated(reply.head)
        return reply


def _translated(head: ResponseHead) -> ResponseHead:
    """The head of an answer whose body is now ours."""
    fields = [field for field in head.fields if field[0] not in _OF_THE_BODY]
    return ResponseHead(head.status, [*fields, _JSON], http10=False)
