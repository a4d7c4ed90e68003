import msgspec
import pytest

from smg.engines.systemone import read_answers, translate
from smg.sim.decisions import RENDERERS
from smg.sim.dialect import SimError
from smg.sim.dialects import DIALECTS
from smg.sim.requests import Reader
from smg.sim.scoring import Frame

PREDICATE = {"type": "predicate", "name": "p", "instructions": "Is it so?"}
CHOICE = {"type": "choice", "instructions": "Which?", "choices": [{"value": True}, {"value": "true"}, {"value": "b"}]}
SCORE = {"type": "score", "instructions": "How much?", "levels": [{"label": "low"}, {"label": "high"}]}
REQUEST = {"model": "m", "input": "It is so.", "questions": [PREDICATE, CHOICE, SCORE]}


def answer(kind, body):
    call = Reader(10, 1000).scoring(kind, body)
    return RENDERERS[kind](DIALECTS["sglang"], call, Frame("id-1", "m", 12, 0.5))


def decided(request=REQUEST):
    return msgspec.json.decode(answer("decisions", msgspec.json.encode(request)))


def test_a_question_is_answered_in_the_words_of_its_kind():
    predicate, choice, score = decided()["answers"]
    assert (predicate["type"], predicate["name"]) == ("predicate", "p")
    assert 0 < predicate["probability"] < 1
    assert [row["value"] for row in choice["probabilities"]] == [True, "true", "b"]
    best = max(choice["probabilities"], key=lambda row: row["probability"])
    assert choice["choice"] == best["value"]
    assert score["score"] == score["probabilities"][1]["probability"]
    for scored in (choice, score):
        assert sum(row["probability"] for row in scored["probabilities"]) == pytest.approx(1)
        assert 0 <= scored["confidence"] <= 1


def test_both_routes_say_the_same():
    asked = translate(msgspec.json.encode(REQUEST))
    assert msgspec.json.decode(read_answers(asked.questions, answer("systemone", asked.body))) == decided()


def test_a_single_option_is_certain():
    [choice] = decided({**REQUEST, "questions": [{**CHOICE, "choices": [{"value": "only"}]}]})["answers"]
    assert (choice["confidence"], choice["probabilities"]) == (1, [{"value": "only", "probability": 1}])


def test_every_question_is_a_prompt_over_the_evidence():
    usage = decided()["usage"]
    evidence = "It is so.\n"
    texts = [evidence + question["instructions"] for question in REQUEST["questions"]]
    assert usage["input_tokens"] == usage["total_tokens"] == sum(-(-len(text) // 4) for text in texts)
    messages = [{"role": "user", "content": [{"type": "input_text", "text": "It is so."}]}]
    assert decided({**REQUEST, "input": messages}) == decided()


@pytest.mark.parametrize("questions", [[], [{**CHOICE, "choices": []}], [{**SCORE, "levels": []}], [{"type": "essay"}]])
def test_questions_that_cannot_be_answered_are_refused(questions):
    with pytest.raises(SimError):
        decided({**REQUEST, "questions": questions})


def test_system_one_refuses_members_it_does_not_know():
    question = {"type": "noul", "instructions": "a", "name": "p"}
    with pytest.raises(SimError):
        answer("systemone", msgspec.json.encode({"state": "x", "questions": {"q": question}}))
