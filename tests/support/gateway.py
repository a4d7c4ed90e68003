"""A gateway composed in this process, on ports of its own, and what a test may know of its inside."""

import json
import os
import tempfile
from contextlib import asynccontextmanager

from smg.app.compose import compose
from smg.config.settings import Settings
from smg.telemetry.logs import start_logs
from support.bodies import CHAT
from support.client import Client
from support.scrape import Scrape
from support.waiting import until

HOST = "127.0.0.1"

# Nobody waits longer than a test must: back-offs and looks at starting workers are short.
_QUICK = {
    "policy": "round_robin",
    "retry_initial_backoff_ms": 1,
    "retry_max_backoff_ms": 2,
    "worker_startup_check_interval": 0.02,
}


class RunningGateway:
    """A gateway that listens. `port` is the API's, `metrics_port` the metrics'."""

    def __init__(self, gateway, logs, log_fd):
        self.gateway = gateway
        self.port = gateway.server.port
        self.metrics_port = gateway.metrics_server.port
        self._logs = logs
        self._log_fd = log_fd
        self._clients = []
        # Removed workers too: their leases must come back as well.
        self.known = list(gateway.registry.snapshot.workers)
        gateway.registry.subscribe(lambda change: change.kind == "added" and self.known.append(change.worker))

    @property
    def url(self):
        return f"http://{HOST}:{self.port}"

    # --- asking

    async def connect(self, **options):
        """A new connection; it is closed with the gateway."""
        client = await Client.open(self.port, **options)
        self._clients.append(client)
        return client

    async def send(self, method, target, body=None, headers=(), **options):
        """Send a request on a new connection, and leave the answer to the test."""
        client = await self.connect()
        await client.send(method, target, body, headers, **options)
        return client

    async def ask(self, method, target, body=None, headers=()):
        """One request on a connection of its own, and its whole answer."""
        client = await self.send(method, target, body, headers)
        answer = await client.answer()
        await client.closed()
        self._clients.remove(client)
        return answer

    async def get(self, target, headers=()):
        return await self.ask("GET", target, None, headers)

    async def post(self, target, body, headers=()):
        return await self.ask("POST", target, body, headers)

    async def chat(self, body, headers=()):
        return await self.post(CHAT, body, headers)

    async def scrape(self):
        """What /metrics says now."""
        client = await Client.open(self.metrics_port)
        await client.send("GET", "/metrics")
        answer = await client.answer()
        await client.closed()
        assert answer.status == 200
        return Scrape(answer.body.decode())

    # --- looking

    @property
    def workers(self):
        """The registered workers."""
        return self.gateway.registry.snapshot.workers

    def worker(self, engine):
        """The registered worker of an engine."""
        return self.gateway.registry.snapshot.by_url[engine.url]

    def set_status(self, engine, status):
        """Move a worker to another status, as probes would."""
        worker = self.worker(engine)
        assert self.gateway.registry.set_status(worker.id, status, worker.revision)

    @property
    def loads(self):
        """What every worker there is or was has in flight."""
        return [worker.load for worker in self.known]

    @property
    def permits(self):
        """Admission permits that are out, and requests that wait for one."""
        gate = self.gateway.admission.gate
        return (0, 0) if gate is None else (gate.in_flight, gate.waiting)

    @property
    def in_flight(self):
        return self.gateway.in_flight

    @property
    def upstream_connections(self):
        """Connections to workers that carry an exchange."""
        return sum(pool.busy for pool in self.gateway.upstream.pools)

    @property
    def at_rest(self):
        """Whether nothing at all is under way."""
        busy = (*self.loads, *self.permits, self.in_flight, self.upstream_connections)
        return not any(busy) and not self.gateway.accounts.under_way

    async def settled(self):
        """Wait until nothing is under way: every lease, permit and connection has come back."""
        await until(lambda: self.at_rest, "rest at the gateway")

    async def registered(self, count):
        """Wait until so many workers are ready."""
        await until(lambda: len(self.gateway.registry.snapshot.ready) == count, f"{count} ready workers")

    # --- reading

    def log(self):
        """All that was logged so far."""
        self._logs.flush()
        size = os.fstat(self._log_fd).st_size
        return os.pread(self._log_fd, size, 0).decode()

    def access_lines(self, text='path="/v1/chat/completions"'):
        """The access lines that hold a text."""
        return [line for line in self.log().splitlines() if "smg::response" in line and text in line]

    def log_objects(self):
        """The lines of a JSON log."""
        return [json.loads(line) for line in self.log().splitlines()]

    # --- ending

    async def left(self):
        """Let all clients leave, and see everything come back."""
        for client in self._clients:
            await client.closed()
        self._clients.clear()
        await self.settled()

    async def close(self):
        """The same, and end."""
        try:
            await self.left()
        finally:
            await self.gateway.close()


@asynccontextmanager
async def running_gateway(*engines, ready=True, **settings):
    """A gateway in front of engines, all of them registered unless `ready` is false."""
    chosen = Settings(
        **{
            "host": HOST,
            "port": 0,
            "prometheus_host": HOST,
            "prometheus_port": 0,
            "worker_urls": tuple(engine.url for engine in engines),
            **_QUICK,
            **settings,
        }
    )
    with tempfile.TemporaryFile() as log_file:
        secrets = [chosen.api_key] if chosen.api_key else []
        logs = start_logs(level=chosen.log_level, json=chosen.log_json, secrets=secrets, fd=log_file.fileno())
        try:
            gateway = compose(chosen, logs)
            await gateway.start()
            running = RunningGateway(gateway, logs, log_file.fileno())
            try:
                if ready:
                    await running.registered(len(engines))
                yield running
            finally:
                await running.close()
        finally:
            logs.close()
