"""Sending a call to a prefill/decode pair. How the two legs meet is the engine's: at once, or one after the other.

A leg that fails takes the other one with it, and is the one to blame. A client that leaves ends both.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from smg.engines import engine_of
from smg.fleet.placement import Placement
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.reply import Reply
from smg.serving.accounts import PairAccounts
from smg.serving.call import Call
from smg.serving.upstreams.http import HttpUpstream
from smg.serving.upstreams.legs import Legs
from smg.serving.upstreams.rendezvous import Rendezvous
from smg.serving.upstreams.transfer import Transfer
from smg.serving.verdicts import Verdicts


class PairUpstream:
    """Sends calls to pairs over the links of an `HttpUpstream`, in one of two ways.

    `is_gone` tells whether a worker has left the registry; `new_id` makes the ids of transfers.
    """

    def __init__(
        self,
        http: HttpUpstream,
        verdicts: Verdicts,
        accounts: PairAccounts,
        *,
        is_gone: Callable[[Worker], bool],
        max_answer_bytes: int,
        rng: random.Random,
        new_id: Callable[[], str],
    ) -> None:
        self._http = http
        self._legs = Legs(http, is_gone, max_answer_bytes)
        self._ways: dict[str, Rendezvous | Transfer] = {
            "rendezvous": Rendezvous(self._legs, verdicts, accounts, rng),
            "transfer": Transfer(self._legs, verdicts, accounts, new_id),
        }

    def routed_line(self, worker: Worker) -> bytes:
        """The response header that names the worker that answers, which is decode's."""
        return self._http.routed_line(worker)

    async def send(self, placement: Placement, call: Call, exchange: Exchange) -> Reply:
        """Send a call to both legs; returns decode's answer, complete unless it is a stream. Raises LegError."""
        prefill = placement.prefill
        assert prefill is not None
        assert call.body is not None  # pairs change bodies, so theirs are never passed through
        way = self._ways[engine_of(prefill.runtime).split]
        return await way.send(prefill, placement.worker, call, call.body, exchange)

    async def close(self) -> None:
        """The gateway ends: so does every leg that is left."""
        await self._legs.close()
