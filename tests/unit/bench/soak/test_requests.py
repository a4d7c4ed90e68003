"""What a client makes of the answer it gets."""

import json
import random

import pytest
from bench import wire
from bench.soak.accounts import REFUSED, SPOILED, WHOLE, WRONG
from bench.soak.requests import Author, Request, judge


def written(kind: str, number: int = 7) -> Request:
    return Author(random.Random(1), 8000).write(number, kind)


def plain(rid: str, *texts: str) -> bytes:
    choices = [{"index": at, "message": {"content": text}} for at, text in enumerate(texts)]
    return json.dumps({"id": rid, "choices": choices}).encode()


def stream(rid: str, *pieces: str, end: str = "data: [DONE]\n\n") -> bytes:
    events = [{"id": rid, "choices": [{"delta": {"content": piece}}]} for piece in pieces]
    return ("".join(f"data: {json.dumps(event)}\n\n" for event in events) + end).encode()


def halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def test_the_right_answer_is_whole() -> None:
    request = written("plain")
    assert judge(request, 200, plain(request.rid, *request.expected)) == WHOLE
    request = written("stream")
    assert judge(request, 200, stream(request.rid, *halves(request.expected[0]))) == WHOLE


def test_every_choice_of_an_answer_must_be_right() -> None:
    request = written("large")
    assert len(set(request.expected)) == len(request.expected) == 8
    assert judge(request, 200, plain(request.rid, *request.expected)) == WHOLE
    assert judge(request, 200, plain(request.rid, *reversed(request.expected))) == WRONG


@pytest.mark.parametrize("kind", ["plain", "stream"])
def test_another_requests_id_or_text_is_wrong(kind: str) -> None:
    mine, others = written(kind, 7), written(kind, 8)
    form = {"plain": plain, "stream": stream}[kind]
    assert judge(mine, 200, form(others.rid, others.expected[0])) == WRONG
    assert judge(mine, 200, form(mine.rid, others.expected[0])) == WRONG
    assert judge(mine, 200, form("", mine.expected[0])) == WRONG


def test_an_answer_that_broke_off_is_spoiled_and_what_there_is_must_be_right() -> None:
    request, other = written("stream", 7), written("stream", 8)
    first, _ = halves(request.expected[0])
    assert judge(request, 200, stream(request.rid, first, end="")) == SPOILED
    assert judge(request, 200, stream(request.rid, first, end='data: {"error": {}}\n\ndata: [DONE]\n\n')) == SPOILED
    assert judge(request, 200, stream(request.rid, other.expected[0], end="")) == WRONG
    request = written("plain")
    assert judge(request, 200, plain(request.rid, *request.expected)[:60]) == SPOILED


def test_a_stream_that_ends_well_but_lacks_a_piece_is_wrong() -> None:
    request = written("stream")
    first, _ = halves(request.expected[0])
    assert judge(request, 200, stream(request.rid, first)) == WRONG


def test_an_error_is_a_refusal_unless_it_speaks_of_another_request() -> None:
    request = written("plain", 7)
    assert judge(request, 503, b'{"error": {"message": "no worker"}}') == REFUSED
    assert judge(request, 500, b"soak-0000008 failed") == WRONG


def test_an_upload_passes_through_unread_only_if_its_length_is_known() -> None:
    author = Author(random.Random(1), 8000)
    uploads = [author.write(number, "upload") for number in range(40)]
    for upload in uploads:
        chunked = wire.is_chunked(upload.head)
        assert upload.single is not chunked
        assert upload.body.endswith(wire.LAST_CHUNK) is chunked
        assert len(upload.body) > 100_000
    assert {upload.single for upload in uploads} == {True, False}
