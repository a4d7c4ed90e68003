"""What the gateway's own figures say of it, and what the kernel says of its process."""

import http.client
import json
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from bench import procfs
from bench.gateways import Gateway

_LOOKS, _LOOK_SECS = 10, 0.05
_SAMPLE = re.compile(r"^(?P<series>(?P<name>\w+)(?:\{.*\})?) (?P<value>\S+)$", re.MULTILINE)
_PASSED_THROUGH = re.compile(r'smg_router_request_body_path_total\{.*path="streamed".*\}')
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
        """The value of each series, and by the metric's name the sum of all that it has."""
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.metrics_port, timeout=10)
        connection.request("GET", "/metrics")
        sums: dict[str, float] = defaultdict(float)
        for sample in _SAMPLE.finditer(connection.getresponse().read().decode()):
            sums[sample["name"]] += float(sample["value"])
            if sample["series"] != sample["name"]:
                sums[sample["series"]] = float(sample["value"])
        connection.close()
        return sums

    def efforts(self) -> str:
        """What the gateway did beyond the ordinary, in a sentence."""
        metrics = self.metrics()
        passed = sum(value for series, value in metrics.items() if _PASSED_THROUGH.match(series))
        return (
            f"{metrics['smg_worker_retries_total']:,.0f} further attempts, "
            f"{metrics['smg_router_upstream_send_retries_total']:,.0f} requests sent again on a fresh connection, "
            f"{passed:,.0f} bodies passed through unread"
        )

    def sockets(self) -> int:
        """The fewest of a few looks: probes, and calls like those of this class, come and go."""
        looks = []
        for _ in range(_LOOKS):
            time.sleep(_LOOK_SECS)
            looks.append(procfs.sockets(self.gateway.pid))
        return min(looks)

    def threads(self) -> int:
        """Those that metrics are written with included, which start with the first scrape."""
        self.metrics()
        return procfs.threads(self.gateway.pid)

    def complaints(self) -> tuple[str, ...]:
        """The lines of its log that no gateway should write."""
        with self.gateway.log.open(errors="replace") as lines:
            return tuple(line.strip() for line in lines if _COMPLAINT.search(line))
