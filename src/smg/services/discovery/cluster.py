"""Asks the API server of a Kubernetes cluster about pods: lists of them, and streams of their changes.

This is the one module that imports the Kubernetes client, which knows where the cluster is, who we are there (renewed
as service accounts are) and whom to trust. The two requests are made here, because their details matter: pages,
bookmarks, the version to go on from, which errors mean that the past is gone. Whatever goes wrong on the way is a
`ClusterError`.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

import httpx2
import msgspec
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError as LightkubeConfigError
from msgspec import Struct

from smg.services.discovery.pods import Pod

PAGE_PODS = 500
CONNECT_TIMEOUT_SECS = 10.0
READ_TIMEOUT_SECS = 30.0
# The largest object that a cluster stores is a tenth of this.
MAX_EVENT_BYTES = 16 << 20

_SHOWN_CHARS = 300


class ClusterError(Exception):
    """The API server did not do what it was asked for; the message is for the log."""


class Gone(ClusterError):  # noqa: N818  the status's own name
    """The version to go on from is too old; only a new list tells what is there."""


class Undecodable(ClusterError):  # noqa: N818  it says what the answer is
    """The API server's answer is none that could be read."""


class NoCluster(Exception):  # noqa: N818  it is an outcome, not a fault
    """There is no configuration that leads to a cluster."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change of a pod: ADDED, MODIFIED or DELETED; or a BOOKMARK, which has nothing but a version."""

    kind: str
    pod: Pod


class _PageMetadata(Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    next: str = msgspec.field(name="continue", default="")


class _Page(Struct, frozen=True):
    items: list[Pod]
    metadata: _PageMetadata


class _Line(Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Status(Struct, frozen=True):
    code: int = 0
    message: str = ""


def connect(namespace: str | None) -> Cluster:
    """The cluster that this process runs in, else that of KUBECONFIG or ~/.kube/config; nothing is sent yet.

    `namespace` None means all of them. Raises NoCluster.
    """
    timeout = httpx2.Timeout(READ_TIMEOUT_SECS, connect=CONNECT_TIMEOUT_SECS)
    try:
        client = AsyncClient(_configuration(), ConnectionParams(timeout=timeout))
    except LightkubeConfigError as error:
        raise NoCluster(str(error)) from error
    except Exception as error:
        # Whatever the client trips over in a file that is no configuration. Its words may quote a token.
        raise NoCluster(f"the configuration cannot be used: {type(error).__name__}") from error
    return Cluster(client, namespace)


def _configuration() -> SingleConfig:
    config = KubeConfig.from_env().get()
    if config is None:
        raise LightkubeConfigError("no context is selected")
    # Without a user the client would not even ask for no credentials.
    return config._replace(user=config.user or User())


class Cluster:
    """Lists and watches pods, of one namespace or of all."""

    def __init__(self, client: httpx2.AsyncClient, namespace: str | None) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"

    async def list_pods(self, selector: str) -> tuple[list[Pod], str]:
        """All pods that have the labels of `selector` (as Kubernetes spells it), and the version of that list."""
        pods: list[Pod] = []
        params = {"labelSelector": selector, "limit": str(PAGE_PODS)}
        while True:
            with _translated():
                response = await self._client.get(self._path, params=params)
                _check(response)
            page = _decode(response.content, _Page)
            pods += page.items
            if not page.metadata.next:
                return pods, page.metadata.resource_version
            params["continue"] = page.metadata.next

    async def watch_pods(self, selector: str, version: str, timeout_secs: float) -> AsyncGenerator[Event, None]:
        """The changes since `version`, until the server ends the stream, after `timeout_secs` at the latest.

        Close the iterator. Raises ClusterError, and Gone when `version` is too old.
        """
        params = {
            "labelSelector": selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(max(1, math.ceil(timeout_secs))),
        }
        timeout = httpx2.Timeout(READ_TIMEOUT_SECS, connect=CONNECT_TIMEOUT_SECS, read=None)
        with _translated():
            async with self._client.stream("GET", self._path, params=params, timeout=timeout) as response:
                if response.status_code != HTTPStatus.OK:
                    await response.aread()
                _check(response)
                async for line in _lines(response.aiter_bytes()):
                    yield _event(line)

    async def close(self) -> None:
        """End all connections."""
        await self._client.aclose()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
        raise ClusterError(f"{type(error).__name__}: {error}"[:_SHOWN_CHARS]) from error
    except LightkubeConfigError as error:
        raise ClusterError(str(error)[:_SHOWN_CHARS]) from error
    except (OSError, LookupError, ValueError) as error:
        # From helpers that fetch a token, whose output these may quote.
        raise ClusterError(f"no credentials: {type(error).__name__}") from error


def _check(response: httpx2.Response) -> None:
    if response.status_code == HTTPStatus.OK:
        return
    try:
        message = msgspec.json.decode(response.content, type=_Status).message
    except msgspec.DecodeError:
        message = response.reason_phrase
    kind = Gone if response.status_code == HTTPStatus.GONE else ClusterError
    raise kind(f"status {response.status_code}: {message}"[:_SHOWN_CHARS])


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a stream that are whole; what is cut off at its end is none."""
    rest = bytearray()
    async for chunk in chunks:
        rest += chunk
        if b"\n" in chunk:
            *whole, rest = rest.split(b"\n")
            for line in whole:
                if line:
                    yield bytes(line)
        if len(rest) > MAX_EVENT_BYTES:
            raise ClusterError(f"an event has more than {MAX_EVENT_BYTES} bytes")


def _event(data: bytes) -> Event:
    line = _decode(data, _Line)
    if line.type == "ERROR":
        status = _decode(bytes(line.object), _Status)
        kind = Gone if status.code == HTTPStatus.GONE else ClusterError
        raise kind(f"status {status.code}: {status.message}"[:_SHOWN_CHARS])
    return Event(line.type, _decode(bytes(line.object), Pod))


T = TypeVar("T", bound=Struct)


def _decode(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Undecodable(f"what the API server said makes no sense: {error}"[:_SHOWN_CHARS]) from error
