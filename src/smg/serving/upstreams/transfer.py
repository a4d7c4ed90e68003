"""A pair whose legs follow each other: prefill gets a copy for one token, decode then the original, with the transfer
parameters that prefill returned.

One cache cannot be handed to several generations: a request for more than one goes to decode alone, which computes the
prompt itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from smg.engines.kv_transfer import PARAMS, PrefillEngine, connector_of, prefill_edits, returned_params
from smg.fleet.pairing import kv_connector, kv_engine_id
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.reply import Reply
from smg.protocol.body import edit, members
from smg.serving.accounts import PairAccounts
from smg.serving.call import Call
from smg.serving.upstreams.legs import LegError, Legs, Watch, host_of, is_good
from smg.serving.verdicts import Verdicts


class Transfer:
    """Sends calls to pairs of engines that hand a cache on. `new_id` makes the ids of transfers."""

    def __init__(self, legs: Legs, verdicts: Verdicts, accounts: PairAccounts, new_id: Callable[[], str]) -> None:
        self._legs = legs
        self._verdicts = verdicts
        self._accounts = accounts
        self._new_id = new_id

    async def send(self, prefill: Worker, decode: Worker, call: Call, body: bytes, exchange: Exchange) -> Reply:
        """Send a call to both legs; returns decode's answer, complete unless it is a stream. Raises LegError."""
        if call.choices == 1 and (call.batch_size or 1) == 1:
            body = await self._filled(prefill, call, body, exchange)
        reply = await self._legs.send("decode", decode, call, body, exchange)
        reply.watcher = Watch(partial(self._accounts.began, call, prefill, exchange.started_at))
        await self._legs.complete(decode, reply)
        return reply

    async def _filled(self, prefill: Worker, call: Call, body: bytes, exchange: Exchange) -> bytes:
        """Let prefill fill a cache; returns the body for decode."""
        connector = connector_of(kv_connector(prefill))
        transfer_id = f"xfer-{self._new_id()}"
        copy = edit(body, prefill_edits(members(body), connector.tag(transfer_id), call.endpoint.output_limit))
        answer = await self._prefilled(prefill, call, copy, exchange)
        engine = PrefillEngine(host_of(prefill), prefill.bootstrap_port, kv_engine_id(prefill))
        params = connector.hand_on(transfer_id, engine, returned_params(answer))
        self._accounts.transferred(connector.mode, failed=connector.promises and params is None)
        return body if params is None else edit(body, {PARAMS: params})

    async def _prefilled(self, prefill: Worker, call: Call, copy: bytes, exchange: Exchange) -> bytes:
        """Prefill's whole answer to its copy; counts as load of its worker meanwhile."""
        started_at = time.perf_counter()
        prefill.load += 1
        try:
            reply = await self._legs.send("prefill", prefill, call, copy, exchange)
            try:
                if not is_good(reply):
                    raise await self._legs.refusal(prefill, reply, {})
                answer = await self._legs.read("prefill", prefill, reply)
            finally:
                reply.close()
        except LegError as error:
            self._verdicts.failed(call, prefill, error)
            raise
        finally:
            prefill.load -= 1
        self._verdicts.good(prefill)
        self._accounts.filled(call, prefill, time.perf_counter() - started_at)
        return answer
