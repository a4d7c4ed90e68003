import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.control.rl.answers import (
    LARGE_BYTES,
    MAX_NESTING,
    Failed,
    Report,
    announces_json,
    answered,
    is_readable_json,
)
from smg.control.rl.refusals import Refusal
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.worker import Worker
from smg.net.capture import Captured


async def whole(report):
    """A report as it arrives."""
    return b"".join([piece async for piece in report.pieces()])


@pytest.fixture
def envelope(make_worker, captured, show):
    def of(*args, **options):
        return show(answered(make_worker(), captured(*args, **options), 0.0079).envelope)

    return of


def nested(levels):
    return b"[" * levels + b"]" * levels


def test_an_envelope_says_who_answered_what_and_how_fast(envelope):
    assert envelope(404, b'{"detail": "no"}') == {
        "worker_id": "a",
        "url": "http://a",
        "status": 404,
        "latency_ms": 7,
        "body": {"detail": "no"},
    }


@pytest.mark.parametrize(
    "kind",
    [
        b"application/json",
        b"Application/JSON ; charset=utf-8",
        b"text/json",
        b"application/problem+json",
        b"x/a+JSON;q",
    ],
)
def test_what_is_json(kind):
    assert announces_json(kind)


@pytest.mark.parametrize(
    "kind",
    [b"", b"text/plain", b"json", b"application/jsonl", b"application/x-ndjson", b"text/plain;x=application/json"],
)
def test_what_is_not(kind):
    assert not announces_json(kind)


def test_json_keeps_its_spelling(make_worker, captured):
    body = b'{"n":1.50,"big":123456789012345678901234567890,"n":"\\u00e9"}'
    assert b'"body":' + body + b"}" in answered(make_worker(), captured(200, body), 0).envelope


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"Flushed.\n", "Flushed.\n"),
        (b"", ""),
        ("über".encode(), "über"),
        (b"\xff\x00a", "\ufffd\x00a"),
        (b'"quoted" \\', '"quoted" \\'),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    ],
)
def test_anything_but_json_is_a_string(envelope, body, shown):
    assert envelope(200, body, b"text/plain")["body"] == shown


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"a":',
        b"{'a':1}",
        b"[1,]",
        b"NaN",
        b"1 2",
        b"\xef\xbb\xbf{}",
        b'"\\ud800"',
        b'"a\nb"',
        b"1e999",
        b'{"a":[0.1E+400]}',
        b"1e0000000999",
        b"1" + b"0" * 250 + b"e99",
        b"9" * 5000,
        nested(MAX_NESTING + 1),
        nested(100_000),
    ],
)
def test_json_that_some_readers_refuse_is_a_string(envelope, body):
    assert not is_readable_json(body)
    assert envelope(200, body)["body"] == body.decode()


def test_json_with_broken_text_is_a_string(envelope):
    assert envelope(200, b'"\xff"')["body"] == '"\ufffd"'


@pytest.mark.parametrize(
    "body",
    [
        b" null ",
        b'"text"',
        b"0",
        b"[[],{}]",
        b"1e308",
        b"[1e-999,1e+05]",
        b'"1e999"',
        b"1." + b"0" * 5000,
        nested(MAX_NESTING),
        b"[" + b"[]," * 1000 + b"0]",
        b'"' + b"[" * 1000 + b'"',
        b'["' + b'\\"[' * 1000 + b'","' + b"{" * 1000 + b'"]',
    ],
)
def test_json_that_everybody_reads_is_json(envelope, body):
    assert is_readable_json(body)
    assert envelope(200, body)["body"] == json.loads(body)


numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
texts = st.text('ab"\\[]{}é\ud800e+0', max_size=6).map(json.dumps)
literals = (
    numbers | texts | st.sampled_from(["null", "true", '"\\ud83d\\ude00"', '"\\udc00"', "1" * 400, "1." + "1" * 400])
)
documents = st.recursive(
    literals,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | inner.map(lambda item: f'{{"a": {item}}}')
    ),
)


@given(documents | st.text('[]{}",:\\1e9 né', max_size=20))
def test_what_is_readable_is_what_a_strict_reader_takes_whole(document):
    body = document.encode("utf-8", "surrogatepass")
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        assert not is_readable_json(body)
    else:
        assert is_readable_json(body)


@given(
    st.binary(max_size=40) | st.text('[]{}",:\\1e9 né', max_size=20).map(str.encode),
    st.sampled_from([b"application/json", b"text/plain", b"\xff"]),
    st.booleans(),
)
def test_whatever_an_engine_answers_the_envelope_is_json(body, kind, truncated):
    worker = Worker("a", "http://a", "http://a", Breaker(BreakerOptions()))
    row = json.loads(answered(worker, Captured(200, kind, body, truncated), 0).envelope)
    assert set(row) - {"body_truncated"} == {"worker_id", "url", "status", "latency_ms", "body"}
    if truncated or kind != b"application/json":
        assert row["body"] == body.decode("utf-8", "replace")


def test_what_was_cut_is_a_string_and_says_so(envelope):
    row = envelope(200, b'{"a":1}', truncated=True)
    assert (row["body"], row["body_truncated"]) == ('{"a":1}', True)
    assert "body_truncated" not in envelope(200, b'{"a":1}')


def test_a_character_that_was_split_is_replaced(envelope):
    assert envelope(200, b"a\xf0\x9f\x98", b"text/plain", truncated=True)["body"] == "a\ufffd"


@pytest.fixture
def report(make_worker, captured):
    def of(**by_name):
        """A status, or a code, for each worker."""
        return Report(
            [
                answered(make_worker(name), captured(result), 1)
                if isinstance(result, int)
                else Failed(make_worker(name), Refusal(result, "why"))
                for name, result in by_name.items()
            ]
        )

    return of


async def test_a_fan_out_in_which_everybody_did_well_is_complete(report, show):
    done = report(b=200, a=204)
    assert (done.status, done.total, done.succeeded, done.complete) == (200, 2, 2, True)
    body = show(await whole(done))
    assert (list(body), list(body["results"]), body["failed"]) == (
        ["results", "failed", "total", "succeeded"],
        ["a", "b"],
        [],
    )


@pytest.mark.parametrize("result", [199, 300, 404, 500, "upstream_timeout"])
def test_one_that_did_not_makes_it_partial(report, result):
    assert report(a=200, b=result).status == report(a=result).status == 207


async def test_failures_are_sorted_and_those_that_answered_are_among_the_results(report, show, make_worker):
    done = report(c=500, b="upstream_unreachable", d=200, a="upstream_timeout")
    body = show(await whole(done))
    assert body["failed"] == [
        {"worker_id": "a", "url": "http://a", "error": "upstream_timeout", "message": "why"},
        {"worker_id": "b", "url": "http://b", "error": "upstream_unreachable", "message": "why"},
        {"worker_id": "c", "url": "http://c", "error": "upstream_error", "message": "HTTP 500", "status": 500},
    ]
    assert list(body["results"]) == ["c", "d"]
    assert (body["total"], body["succeeded"]) == (4, 1)


@pytest.mark.parametrize(
    "by_name", [{}, {"b": 200, "a": 500}, {"a": "upstream_timeout"}, {"c": 200, "b": "x", "a": 207}]
)
async def test_a_report_is_the_same_as_a_whole_and_in_pieces(report, by_name):
    done = report(**by_name)
    assert done.whole() == await whole(done)


async def test_a_report_with_a_large_answer_is_better_sent_in_pieces(report, make_worker, captured, show):
    done = report(a=200, c=200)
    done.add(answered(make_worker("b"), captured(200, b'"' + b"x" * LARGE_BYTES + b'"'), 1))
    assert done.whole() is None
    assert list(show(await whole(done))["results"]) == ["a", "b", "c"]


async def test_what_goes_with_a_code_is_in_its_row(make_worker, show):
    refusal = Refusal("unsupported_connection_mode", "no", connection_mode="grpc")
    (row,) = show(await whole(Report([Failed(make_worker(), refusal)])))["failed"]
    assert row["connection_mode"] == "grpc"
    assert "status" not in row
