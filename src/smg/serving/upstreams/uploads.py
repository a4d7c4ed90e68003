"""Sending what was uploaded and kept: piece by piece, as its worker takes it."""

from __future__ import annotations

from smg.fleet.placement import Placement
from smg.fleet.worker import Worker
from smg.net.exchange import Exchange
from smg.net.reply import Reply
from smg.serving.call import Call
from smg.serving.upstreams.http import HttpUpstream


class UploadUpstream:
    """Sends uploads over the links of an `HttpUpstream`."""

    def __init__(self, http: HttpUpstream) -> None:
        self._http = http

    def routed_line(self, worker: Worker) -> bytes:
        """The response header that names the worker."""
        return self._http.routed_line(worker)

    async def send(self, placement: Placement, call: Call, exchange: Exchange) -> Reply:
        """Send a call and wait for the head of its answer. Raises UpstreamError, or what broke the upload."""
        assert call.upload is not None
        return await self._http.send_upload(placement.worker, call, call.upload, exchange)
