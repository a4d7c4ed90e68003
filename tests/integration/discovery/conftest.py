"""A Kubernetes API server that follows a script, on a real socket: lists and watches of pods, and their troubles."""

import asyncio
import json
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import pytest

from support.calm import calm_loop
from support.waiting import until

GONE = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old resource version"}


@pytest.fixture(autouse=True)
async def calm():
    async with calm_loop():
        yield


def pod(name, *, ip="127.0.0.1", uid=None, ready=True, phase="Running", labels=None, annotations=None, **extra):
    """A pod as the API server shows it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": extra.pop("namespace", "models"),
            "uid": uid or f"uid-{name}",
            "labels": {"app": "engine"} if labels is None else labels,
            "annotations": annotations or {},
            **extra,
        },
        "spec": {"containers": [{"name": "engine", "image": "engine:1"}]},
        "status": {
            "phase": phase,
            "podIP": ip,
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "True" if ready else "False"},
            ],
        },
    }


@dataclass(eq=False)
class Watch:
    """One open watch: its filters, and the connection to write events to."""

    query: dict
    namespace: str | None
    writer: asyncio.StreamWriter
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def wants(self, shown):
        return (self.namespace in {None, shown["metadata"]["namespace"]}) and selects(self.query, shown)

    def send(self, kind, shown):
        self.write(json.dumps({"type": kind, "object": shown}).encode() + b"\n")

    def write(self, line):
        self.writer.write(b"%x\r\n%b\r\n" % (len(line), line))

    def end(self):
        """Finish the stream in good order."""
        self.writer.write(b"0\r\n\r\n")
        self.over.set()

    def cut(self):
        self.writer.transport.abort()
        self.over.set()


def selects(query, shown):
    pairs = [pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair]
    labels = shown["metadata"]["labels"]
    return all(labels.get(key) == value for key, value in pairs)


class ApiServer:
    """The pods, every change of which is an event for those who watch. `asked` are the queries received, in order."""

    def __init__(self):
        self.version = 100
        self.pods = {}
        self.history = []
        self.oldest = 0
        self.watches = []
        self.asked = []
        self.tokens = []
        self.token = None
        self.refusals = []
        self.page = 0
        self.silent = False
        self._server = None
        self._connections = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self.cut_watches()
        for writer in list(self._connections):
            writer.transport.abort()
        await until(lambda: not self._connections, "the end of all connections")
        await self._server.wait_closed()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def lists(self):
        return [query for query in self.asked if "watch" not in query]

    @property
    def watched(self):
        return [query for query in self.asked if "watch" in query]

    # --- what happens in the cluster

    def put(self, shown, *, unseen=False):
        """Create or change a pod; `unseen` tells nobody."""
        key = (shown["metadata"]["namespace"], shown["metadata"]["name"])
        kind = "MODIFIED" if key in self.pods else "ADDED"
        self.pods[key] = shown
        self._happened(kind, shown, unseen=unseen)

    def delete(self, name, namespace="models", *, unseen=False):
        self._happened("DELETED", self.pods.pop((namespace, name)), unseen=unseen)

    def _happened(self, kind, shown, *, unseen):
        self.version += 1
        shown["metadata"]["resourceVersion"] = str(self.version)
        if unseen:
            return
        self.history.append((self.version, kind, json.loads(json.dumps(shown))))
        for watch in self.watches:
            if watch.wants(shown):
                watch.send(kind, shown)

    # --- what happens to those who watch

    def bookmark(self):
        """Tell everybody who asked for bookmarks how far the history has got."""
        self.version += 1
        mark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.version)}}
        for watch in self.watches:
            if watch.query.get("allowWatchBookmarks") == "true":
                watch.send("BOOKMARK", mark)

    def compact(self):
        """Forget the past: whoever wants to go on from before is told that it is gone."""
        self.version += 1
        self.oldest = self.version
        self.history = []

    def expire(self):
        """Tell everybody who watches, in the stream, that the past is gone."""
        self.compact()
        for watch in self.watches:
            watch.send("ERROR", GONE)
            watch.end()

    def end_watches(self):
        for watch in self.watches:
            watch.end()

    def cut_watches(self):
        for watch in self.watches:
            watch.cut()

    def refuse(self, *statuses):
        """Answer the next requests with these statuses."""
        self.refusals += statuses

    # --- the protocol

    async def _serve(self, reader, writer):
        self._connections.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                await self._answer(head, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _answer(self, head, writer):
        parts = urlsplit(head.split()[1])
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        steps = parts.path.strip("/").split("/")
        self.asked.append({**query, "path": parts.path})
        headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        self.tokens.append(headers.get("authorization"))
        if self.silent:
            await asyncio.Event().wait()
        if self.token is not None and headers.get("authorization") != f"bearer {self.token}":
            self._whole(writer, 401, {"kind": "Status", "code": 401, "message": "Unauthorized"})
        elif self.refusals:
            status = self.refusals.pop(0)
            self._whole(writer, status, {"kind": "Status", "code": status, "message": f"refused with {status}"})
        elif query.get("watch") in {"true", "1"}:
            await self._watch(Watch(query, _namespace(steps), writer))
        else:
            self._list(writer, query, _namespace(steps))

    def _list(self, writer, query, namespace):
        shown = [p for p in self.pods.values() if namespace in {None, p["metadata"]["namespace"]} and selects(query, p)]
        start = int(query.get("continue", "0"))
        end = start + self.page if self.page else len(shown)
        more = {"continue": str(end)} if end < len(shown) else {}
        meta = {"resourceVersion": str(self.version), **more}
        self._whole(writer, 200, {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": shown[start:end]})

    async def _watch(self, watch):
        since = int(watch.query.get("resourceVersion") or self.version)
        if since < self.oldest:
            self._whole(watch.writer, 410, GONE)
            return
        head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        watch.writer.write(head.encode())
        for version, kind, shown in self.history:
            if version > since and watch.wants(shown):
                watch.send(kind, shown)
        self.watches.append(watch)
        try:
            await watch.over.wait()
        finally:
            self.watches.remove(watch)

    def _whole(self, writer, status, body):
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)


def _namespace(steps):
    return steps[3] if len(steps) > 3 and steps[2] == "namespaces" else None


@pytest.fixture
async def api():
    async with ApiServer() as server:
        yield server


@pytest.fixture(name="pod")
def pod_fixture():
    return pod


@pytest.fixture
def kubeconfig(api, tmp_path, monkeypatch):
    """The way to the API server, as this process finds it."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
