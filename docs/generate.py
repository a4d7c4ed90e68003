"""Write the reference pages from the tables of the code: `python docs/generate.py`, which is `make docs`.

A table of the code is the only place where an option, a metric or an error code is described; a page is that table in
Markdown. `reference/` holds whole pages. `behaviour.md` is written by hand except for the block between its markers.
The unit tests compare what is committed with what this makes.
"""  # noqa: INP001  docs/ is a folder of pages, not a package

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from smg.config.reference import render as options_page
from smg.errors import ERROR_KINDS, ErrorKind
from smg.telemetry.exposition import QUANTILES
from smg.telemetry.families import MAX_CHILDREN, MAX_LABEL_CHARS, MAX_NAMED_VALUES
from smg.telemetry.instruments import SUMMARY_WINDOW
from smg.telemetry.metrics import DURATION_BUCKETS_SECS, RATIO_BUCKETS, TABLE, Row

DOCS: Final = Path(__file__).resolve().parent

_BEGIN: Final = "<!-- errors:begin -->"
_END: Final = "<!-- errors:end -->"

# What a code tells whoever receives it, and what to do. The rest of its row is in `ERROR_KINDS`.
MEANINGS: Final = {
    "request_body_aborted": "The request body ended early, or broke its own chunked framing. Send it again, whole.",
    "unauthorized": "No credential, or not this gateway's. The answer has a `WWW-Authenticate`, no code header, and no "
    "body, or for the control plane's own credentials a sentence of plain text.",
    "forbidden": "A credential of the control plane whose role is not `admin`. The answer is a sentence of plain text.",
    "missing_model": "A call to `POST /v1/realtime/calls` names no model: in its query, or in the session of its form. "
    "Other routes report a missing `model` as a parse failure.",
    "invalid_content_type": "A call to `POST /v1/realtime/calls` is neither `application/sdp` nor "
    "`multipart/form-data`.",
    "invalid_multipart": "The form of such a call announces no boundary that can be used.",
    "malformed_multipart": "The form of such a call cannot be read to its end, or has a field twice.",
    "missing_sdp": "Such a call has no session description, or an empty one.",
    "invalid_sdp": "The session description of such a call is not one: it is not UTF-8, or does not begin with `v=0`.",
    "invalid_session_json": "The `session` in the form of such a call is no JSON object.",
    "unknown_url": "No route has this path.",
    "model_not_found": "No worker serves this model, and the name is no alias.",
    "method_not_allowed": "The path exists, the method does not. `Allow` lists those that do.",
    "request_body_stalled": "No byte of the request body came for `--stream-body-stall-timeout-secs`.",
    "request_body_too_large": "The request body exceeds `--max-payload-size`.",
    "admission_queue_full": "All places are taken and the queue is full, or the rate is reached. Come back later.",
    "admission_queue_timeout": "The request waited for `--queue-timeout-secs` and got no place.",
    "scheduler_queue_full": "The queue of the request's class is full, or the rate is reached. Come back later.",
    "scheduler_queue_timeout": "The request waited as long as its class allows and got no slot.",
    "scheduler_preempted": "A request of a higher class took the slot before anything was answered. The answer carries "
    "`X-SMG-Preempted: true`; send the request again.",
    "scheduler_client_cancelled": "Never sent: the client left while it waited for a slot. The access line says so.",
    "tenant_rate_limit_exceeded": "The tenant has used up its tokens or requests of a minute. `Retry-After` says when "
    "they suffice again; without it the request alone asks for more than a minute holds.",
    "no_available_workers": "Workers serve this model, but none may take a request now: not ready, breaker open, "
    "overloaded beside others that are out, or the policy selects none of them. Also: the request names no model and "
    "no worker is registered.",
    "service_unavailable": "Workers serve this model, but none of those with the label `realtime` may take a session "
    "now, or none has that label.",
    "no_workers": "A route that passes a question on to one worker (`GET /get_server_info` and its like) found none.",
    "unsupported_decisions_request": "An SGLang worker was chosen for a Decisions request that asks for what SGLang "
    "cannot do; the message says what.",
    "decisions_not_supported": "Workers serve this model, but none that can answer Decisions.",
    "audio_transcriptions_not_supported": "Workers serve this model, but none that takes recordings: halves of split "
    "engines and external providers do not.",
    "responses_not_supported": "No worker for this model speaks the Responses API. Providers that are known by name or "
    "host are not asked for what they do not have.",
    "messages_not_supported": "The same of Anthropic's Messages API.",
    "count_tokens_not_supported": "The same of counting tokens in that API.",
    "interactions_not_supported": "The same of Google's Interactions API, which no engine of the fleet speaks either.",
    "dp_aware_not_supported": "Only data-parallel ranks serve this model. A rank is named in a JSON body, which a form "
    "is not.",
    "realtime_request_failed": "The worker that was chosen for a realtime route could not be reached, broke its answer "
    "off, or answered an upgrade with what is no handshake.",
    "no_compatible_pd_pair": "Prefill and decode workers are registered, and none of the first fits any of the second: "
    "their engines, KV connectors or cache layouts differ.",
    "worker_overload_protection_shed": "All workers that could take the request are overloaded and otherwise well. Not "
    "tried again: come back after `Retry-After`, which is `--load-monitor-interval` in whole seconds.",
    "call_upstream_connection_failed": "The worker could not be connected to.",
    "call_upstream_request_error": "The worker closed the connection before it answered, or its answer is no HTTP/1.1.",
    "call_upstream_timeout": "The worker did not accept a connection in time, or the exchange took longer than "
    "`--request-timeout-secs`.",
    "read_response_body_failed": "The worker broke its answer off. Of a stream that has begun the client gets an error "
    "event instead.",
    "upstream_response_too_large": "The worker's answer exceeds `--max-payload-size` and is no stream.",
    "invalid_decisions_response": "An SGLang worker answered a Decisions request with what cannot be relied on.",
    "prefill_request_failed": "The prefill worker could not be reached, or broke its answer off. "
    "The status is 504 if it was late.",
    "prefill_bad_request": "An SGLang prefill engine answered 400; the message quotes it.",
    "prefill_internal_error": "An SGLang prefill engine answered 500; the message quotes it.",
    "prefill_unavailable": "An SGLang prefill engine answered 503; the message quotes it.",
    "prefill_upstream_error": "A prefill engine answered with another error, or is no SGLang engine. "
    "The status is the engine's; the message quotes it.",
    "decode_request_failed": "The decode worker could not be reached, or broke its answer off. "
    "The status is 504 if it was late. What it answers itself is relayed.",
    "embeddings_not_supported": "Workers come in prefill/decode pairs, and embeddings cannot be made in two halves.",
    "classify_not_supported": "Workers come in prefill/decode pairs, and a text cannot be classified in two halves.",
    "internal_error": "A fault of the gateway. The log has the traceback under the request's path.",
}

_ERRORS_INTRODUCTION: Final = """\
# Errors

<!-- Generated by `python docs/generate.py`; change the table in `src/smg/errors.py` instead. -->

What the gateway decides itself is an envelope with the status's reason phrase as `type`. Its code is repeated in the
header `X-SMG-Error-Code`, which no worker can send through the gateway: with the header an error is the gateway's,
without it the worker's or the request's.

```json
{"error": {"type": "Not Found", "code": "model_not_found", "message": "no worker serves the model 'x'", "param": null}}
```

*Fault* says who is to blame: `downstream` is the client's side, `upstream` the worker's. *Tried again* says whether the
gateway makes another attempt, while there is one left, before a client sees the code.
"""

_ERRORS_CLOSING: Final = """\
## Requests that are refused for what they say

A body that is not the request of its route, or that breaks a rule, is answered with status 400, in OpenAI's shape and
without the code header. `code` tells the two apart.

| `code` | meaning |
|---|---|
| `"json_parse_error"` | no `application/json`, no UTF-8, no JSON; a member missing or of a wrong type; two `model` |
| `400` | a value out of its range, or two members that contradict each other; all are named, joined with `; ` |

```json
{"error": {"message": "n: must be between 1 and 10, got 0", "type": "invalid_request_error", "code": 400}}
```

A violation begins with the member it is about. Rules over several members begin with `__all__`.

## Requests that are not HTTP

A head that is not strict HTTP/1.1 is answered in plain text, with 400, 414 (request target too long), 431 (head too
large, too many headers), 501 (a transfer coding other than `chunked`) or 505 (another version of HTTP), and the
connection ends.

## Answers of a worker

A worker's error is relayed as it is: status, body and headers, without `X-SMG-Error-Code`.

The worker API has codes of its own, see [Workers](../guides/workers.md#errors), and so has the RL control plane, see
[RL](../guides/rl.md#refusals).
"""

_METRICS_INTRODUCTION: Final = """\
# Metrics

<!-- Generated by `python docs/generate.py`; change the table in `src/smg/telemetry/metrics.py` instead. -->

`GET /metrics` on the metrics listener (`--prometheus-host`, `--prometheus-port`) answers in Prometheus' text format.
A series appears with its first record and ends with its worker.
"""

_METRICS_CLOSING: Final = """\
## Bounds

Label values come from outside, so they are bounded. A metric has at most {children} series; later label sets are
counted under `other`. `model` takes {named} values over the life of a process, then `other`. A method outside the
usual seven is `OTHER`. A value is cut at {chars} characters.

Histograms of durations share one set of buckets, which `--prometheus-duration-buckets` replaces (seconds):
{durations}.

Histograms of ratios have the buckets {ratios}.

Summaries give the quantiles {quantiles} over their newest {window} observations.
"""

# Heading, and what the names under it begin with. The first that fits decides.
_GROUPS: Final = (
    ("HTTP", ("smg_http_",)),
    ("Admission", ("smg_admission_",)),
    ("Priority scheduler", ("smg_scheduler_",)),
    ("Inference requests", ("smg_router_",)),
    ("Engine load and overload", ("smg_engine_", "smg_workers_overloaded", "smg_worker_overload_")),
    ("Workers", ("smg_worker_",)),
    ("Discovery", ("smg_discovery_",)),
    ("Prefill/decode pairs", ("smg_pd_",)),
    ("RL control plane", ("smg_rl_",)),
    ("Routing", ("smg_",)),
)


def pages() -> dict[Path, str]:
    """Every generated page, by its place below `docs/`."""
    behaviour = Path("behaviour.md")
    return {
        Path("reference/options.md"): options_page(),
        Path("reference/metrics.md"): metrics_page(),
        Path("reference/errors.md"): errors_page(),
        behaviour: with_block((DOCS / behaviour).read_text(encoding="utf-8"), errors_table()),
    }


def errors_page() -> str:
    """The page of error codes. Raises KeyError for a code that has no meaning here."""
    heads = ("code", "status", "fault", "tried again", "`Retry-After`", "meaning")
    rows = [(*_error_facts(code, kind), MEANINGS[code]) for code, kind in ERROR_KINDS.items()]
    return "\n".join([_ERRORS_INTRODUCTION, table(heads, rows), _ERRORS_CLOSING])


def errors_table() -> str:
    """The codes in short, for the page of promises."""
    heads = ("code", "status", "fault", "tried again", "`Retry-After`")
    return table(heads, [_error_facts(code, kind) for code, kind in ERROR_KINDS.items()])


def metrics_page() -> str:
    """The page of metrics, by subject."""
    blocks = [_METRICS_INTRODUCTION]
    left = list(TABLE)
    for title, prefixes in _GROUPS:
        members = [row for row in left if row.name.startswith(prefixes)]
        left = [row for row in left if row not in members]
        blocks.append(f"## {title}\n\n{table(('metric', 'type', 'labels', 'meaning'), map(_metric_facts, members))}")
    assert not left, "a metric of another prefix needs a heading"
    return "\n".join([*blocks, _bounds()])


def with_block(text: str, block: str) -> str:
    """A page with what stands between its markers replaced. Raises ValueError if it has not exactly one pair."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end or _BEGIN in rest or _END in after:
        raise ValueError(f"the page must have {_BEGIN} and {_END} once each")
    return f"{before}{_BEGIN}\n{block}{_END}{after}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, a line a row."""
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    lines.insert(1, "|" + "---|" * len(heads))
    return "\n".join(lines) + "\n"


def _error_facts(code: str, kind: ErrorKind) -> tuple[str, ...]:
    retry_after = f"{kind.retry_after_secs} s" if kind.retry_after_secs else ""
    return f"`{code}`", str(kind.status), kind.source, "yes" if kind.retryable else "no", retry_after


def _metric_facts(row: Row[object]) -> tuple[str, ...]:  # type: ignore[type-var]  # of any kind
    return f"`{row.name}`", row.kind, ", ".join(f"`{name}`" for name in row.label_names), row.help


def _bounds() -> str:
    return _METRICS_CLOSING.format(
        children=f"{MAX_CHILDREN:,}",
        named=f"{MAX_NAMED_VALUES:,}",
        chars=MAX_LABEL_CHARS,
        durations=_listed(DURATION_BUCKETS_SECS),
        ratios=_listed(RATIO_BUCKETS),
        quantiles=_listed(QUANTILES),
        window=SUMMARY_WINDOW,
    )


def _listed(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def main() -> None:
    """Write every page."""
    for place, text in pages().items():
        (DOCS / place).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
