import json

import pytest
from msgspec import UNSET

from smg.protocol.decisions import (
    Choice,
    ChoiceQuestion,
    DecisionsRequest,
    InputImage,
    InputMessage,
    InputText,
    Level,
    Predicate,
    ScoreQuestion,
    evidence_text,
    parts_of,
    question_texts,
)
from smg.protocol.decoding import decode
from smg.protocol.failures import ParseFailure
from smg.protocol.prompt_cost import PromptCost, prompt_cost
from smg.protocol.prompts import prompt_text

IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
TEXT = {"type": "input_text", "text": "seen"}
PREDICATE = {"type": "predicate", "instructions": "Is it so?"}
CHOICE = {"type": "choice", "instructions": "Which?", "choices": [{"value": "a"}]}
SCORE = {"type": "score", "instructions": "How much?", "levels": [{"label": "low"}]}


def body(*questions, evidence="It is so.", **members):
    return {"model": "m", "input": evidence, "questions": list(questions), **members}


def user(content, **members):
    return {"role": "user", "content": content, **members}


def read(members):
    return decode(DecisionsRequest, json.dumps(members).encode())


def refused(members):
    with pytest.raises(ParseFailure) as caught:
        read(members)
    return caught.value.message


def test_the_three_kinds_of_questions_are_read():
    request = read(
        body(
            {**PREDICATE, "name": "first"},
            {**CHOICE, "choices": [{"value": True, "description": "yes"}, {"value": "true"}]},
            SCORE,
        )
    )
    assert request.questions == [
        Predicate(instructions="Is it so?", name="first"),
        ChoiceQuestion(instructions="Which?", choices=[Choice(True, "yes"), Choice("true")]),
        ScoreQuestion(instructions="How much?", levels=[Level("low")]),
    ]
    assert request.questions[2].name is UNSET
    assert [type(choice.value) for choice in request.questions[1].choices] == [bool, str]


def test_evidence_is_a_text_or_messages_of_texts_and_images():
    assert read(body()).input == "It is so."
    evidence = [user("plain", type="message"), user([TEXT, {**IMAGE, "detail": "low"}, IMAGE])]
    assert read(body(evidence=evidence)).input == [
        InputMessage("user", "plain", "message"),
        InputMessage(
            "user", [InputText("seen"), InputImage(IMAGE["image_url"], "low"), InputImage(IMAGE["image_url"])]
        ),
    ]


@pytest.mark.parametrize("detail", ["low", "high", "auto", "original", None])
def test_an_image_has_one_of_four_details_or_null(detail):
    read(body(evidence=[user([{**IMAGE, "detail": detail}])]))


def test_unknown_members_are_anybody_s_extensions_and_no_failure():
    read(
        body(
            {**PREDICATE, "weight": None},
            {**CHOICE, "choices": [{"value": "a", "x": 1}]},
            {**SCORE, "levels": [{"label": "a", "x": [1]}]},
            evidence=[user([{**TEXT, "x": 1}], x={})],
            stream=True,
            cache_salt=7,
        )
    )


@pytest.mark.parametrize(
    "members",
    [
        body(evidence=7),
        body(evidence=None),
        body(evidence=["text"]),
        body(evidence=[{"content": "x"}]),
        body(evidence=[{"role": "user"}]),
        body(evidence=[{"role": "assistant", "content": "x"}]),
        body(evidence=[user("x", type="reasoning")]),
        body(evidence=[user("x", type=None)]),
        body(evidence=[user(["x"])]),
        body(evidence=[user([{"type": "input_audio"}])]),
        body(evidence=[user([{"type": "input_text"}])]),
        body(evidence=[user([{"type": "input_image"}])]),
        body(evidence=[user([{"text": "x"}])]),
        body(evidence=[user([{**IMAGE, "detail": "huge"}])]),
        body({"instructions": "x"}),
        body({"type": "essay", "instructions": "x"}),
        body({"type": "predicate"}),
        body({**PREDICATE, "instructions": 1}),
        body({**PREDICATE, "name": None}),
        body({**PREDICATE, "name": 1}),
        body({"type": "choice", "instructions": "x"}),
        body({**CHOICE, "choices": ["a"]}),
        body({**CHOICE, "choices": [{}]}),
        body({**CHOICE, "choices": [{"value": 1}]}),
        body({**CHOICE, "choices": [{"value": None}]}),
        body({**CHOICE, "choices": [{"value": "a", "description": None}]}),
        body({"type": "score", "instructions": "x"}),
        body({**SCORE, "levels": [{"description": "x"}]}),
        body({**SCORE, "levels": [{"label": True}]}),
        body(safety_identifier=1),
        {**body(), "questions": {}},
        {**body(), "model": 1},
    ],
    ids=lambda members: json.dumps(members)[:60],
)
def test_what_is_not_in_the_schema_is_a_parse_failure(members):
    assert refused(members)


def test_a_failure_says_where_it_is():
    assert "$.questions[1].choices[0].value" in refused(body(PREDICATE, {**CHOICE, "choices": [{"value": 1}]}))


def test_every_piece_of_evidence_has_a_place():
    request = read(body(evidence=[user("a"), user([TEXT, IMAGE])]))
    assert [place for place, _ in parts_of(request.input)] == [
        "input[0].content",
        "input[1].content[0]",
        "input[1].content[1]",
    ]
    assert list(parts_of("a")) == [("input", "a")]


def test_requests_are_placed_by_the_text_of_their_evidence():
    request = read(body(PREDICATE, evidence=[user("a"), user([TEXT, IMAGE, TEXT])]))
    assert prompt_text(request) == evidence_text(request) == "a seen seen"
    assert prompt_text(read(body())) == "It is so."


def test_a_request_costs_its_evidence_once_and_all_its_questions():
    questions = [
        {**PREDICATE, "name": "not counted"},
        {**CHOICE, "choices": [{"value": "b" * 4, "description": "d" * 4}, {"value": True}]},
        {**SCORE, "levels": [{"label": "l" * 4, "description": "e" * 4}]},
    ]
    request = read(body(*questions, evidence=[user("x" * 40), user([IMAGE])]))
    texts = ["Is it so?", "Which?", "bbbb", "dddd", "True", "How much?", "llll", "eeee"]
    assert question_texts(request) == texts
    assert prompt_cost(request) == PromptCost(-(-(40 + sum(map(len, texts))) // 4))
