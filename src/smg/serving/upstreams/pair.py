"""Sending a call to a prefill/decode pair. How the two legs meet is the engine's: at once, or one after the other.

    rendezvous   both legs get the request, with a meeting point in their bodies; the client's answer is decode's, and
                 prefill's is read to its end and dropped: closing it early would abort the transfer
    transfer     prefill gets a copy for one token, decode then the original with the parameters prefill returned

A leg that fails takes the other one with it, and is the one to blame. A client that leaves ends both.
"""

from __future__ import annotations

import asyncio
import random
from uuid import uuid4

import msgspec

from smg.engines import engine_of
from smg.engines.bootstrap import rendezvous
from smg.engines.kv_transfer import PARAMS, PrefillEngine, connector_of, prefill_edits
from smg.errors import UpstreamError
from smg.fleet.pairing import kv_connector
from smg.fleet.placement import Placement
from smg.fleet.statuses import RETRYABLE_STATUSES
from smg.fleet.worker import Worker
from smg.net.address import address_of
from smg.net.exchange import Exchange
from smg.net.reply import Reply
from smg.protocol.body import Edits, edit, members
from smg.serving.accounts import PairAccounts
from smg.serving.call import Call
from smg.serving.upstreams.http import HttpUpstream

# A pair's leg learns its own rank, and decode its partner's, by these members.
_RANK_MEMBER = "routed_dp_rank"
_PREFILL_RANK_MEMBER = "disagg_prefill_dp_rank"
_OK = range(200, 300)
_REFUSAL_CODES = {400: "prefill_bad_request", 500: "prefill_internal_error", 503: "prefill_unavailable"}
_MOST_SHOWN_BYTES = 2000


class LegError(UpstreamError):
    """One leg of a pair failed. `worker` is to blame, and `status` is what its engine said, 502 if it said nothing."""

    def __init__(self, code: str, worker: Worker, message: str, status: int = 502) -> None:
        super().__init__(code, message)
        self.worker = worker
        self._status = status

    @property
    def status(self) -> int:
        return self._status

    @property
    def retryable(self) -> bool:
        return self._status in RETRYABLE_STATUSES


class PairUpstream:
    """Sends calls to pairs over the links of an `HttpUpstream`."""

    def __init__(self, http: HttpUpstream, accounts: PairAccounts, max_answer_bytes: int, rng: random.Random) -> None:
        self._http = http
        self._accounts = accounts
        self._max_answer_bytes = max_answer_bytes
        self._rng = rng
        self._draining: set[asyncio.Task[None]] = set()

    def routed_line(self, worker: Worker) -> bytes:
        """The response header that names the worker that answers, which is decode's."""
        return self._http.routed_line(worker)

    async def send(self, placement: Placement, call: Call, exchange: Exchange) -> Reply:
        """Send a call to both legs; returns decode's answer. Raises LegError."""
        prefill, decode, body = placement.prefill, placement.worker, call.body
        assert prefill is not None
        assert body is not None  # pairs change bodies, so theirs are never passed through
        if engine_of(prefill.runtime).split == "transfer":
            return await self._transfer(prefill, decode, call, body, exchange)
        return await self._rendezvous(prefill, decode, call, body, exchange)

    # --- both legs at once

    async def _rendezvous(self, prefill: Worker, decode: Worker, call: Call, body: bytes, exchange: Exchange) -> Reply:
        host = address_of(prefill.base_url).host
        meeting: Edits = {**rendezvous(host, prefill.bootstrap_port, call.batch_size, self._rng.getrandbits)}
        legs = (
            asyncio.create_task(self._leg("prefill", prefill, call, edit(body, meeting | _ranks(prefill)), exchange)),
            asyncio.create_task(
                self._leg("decode", decode, call, edit(body, meeting | _ranks(decode, prefill)), exchange)
            ),
        )
        try:
            prefill_reply, decode_reply = await self._both(prefill, *legs)
        except BaseException:
            for leg in legs:
                _abandon(leg)
            raise
        if prefill_reply is None:
            _abandon(legs[0])  # decode refused: there is nothing to fill a cache for
        else:
            self._drain(prefill_reply, decode_reply)
        return decode_reply

    async def _both(
        self, prefill: Worker, filling: asyncio.Task[Reply], decoding: asyncio.Task[Reply]
    ) -> tuple[Reply | None, Reply]:
        """Wait for both heads. Raises LegError when a leg fails; a refusal of decode ends the wait for prefill."""
        await asyncio.wait({filling, decoding}, return_when=asyncio.FIRST_COMPLETED)
        if decoding.done() and decoding.result().status not in _OK:
            return None, decoding.result()
        if not filling.done():
            await asyncio.wait({filling})
        filled = filling.result()
        if filled.status not in _OK:
            raise await self._refusal(prefill, filled)
        self._accounts.filled(prefill)
        return filled, await decoding

    def _drain(self, filled: Reply, answer: Reply) -> None:
        """Read prefill's answer to its end, unless decode's is given up first."""
        task = asyncio.create_task(_discard(filled))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)
        answer.on_abandoned = task.cancel

    # --- one leg after the other

    async def _transfer(self, prefill: Worker, decode: Worker, call: Call, body: bytes, exchange: Exchange) -> Reply:
        if call.choices > 1:  # one cache cannot be handed to several generations
            return await self._leg("decode", decode, call, body, exchange)
        name = kv_connector(prefill)
        connector = connector_of(name)
        transfer_id = f"xfer-{uuid4()}"
        copy = edit(body, prefill_edits(members(body), connector.tag(transfer_id)))
        reply = await self._leg("prefill", prefill, call, copy, exchange)
        if reply.status not in _OK:
            raise await self._refusal(prefill, reply)
        answer = await self._read("prefill", prefill, reply)
        self._accounts.filled(prefill)
        engine = PrefillEngine(
            engine_id=prefill.spec.kv_engine_id if prefill.spec is not None else None,
            host=address_of(prefill.base_url).host,
            port=prefill.bootstrap_port,
        )
        params = connector.hand_on(transfer_id, engine, _returned(answer))
        self._accounts.transferred(name, told=params is not None)
        return await self._leg("decode", decode, call, edit(body, {PARAMS: params} if params else {}), exchange)

    # --- one leg

    async def _leg(self, leg: str, worker: Worker, call: Call, body: bytes, exchange: Exchange) -> Reply:
        try:
            return await self._http.send_body(worker, call, body, exchange)
        except UpstreamError as error:
            raise LegError(f"{leg}_request_failed", worker, f"the {leg} worker failed: {error.message}") from error

    async def _read(self, leg: str, worker: Worker, reply: Reply) -> bytes:
        try:
            return reply.take(self._max_answer_bytes) or await reply.read(self._max_answer_bytes)
        except UpstreamError as error:
            raise LegError(f"{leg}_request_failed", worker, f"the {leg} worker failed: {error.message}") from error
        finally:
            reply.close()

    async def _refusal(self, prefill: Worker, reply: Reply) -> LegError:
        """The error of a prefill engine that answered, but not well."""
        body = await self._read("prefill", prefill, reply)
        said = body[:_MOST_SHOWN_BYTES].decode("utf-8", "replace")
        code = _REFUSAL_CODES.get(reply.status, "prefill_upstream_error")
        return LegError(code, prefill, f"the prefill worker answered {reply.status}: {said}", reply.status)


def _ranks(worker: Worker, prefill: Worker | None = None) -> Edits:
    ranks: Edits = {}
    if worker.dp_rank is not None:
        ranks[_RANK_MEMBER] = b"%d" % worker.dp_rank
    if prefill is not None and prefill.dp_rank is not None:
        ranks[_PREFILL_RANK_MEMBER] = b"%d" % prefill.dp_rank
    return ranks


def _returned(answer: bytes) -> msgspec.Raw | None:
    """The transfer parameters in a prefill engine's answer, if there are any."""
    try:
        params = members(answer).get(PARAMS)
    except ValueError:
        return None
    return None if params is None or bytes(params) == b"null" else params


def _abandon(leg: asyncio.Task[Reply]) -> None:
    """Give a leg up, whatever it has come to."""
    leg.cancel()
    leg.add_done_callback(_close)


def _close(leg: asyncio.Task[Reply]) -> None:
    if not leg.cancelled() and leg.exception() is None:
        leg.result().close()


async def _discard(reply: Reply) -> None:
    try:
        await reply.pump(lambda _piece: None)
    except UpstreamError:
        pass  # decode's answer tells whether it mattered
    finally:
        reply.close()
