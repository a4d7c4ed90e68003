"""What the gateway's own figures say of it, and what the kernel says of its process."""

import http.client
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from bench import procfs
from bench.gateways import Gateway

_SAMPLE = re.compile(r"^(?P<name>\w+)(?:\{.*\})? (?P<value>\S+)$", re.MULTILINE)
# What Python and its event loop write when something was forgotten or went wrong unforeseen.
_COMPLAINT = re.compile(
    r"Traceback|Task was destroyed|never retrieved|was never awaited|unhandled|unclosed|Exception ignored",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Witness:
    gateway: Gateway

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One call of the gateway's API: status and JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=10)
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        status, text = answer.status, answer.read()
        connection.close()
        return status, json.loads(text) if text else None

    def workers(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.call("GET", "/workers")[1]["workers"]
        return rows

    def ready_workers(self) -> int:
        return int(self.call("GET", "/readiness")[1].get("healthy_workers", 0))

    def metrics(self) -> dict[str, float]:
        """The sum of each metric's series."""
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.metrics_port, timeout=10)
        connection.request("GET", "/metrics")
        sums: dict[str, float] = defaultdict(float)
        for sample in _SAMPLE.finditer(connection.getresponse().read().decode()):
            sums[sample["name"]] += float(sample["value"])
        connection.close()
        return sums

    def sockets(self) -> int:
        return procfs.sockets(self.gateway.pid)

    def threads(self) -> int:
        return procfs.threads(self.gateway.pid)

    def complaints(self) -> tuple[str, ...]:
        """The lines of its log that no gateway should write."""
        with self.gateway.log.open(errors="replace") as lines:
            return tuple(line.strip() for line in lines if _COMPLAINT.search(line))
