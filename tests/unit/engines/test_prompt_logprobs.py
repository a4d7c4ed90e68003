import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.engines.prompt_logprobs import asks_for_logprobs, with_prompt_logprobs


def answer(*logprobs, text="hello", **info):
    return {"text": text, "meta_info": {"id": "x", "input_token_logprobs": list(logprobs), **info}}


def joined(ours, theirs):
    return json.loads(with_prompt_logprobs(json.dumps(ours).encode(), json.dumps(theirs).encode()))


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        (b'{"return_logprob": true}', True),
        (b'{"return_logprob": [false, true]}', True),
        (b'{"return_logprob": [false]}', False),
        (b'{"return_logprob": []}', False),
        (b'{"return_logprob": false}', False),
        (b'{"return_logprob": null}', False),
        (b'{"return_logprob": "yes"}', False),
        (b'{"return_logprob": 1}', False),
        (b"{}", False),
    ],
)
def test_a_batch_asks_if_one_of_it_does(body, asked):
    assert asks_for_logprobs(body) is asked


def test_prefill_s_come_first():
    assert joined(answer([3, 3, None]), answer([1, 1, None], [2, 2, None])) == answer(
        [1, 1, None], [2, 2, None], [3, 3, None]
    )


def test_an_answer_without_any_gets_prefill_s():
    for nothing in ({"id": "x"}, {"id": "x", "input_token_logprobs": None}, {"id": "x", "input_token_logprobs": []}):
        ours = {"text": "hello", "meta_info": nothing}
        assert joined(ours, answer([1, 1, None])) == answer([1, 1, None])


def test_a_batch_is_joined_item_by_item():
    ours = [answer([2, 2, None]), answer([4, 4, None])]
    assert joined(ours, [answer([1, 1, None]), answer([3, 3, None])]) == [
        answer([1, 1, None], [2, 2, None]),
        answer([3, 3, None], [4, 4, None]),
    ]


def test_numbers_and_all_else_keep_their_spelling():
    ours = b'{"text":"a","meta_info":{"e2e":1.0e-3,"input_token_logprobs":[[-0.10, 7 ,null]],"z":1},"more":[1,  2]}'
    theirs = b'{"meta_info":{"input_token_logprobs":[ [null,1,"a"],[-1.50E0,2,null] ]}}'
    spliced = (
        b'{"text":"a","meta_info":{"e2e":1.0e-3,"input_token_logprobs":'
        b'[[null,1,"a"],[-1.50E0,2,null],[-0.10, 7 ,null]],"z":1},"more":[1,  2]}'
    )
    assert with_prompt_logprobs(ours, theirs) == spliced


WHOLE = json.dumps(answer([1, 1, None])).encode()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (b"no JSON", WHOLE),
        (b"", WHOLE),
        (WHOLE, b"no JSON"),
        (WHOLE, b""),
        (WHOLE, b"[]"),
        (WHOLE, b'{"text": "no meta_info"}'),
        (WHOLE, b'{"meta_info": 5}'),
        (WHOLE, b'{"meta_info": {"input_token_logprobs": null}}'),
        (WHOLE, b'{"meta_info": {"input_token_logprobs": {"a": 1}}}'),
        (b'{"text": "no meta_info"}', WHOLE),
        (b'{"meta_info": "text"}', WHOLE),
        (b"[%b]" % WHOLE, WHOLE),
        (b"[%b, %b]" % (WHOLE, WHOLE), b"[%b]" % WHOLE),
        (b"[1]", b"[1]"),
    ],
)
def test_an_answer_that_looks_otherwise_stays_as_it_is(ours, theirs):
    assert with_prompt_logprobs(ours, theirs) is ours


entries = st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.integers(), st.none()), max_size=4)


@given(st.lists(st.tuples(entries, entries), max_size=4), st.booleans())
def test_every_entry_is_there_once_in_order(pairs, batch):
    pairs = pairs if batch else pairs[:1] or [([], [])]
    ours = [answer(*after) for after, _ in pairs]
    theirs = [answer(*before) for _, before in pairs]
    found = joined(ours, theirs) if batch else [joined(ours[0], theirs[0])]
    expected = [answer(*before, *after) for after, before in pairs]
    assert found == json.loads(json.dumps(expected))
