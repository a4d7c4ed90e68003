import json

import pytest

from smg.protocol.body import edit
from smg.protocol.decoding import decode
from smg.protocol.normalising import decimal, normalise
from smg.protocol.requests import ChatRequest, CompletionRequest

CHAT = {"model": "m", "messages": []}


def normalised(**fields):
    body = json.dumps({**CHAT, **fields}).encode()
    request = decode(ChatRequest, body)
    return request, json.loads(edit(body, normalise(request)))


@pytest.mark.parametrize(
    ("sent", "text"),
    [(3, "3"), (50, "50"), (0.5, "0.5"), (-1, "-1"), (1e-7, "0.0000001"), (1e20, "100000000000000000000")],
)
def test_a_numeric_effort_becomes_its_decimal_string(sent, text):
    request, body = normalised(reasoning_effort=sent)
    assert request.reasoning_effort == body["reasoning_effort"] == text


@pytest.mark.parametrize("effort", ["high", "odd", "3", ""])
def test_an_effort_in_words_stays(effort):
    request = decode(ChatRequest, json.dumps({**CHAT, "reasoning_effort": effort}).encode())
    assert normalise(request) == {}
    assert request.reasoning_effort == effort


@pytest.mark.parametrize("unset", [{}, {"max_completion_tokens": None}])
def test_the_deprecated_limit_is_handed_on_under_both_names(unset):
    request, body = normalised(max_tokens=5, **unset)
    assert (body["max_completion_tokens"], body["max_tokens"]) == (5, 5)
    assert request.token_limit == 5


def test_the_new_limit_wins_over_the_deprecated_one():
    request, body = normalised(max_tokens=5, max_completion_tokens=7)
    assert body == {**CHAT, "max_tokens": 5, "max_completion_tokens": 7}
    assert request.token_limit == 7


def test_a_plain_chat_and_any_completion_need_no_edit():
    assert normalise(decode(ChatRequest, json.dumps({**CHAT, "max_completion_tokens": 5}).encode())) == {}
    assert normalise(decode(CompletionRequest, b'{"model": "m", "prompt": "", "max_tokens": 5}')) == {}


def test_a_decimal_string_has_no_exponent():
    assert decimal(1.5e300).isdigit()
