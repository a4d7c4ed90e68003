import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.sim.output import Output, Sampling, Writer, logprob, sampling_for, splice, token_id
from smg.sim.prompt import text_prompt

PROMPT = text_prompt("Tell me a story.")
WRITER = Writer("model", 0)


NATURAL = Sampling(20)


def write(sampling=NATURAL, *, prompt=PROMPT, choice=0, version="v1", writer=WRITER):
    return writer.write(prompt, sampling, choice, version)


def test_the_same_question_gets_the_same_answer_from_every_engine_of_a_model():
    assert write(writer=Writer("model", 0)).text == write(writer=Writer("model", 0)).text


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": text_prompt("Something else.")},
        {"choice": 1},
        {"version": "v2"},
        {"writer": Writer("model", 1)},
        {"writer": Writer("other", 0)},
        {"sampling": Sampling(20, seed=7)},
    ],
)
def test_prompt_choice_weights_seed_and_model_change_the_answer(change):
    assert write(**change).text != write().text


def test_an_answer_of_natural_length_ends_its_sentence():
    output = write(Sampling(20, "stop"))
    assert (output.tokens, len(output.text), output.finish) == (20, 80, "stop")
    assert output.text.endswith(".")


def test_an_answer_cut_by_its_limit_is_the_beginning_of_a_longer_one():
    short, long = write(Sampling(5, "length")), write(Sampling(50, "length"))
    assert short.finish == "length"
    assert long.text.startswith(short.text)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"max_tokens": None}, (10, "stop")),
        ({"max_tokens": 4}, (4, "length")),
        ({"max_tokens": 10}, (10, "stop")),
        ({"max_tokens": 99}, (10, "stop")),
        ({"max_tokens": 99, "min_tokens": 20}, (20, "stop")),
        ({"max_tokens": 15, "min_tokens": 20}, (15, "length")),
        ({"max_tokens": 99, "ignore_eos": True}, (99, "length")),
        ({"max_tokens": None, "ignore_eos": True}, (10, "length")),
        ({"max_tokens": 0}, (0, "length")),
    ],
)
def test_limits_decide_length_and_finish(asked, expected):
    sampling = sampling_for(10, **asked)
    assert (sampling.limit_tokens, sampling.finish) == expected


def test_a_stop_string_cuts_the_text_before_it():
    whole = write(Sampling(50)).text
    stop = whole[101:107]
    output = write(Sampling(50, stops=("never seen", stop)))
    at = whole.find(stop)
    assert output.text == whole[:at]
    assert (output.finish, output.matched) == ("stop", stop)
    assert output.tokens == (at + len(stop) - 1) // 4 + 1


def test_of_several_stop_strings_the_one_complete_first_wins():
    whole = write(Sampling(50)).text
    early, late = whole[20:24], whole[10:40]
    assert write(Sampling(50, stops=(late, early))).matched == early


@given(st.integers(0, 20), st.integers(0, 20))
def test_pieces_join_to_the_text_under_any_split(first, second):
    output = write()
    a, b = sorted((first, second))
    pieces = output.pieces(0, a) + output.pieces(a, b) + output.pieces(b, output.tokens)
    assert "".join(pieces) == output.text
    assert len(output.pieces(a, b)) == b - a


def test_tokens_hidden_by_a_stop_string_have_no_piece():
    whole = write(Sampling(50)).text
    output = write(Sampling(50, stops=(whole[8:40],)))
    assert output.tokens == 10
    assert output.pieces(0, 10) == [whole[0:4], whole[4:8]]


def test_new_weights_write_the_rest_of_an_answer():
    old, new = write(version="v1"), write(version="v2")
    mixed = splice(old, new, 8)
    assert mixed.text == old.text[:32] + new.text[32:]
    assert splice(old, new, 0) is new


def test_an_answer_that_new_weights_would_have_ended_earlier_ends_now():
    assert splice(write(), Output("abc", 3, "stop", "x"), 8).tokens == 8


def test_the_memo_does_not_grow_without_bound():
    writer = Writer("model", 0)
    for number in range(3000):
        write(Sampling(1), choice=number, writer=writer)
    assert len(writer._memo) <= 1024


def test_token_ids_and_log_probabilities_belong_to_the_token():
    assert token_id("tide") == token_id("tide") != token_id("ston")
    assert -1 < logprob("tide") <= 0
    assert logprob("tide", 2) < logprob("tide", 1) < logprob("tide")
