import json
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.engines.systemone import MAX_CHOICES, MAX_LEVELS, InvalidAnswer, Unsupported, read_answers, translate

IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
TEXT = {"type": "input_text", "text": "seen"}
PREDICATE = {"type": "predicate", "instructions": "Is it so?"}
CHOICE = {
    "type": "choice",
    "name": "which",
    "instructions": "Which?",
    "choices": [{"value": "a"}, {"value": True, "description": "not a text"}, {"value": "true"}],
}
SCORE = {
    "type": "score",
    "instructions": "How much?",
    "levels": [{"label": "low"}, {"label": "mid", "description": "so-so"}, {"label": "high"}],
}
QUESTIONS = [PREDICATE, CHOICE, SCORE]
ANSWER = {
    "model": "engine's",
    "answers": {
        "q0": {"type": "noul", "noul": 0.25},
        "q1": {"type": "choice", "choice": "o1", "confidence": 0.4, "probabilities": {"o0": 0.2, "o1": 0.6, "o2": 0.2}},
        "q2": {"type": "score", "score": 1.2, "confidence": 0.1, "probabilities": {"0": 0.1, "1": 0.6, "2": 0.3}},
    },
    "usage": {"input_tokens": 182, "output_tokens": 0},
}


def body(*questions, evidence="It is so.", **members):
    return {"model": "m", "input": evidence, "questions": list(questions), **members}


def user(content, **members):
    return [{"role": "user", "content": content, **members}]


def asked(members):
    return json.loads(translate(json.dumps(members).encode()).body)


def refusal(members):
    with pytest.raises(Unsupported) as caught:
        translate(json.dumps(members).encode())
    return str(caught.value)


def answered(answer, questions=QUESTIONS):
    raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return json.loads(read_answers(questions, raw))


# --- the request


def test_every_question_is_asked_under_a_key_of_its_position():
    assert asked(body(*QUESTIONS, safety_identifier="u")) == {
        "model": "m",
        "state": "It is so.",
        "questions": {
            "q0": {"type": "noul", "instructions": "Is it so?"},
            "q1": {
                "type": "choice",
                "instructions": "Which?",
                "criteria": {
                    "o0": {"value": "a"},
                    "o1": {"value": True, "description": "not a text"},
                    "o2": {"value": "true"},
                },
            },
            "q2": {
                "type": "score",
                "instructions": "How much?",
                "criteria": [{"label": "low"}, {"label": "mid", "description": "so-so"}, {"label": "high"}],
            },
        },
    }


def test_messages_are_handed_on_as_they_are():
    evidence = [*user("a", type="message"), *user([TEXT, TEXT])]
    assert asked(body(PREDICATE, evidence=evidence))["state"] == evidence


def test_questions_may_be_alike():
    assert list(asked(body(PREDICATE, PREDICATE))["questions"]) == ["q0", "q1"]


def test_what_was_asked_is_kept_for_the_answer():
    assert translate(json.dumps(body(*QUESTIONS)).encode()).questions == QUESTIONS


@pytest.mark.parametrize(
    ("members", "place"),
    [
        (body(PREDICATE, extra=None), "request"),
        (body(PREDICATE, stream=False, extra=1), "request"),
        (body(PREDICATE, evidence=user("x", extra=1)), "input message"),
        (body(PREDICATE, evidence=user([TEXT, {**TEXT, "extra": 1}])), "input text part"),
        (body({**PREDICATE, "extra": 1}), "predicate question"),
        (body(PREDICATE, {**CHOICE, "extra": None}), "choice question"),
        (body({**CHOICE, "choices": [{"value": "a"}, {"value": "b", "extra": 1}]}), "choice option"),
        (body({**SCORE, "extra": 1}), "score question"),
        (body({**SCORE, "levels": [{"label": "a", "extra": 1}]}), "score level"),
    ],
)
def test_a_member_that_sglang_does_not_know_is_refused_where_it_stands(members, place):
    message = refusal(members)
    assert message.endswith(f" on {place}")
    assert '"extra"' in message or '"stream"' in message


@pytest.mark.parametrize("question", [{**PREDICATE, "choices": []}, {**CHOICE, "levels": []}, {**SCORE, "choices": []}])
def test_a_member_of_another_kind_of_question_is_unknown_too(question):
    assert "cannot honor field" in refusal(body(question))


def test_a_long_name_is_not_repeated_whole():
    assert len(refusal(body(PREDICATE, **{"x" * 10_000: 1}))) < 200


def test_images_are_refused():
    assert "text evidence only" in refusal(body(PREDICATE, evidence=user([TEXT, IMAGE])))


@pytest.mark.parametrize(
    "evidence", ["", " \n\t", "\u00a0", [], user(""), user([]), user([{**TEXT, "text": " "}]), [*user(" "), *user("")]]
)
def test_evidence_must_not_be_blank(evidence):
    assert "evidence" in refusal(body(PREDICATE, evidence=evidence))


def test_one_text_among_blank_ones_is_evidence():
    asked(body(PREDICATE, evidence=[*user(""), *user([{**TEXT, "text": " "}, TEXT])]))


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("instructions", ["", " \n"])
def test_instructions_must_not_be_blank(question, instructions):
    assert "instructions" in refusal(body(PREDICATE, {**question, "instructions": instructions}))


def test_there_must_be_a_question():
    assert "question" in refusal(body())


def choices(count):
    return {**CHOICE, "choices": [{"value": str(index)} for index in range(count)]}


def levels(count):
    return {**SCORE, "levels": [{"label": str(index)} for index in range(count)]}


@pytest.mark.parametrize(("of", "most"), [(choices, MAX_CHOICES), (levels, MAX_LEVELS)])
def test_possible_answers_are_bounded_on_both_sides(of, most):
    assert (MAX_CHOICES, MAX_LEVELS) == (255, 10)
    for count in (1, most):
        assert len(asked(body(of(count)))["questions"]["q0"]["criteria"]) == count
    for count in (0, most + 1):
        assert f"1 to {most}" in refusal(body(of(count)))


# --- the answer


def test_answers_come_back_in_the_words_of_the_api():
    assert answered(ANSWER) == {
        "model": "engine's",
        "answers": [
            {"type": "predicate", "name": None, "probability": 0.25},
            {
                "type": "choice",
                "name": "which",
                "choice": True,
                "confidence": 0.4,
                "probabilities": [
                    {"value": "a", "probability": 0.2},
                    {"value": True, "probability": 0.6},
                    {"value": "true", "probability": 0.2},
                ],
            },
            {
                "type": "score",
                "name": None,
                "score": 1.2,
                "confidence": 0.1,
                "probabilities": [
                    {"value": 0, "label": "low", "probability": 0.1},
                    {"value": 1, "label": "mid", "probability": 0.6},
                    {"value": 2, "label": "high", "probability": 0.3},
                ],
            },
        ],
        "usage": {
            "input_tokens": 182,
            "output_tokens": 0,
            "total_tokens": 182,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def reversed_members(value):
    if isinstance(value, dict):
        return {name: reversed_members(member) for name, member in reversed(value.items())}
    return value


def test_the_order_of_the_engine_s_members_means_nothing():
    assert answered(reversed_members(ANSWER)) == answered(ANSWER)


def test_what_the_engine_adds_is_left_out():
    added = deepcopy(ANSWER)
    for place in (added, added["usage"], *added["answers"].values()):
        place["x_more"] = {"a": 1}
    added["answers"]["q2"]["legend"] = {"0": "low"}
    assert answered(added) == answered(ANSWER)


def test_whole_numbers_are_numbers():
    certain = {"type": "choice", "choice": "o0", "confidence": 1, "probabilities": {"o0": 1}}
    answer = {**ANSWER, "answers": {"q0": {"type": "noul", "noul": 0}, "q1": certain}}
    predicate, choice = answered(answer, [PREDICATE, choices(1)])["answers"]
    assert predicate["probability"] == 0
    assert choice["probabilities"] == [{"value": "0", "probability": 1}]


def test_a_tie_is_decided_by_the_engine():
    for chosen, value in (("o0", "0"), ("o1", "1")):
        tie = {"type": "choice", "choice": chosen, "confidence": 0, "probabilities": {"o0": 0.5, "o1": 0.5}}
        answer = {**ANSWER, "answers": {"q0": tie}}
        assert answered(answer, [choices(2)])["answers"][0]["choice"] == value


def test_sums_may_be_off_by_what_single_precision_loses():
    off = deepcopy(ANSWER)
    off["answers"]["q1"]["probabilities"]["o0"] += 5e-7
    off["answers"]["q2"]["score"] -= 1.5e-6
    answered(off)
    for question, member, by in (("q1", ("probabilities", "o0"), 2e-6), ("q2", ("score",), 2.5e-6)):
        wrong = deepcopy(ANSWER)
        place = wrong["answers"][question]
        for name in member[:-1]:
            place = place[name]
        place[member[-1]] += by
        with pytest.raises(InvalidAnswer):
            answered(wrong)


REMOVED = Ellipsis
# Where in the answer, and what stands there instead.
BROKEN = [
    (("model",), REMOVED),
    (("model",), None),
    (("answers",), REMOVED),
    (("answers",), []),
    (("answers",), {}),
    (("answers", "q0"), REMOVED),
    (("answers", "q0"), None),
    (("answers", "q0"), 0.25),
    (("answers", "q3"), {"type": "noul", "noul": 0.5}),
    (("answers", "q0", "type"), REMOVED),
    (("answers", "q0", "type"), "predicate"),
    (("answers", "q0", "type"), "score"),
    *[(("answers", "q0", "noul"), value) for value in (REMOVED, None, True, "0.5", [0.5], 1.1, -0.1, 10**400)],
    (("answers", "q1", "type"), "noul"),
    *[(("answers", "q1", "choice"), value) for value in (REMOVED, None, 1, "a", "o3", "o", ["o1"], {}, "o0")],
    *[(("answers", "q1", "confidence"), value) for value in (REMOVED, None, 1.5, -0.5, "0.4", False)],
    (("answers", "q1", "probabilities"), REMOVED),
    (("answers", "q1", "probabilities"), [0.2, 0.6, 0.2]),
    (("answers", "q1", "probabilities", "o0"), REMOVED),
    (("answers", "q1", "probabilities", "o3"), 0.0),
    *[(("answers", "q1", "probabilities", "o0"), value) for value in (None, "0.2", True, -0.2, 0.3)],
    (("answers", "q2", "type"), "choice"),
    *[(("answers", "q2", "score"), value) for value in (REMOVED, None, "1.2", True, 1.3, -0.1, 2.1, 10**400)],
    *[(("answers", "q2", "confidence"), value) for value in (REMOVED, 1.01)],
    (("answers", "q2", "probabilities"), [0.1, 0.6, 0.3]),
    (("answers", "q2", "probabilities", "2"), REMOVED),
    (("answers", "q2", "probabilities", "2"), 0.9),
    (("usage",), REMOVED),
    (("usage",), 182),
    *[(("usage", "input_tokens"), value) for value in (REMOVED, None, -1, 1.5, True, "182", 2**63)],
    *[(("usage", "output_tokens"), value) for value in (REMOVED, None, 1, 0.0, False)],
]


@pytest.mark.parametrize(("place", "value"), BROKEN, ids=lambda part: repr(part)[:40])
def test_an_answer_with_anything_wrong_in_it_is_no_answer(place, value):
    wrong = deepcopy(ANSWER)
    owner = wrong
    for name in place[:-1]:
        owner = owner[name]
    if value is REMOVED:
        del owner[place[-1]]
    else:
        owner[place[-1]] = value
    with pytest.raises(InvalidAnswer):
        answered(wrong)


RAW = json.dumps(ANSWER).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"<html>",
        RAW[:-1],
        RAW + b"x",
        RAW.decode().encode("utf-16"),
        b"\xef\xbb\xbf" + RAW,
        RAW.replace(b"engine", b"\xff"),
        RAW.replace(b"0.25", b"NaN"),
        RAW.replace(b"0.25", b"Infinity"),
        RAW.replace(b"0.25", b"1e999"),
        RAW.replace(b"0.25", b"9" * 5000),
        RAW.replace(b'"noul": 0.25', b'"noul": 0.25, "noul": 0.75'),
        RAW.replace(b'"o0": 0.2', b'"o0": 0.2, "o0": 0.2'),
        RAW[:-1] + b', "x": {"a": 1, "a": 2}}',
        RAW[:-1] + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda raw: repr(raw[:30]),
)
def test_an_answer_that_two_readers_could_read_differently_is_no_answer(raw):
    with pytest.raises(InvalidAnswer):
        answered(raw)


def test_a_model_that_is_no_text_in_utf_8_is_no_answer():
    with pytest.raises(InvalidAnswer):
        answered(RAW.replace(b"engine's", b"\\ud800"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["o0", "noul", "choice"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["q0", "type", "noul", "answers", "o0", "probabilities"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.sampled_from(["model", "answers", "usage"]), JSON)
def test_whatever_an_engine_answers_is_mapped_or_refused(member, value):
    try:
        mapped = answered({**ANSWER, member: value})
    except InvalidAnswer:
        return
    assert len(mapped["answers"]) == len(QUESTIONS)


@given(st.lists(st.integers(min_value=1, max_value=1000), min_size=1, max_size=MAX_LEVELS))
def test_probabilities_reach_the_client_as_the_engine_said_them(weights):
    probabilities = [weight / sum(weights) for weight in weights]
    best = probabilities.index(max(probabilities))
    score = sum(index * probability for index, probability in enumerate(probabilities))
    answer = {
        **ANSWER,
        "answers": {
            "q0": {
                "type": "choice",
                "choice": f"o{best}",
                "confidence": 0.5,
                "probabilities": {f"o{index}": probability for index, probability in enumerate(probabilities)},
            },
            "q1": {
                "type": "score",
                "score": score,
                "confidence": 0.5,
                "probabilities": {str(index): probability for index, probability in enumerate(probabilities)},
            },
        },
    }
    for found in answered(answer, [choices(len(weights)), levels(len(weights))])["answers"]:
        assert [entry["probability"] for entry in found["probabilities"]] == probabilities
