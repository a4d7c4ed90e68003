"""Simulated engines of every kind decide behind a gateway, and cannot be told apart by their answers."""

QUESTIONS = [
    {"type": "predicate", "instructions": "Is it so?"},
    {"type": "choice", "name": "c", "instructions": "Which?", "choices": [{"value": True}, {"value": "true"}]},
    {"type": "score", "instructions": "How much?", "levels": [{"label": "low"}, {"label": "mid"}, {"label": "high"}]},
]


async def test_every_kind_of_engine_gives_the_same_answer(stage, decisions):
    engines = [await stage.engine(engine=kind) for kind in ("sglang", "vllm", "openai")]
    gateway = await stage.gateway(*engines)
    answers = {}
    while len(answers) < len(engines):
        answer = await gateway.post(decisions.path, decisions.body(questions=QUESTIONS))
        assert answer.status == 200
        answers[answer.worker] = answer.json
    first, *others = answers.values()
    assert [answer["type"] for answer in first["answers"]] == ["predicate", "choice", "score"]
    assert others == [first, first]
