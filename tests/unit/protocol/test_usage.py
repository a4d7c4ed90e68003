"""What an answer says it used is found, wherever a stream is cut, and nothing that a model writes is taken for it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.protocol.usage import TAIL_BYTES, Usage, usage_of_answer, usage_of_stream


def answer(body, prompts=1):
    return usage_of_answer(body if isinstance(body, bytes) else json.dumps(body).encode(), prompts)


def stream(*events, end=b"data: [DONE]\n\n"):
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + end


def chunk(content=None, **members):
    choices = [] if content is None else [{"index": 0, "delta": {"content": content}}]
    return {"id": "x", "choices": choices, **members}


def meta(prompt, completion, rid="r"):
    return {"id": rid, "prompt_tokens": prompt, "completion_tokens": completion, "finish_reason": None}


USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "prompt_tokens_details": None}


# --- plain answers


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"id": "x", "choices": [{"text": "t" * 9000}], "usage": USAGE}, Usage(9, 2)),
        ({"usage": {"prompt_tokens": 9, "total_tokens": 9}}, Usage(9, 0)),
        ({"usage": {"input_tokens": 4, "output_tokens": 3}}, Usage(4, 3)),
        ({"usage": {"total_tokens": 8}}, Usage(8, 0)),
        ({"usage": {"prompt_tokens": 9, "completion_tokens": None}}, Usage(9, 0)),
        ({"usage": {"completion_tokens": 5}}, Usage(None, 5)),
        ({"text": "t", "meta_info": meta(7, 3)}, Usage(7, 3)),
        ({"usage": {"prompt_tokens": -9, "completion_tokens": -2}}, Usage(0, 0)),
    ],
)
def test_the_usage_of_a_plain_answer(body, expected):
    assert answer(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"usage": None},
        {"usage": {}},
        {"usage": {"prompt_tokens": "9"}},
        {"usage": {"prompt_tokens": 1.5}},
        {"usage": 5},
        [],
        "usage",
        b"",
        b"no JSON",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_an_answer_that_does_not_say(body):
    assert answer(body) is None


def test_the_samples_of_one_prompt_share_it():
    samples = [{"text": "a", "meta_info": meta(7, n)} for n in (1, 2, 3)]
    assert answer(samples) == Usage(7, 6)


def test_the_prompts_of_a_batch_add_up_whatever_the_number_of_samples():
    batch = [{"meta_info": meta(prompt, 1)} for prompt in (7, 3)]
    assert answer(batch, prompts=2) == Usage(10, 2)
    sampled = [{"meta_info": meta(prompt, 1)} for prompt in (7, 7, 3, 3)]
    assert answer(sampled, prompts=2) == Usage(10, 4)


# --- streams


def test_the_last_event_tells():
    assert usage_of_stream(stream(chunk("Hi"), chunk(), chunk(usage=USAGE))) == Usage(9, 2)


def test_of_running_counts_the_last_one_counts():
    counts = [{"prompt_tokens": 9, "completion_tokens": n, "total_tokens": 9 + n} for n in (1, 2, 3)]
    assert usage_of_stream(stream(*[chunk("a", usage=one) for one in counts])) == Usage(9, 3)


def test_an_explicit_null_is_no_usage():
    assert usage_of_stream(stream(chunk("a", usage=USAGE), chunk("b", usage=None))) == Usage(9, 2)
    assert usage_of_stream(stream(chunk("a", usage=None))) is None


def test_a_native_stream_tells_in_its_last_event_even_if_that_is_longer_than_the_tail():
    events = [{"text": "t" * n, "meta_info": meta(7, n)} for n in (1, 20_000)]
    assert usage_of_stream(stream(*events)[-TAIL_BYTES:]) == Usage(7, 20_000)


def test_the_samples_of_a_native_stream_add_up():
    events = [{"text": "t", "index": i, "meta_info": meta(7, n, f"r{i}")} for n in (1, 2) for i in (0, 1)]
    assert usage_of_stream(stream(*events)) == Usage(7, 4)


@pytest.mark.parametrize(
    "tail", [b"", b"data: [DONE]\n\n", b'"usage":', b'"usage": {', b'"usage": {"prompt_tokens": 1']
)
def test_a_tail_that_does_not_say(tail):
    assert usage_of_stream(tail) is None


@given(st.text(max_size=60), st.integers(0, 200))
def test_what_a_model_writes_is_never_taken_for_usage(text, cut):
    liar = f'{text}"usage": {{"prompt_tokens": 0, "completion_tokens": 0}} "meta_info": {{"prompt_tokens": 1}}'
    whole = stream(chunk(usage=USAGE), chunk(liar), chunk({"deep": liar}))
    assert usage_of_stream(whole) == Usage(9, 2)
    assert usage_of_stream(stream(chunk(liar), chunk(liar))[cut:]) is None


@given(st.integers(0, 2000), st.text(max_size=30))
def test_wherever_the_tail_begins_before_it_the_usage_is_found(cut, text):
    before = stream(*[chunk(text)] * 30, end=b"")
    assert usage_of_stream(before[min(cut, len(before)) :] + stream(chunk(usage=USAGE))) == Usage(9, 2)
