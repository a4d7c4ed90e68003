import json

import pytest

from smg.protocol.decisions import DecisionsRequest
from smg.protocol.decisions_limits import (
    MAX_IDENTIFIER_CHARS,
    MAX_IMAGES,
    MAX_PART_CHARS,
    MAX_WORDING_CHARS,
)
from smg.protocol.decoding import decode
from smg.protocol.rules import violations

INLINE = "data:image/png;base64,iVBORw0KGgo="
PREDICATE = {"type": "predicate", "instructions": "Is it so?"}
CHOICE = {"type": "choice", "instructions": "Which?", "choices": [{"value": "a"}]}
SCORE = {"type": "score", "instructions": "How much?", "levels": [{"label": "low"}]}


def broken(*questions, evidence="x", **members):
    members = {"model": "m", "input": evidence, "questions": list(questions), **members}
    return violations(decode(DecisionsRequest, json.dumps(members, ensure_ascii=False).encode()))


def image(url=INLINE):
    return {"type": "input_image", "image_url": url}


def parts(*content):
    return [{"role": "user", "content": list(content)}]


# By the place that is named: a request with a text of this length there.
TEXTS = {
    "model": (MAX_WORDING_CHARS, lambda text: broken(model=text)),
    "safety_identifier": (MAX_IDENTIFIER_CHARS, lambda text: broken(safety_identifier=text)),
    "questions[0].instructions": (MAX_WORDING_CHARS, lambda text: broken({**PREDICATE, "instructions": text})),
    "questions[1].name": (MAX_WORDING_CHARS, lambda text: broken(PREDICATE, {**SCORE, "name": text})),
    "questions[0].choices[1].description": (
        MAX_WORDING_CHARS,
        lambda text: broken({**CHOICE, "choices": [{"value": "a"}, {"value": "b", "description": text}]}),
    ),
    "questions[0].levels[0].label": (MAX_WORDING_CHARS, lambda text: broken({**SCORE, "levels": [{"label": text}]})),
    "questions[0].levels[0].description": (
        MAX_WORDING_CHARS,
        lambda text: broken({**SCORE, "levels": [{"label": "a", "description": text}]}),
    ),
    "input[0].content[1]": (
        MAX_PART_CHARS,
        lambda text: broken(evidence=parts(image(), {"type": "input_text", "text": text})),
    ),
}


@pytest.mark.parametrize("place", TEXTS)
def test_texts_are_limited_in_characters_and_not_in_bytes(place):
    most, of = TEXTS[place]
    assert of("é" * most) == []
    (message,) = of("e" * (most + 1))
    assert message.startswith(place.partition("[")[0] + ":")
    assert str(most) in message
    assert place in message
    assert len(message) < 300


def test_texts_without_a_documented_limit_have_none():
    long = "x" * (MAX_WORDING_CHARS + 1)
    assert broken({**CHOICE, "choices": [{"value": long}]}, evidence=long) == []
    assert broken(evidence=[{"role": "user", "content": long}]) == []


def test_images_are_counted_over_the_whole_request():
    half = [image()] * (MAX_IMAGES // 2)
    assert broken(evidence=parts(*half) + parts(*half)) == []
    (message,) = broken(evidence=parts(*half) + parts(*half, image()))
    assert message == f"input: must have at most {MAX_IMAGES} images, got {MAX_IMAGES + 1}"


@pytest.mark.parametrize(
    "url",
    [
        INLINE,
        "data:image/jpeg;base64,AA==",
        "data:image/svg+xml;base64,AA==",
        "data:image/svg+xml;charset=utf-8;base64,AA==",
        "DATA:IMAGE/PNG;BASE64,AA==",
    ],
)
def test_an_image_may_be_any_inline_one(url):
    assert broken(evidence=parts(image(url))) == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://x.test/a.png",
        "https://x.test/a.png",
        "file-abc123",
        "file:///a.png",
        "data:image/png,AAAA",
        "data:image/png;base64,",
        "data:image/png;base64",
        "data:image/;base64,AA==",
        "data:text/plain;base64,AAAA",
        "data:;base64,AAAA",
        " " + INLINE,
        "x" + INLINE,
        "https://x.test/" + INLINE,
    ],
)
def test_an_image_that_is_not_inline_is_refused_by_its_place(url):
    (message,) = broken(evidence=parts(image(), image(url)))
    assert "inline" in message
    assert message.endswith("in input[0].content[1]")


def test_many_broken_places_are_not_all_listed():
    (message,) = broken(evidence=parts(*[image("file-1")] * 20))
    assert message.count("content[") == 5
    assert message.endswith("…")


def test_every_broken_limit_is_reported():
    found = broken(
        {**PREDICATE, "name": "x" * (MAX_WORDING_CHARS + 1)}, safety_identifier="u" * 129, evidence=parts(image("x"))
    )
    assert [message.partition(":")[0] for message in found] == ["safety_identifier", "input", "questions"]
