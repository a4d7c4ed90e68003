import pytest

from smg.engines.detection import detect_runtime
from smg.engines.plan import NO_ANSWER, Answer


def run(plan, answers):
    """Run a plan against fixed answers; returns what it learned and what it asked for, step by step."""
    asked = []
    try:
        paths = next(plan)
        while True:
            asked.append(paths)
            paths = plan.send({path: answers.get(path, Answer(404)) for path in paths})
    except StopIteration as end:
        return end.value, asked


def models(*cards):
    return {"/v1/models": Answer(200, {"object": "list", "data": list(cards)})}


ASIDE = ("/version", "/server_info")


@pytest.mark.parametrize(("owner", "runtime"), [("sglang", "sglang"), ("nvidia", "sglang"), ("vllm", "vllm")])
def test_the_owner_of_the_first_model_tells_the_engine_at_once(owner, runtime):
    found, asked = run(detect_runtime(), models({"id": "m", "owned_by": owner}))
    assert (found, asked) == (runtime, [("/v1/models",)])


OTHER = {"id": "m", "owned_by": "someone"}


@pytest.mark.parametrize(
    ("answers", "runtime"),
    [
        (models(OTHER) | {"/version": Answer(200, {"version": "1"})}, "vllm"),
        (models(OTHER) | {"/server_info": Answer(200, {})}, "sglang"),
        (models(OTHER) | {"/version": Answer(200), "/server_info": Answer(200)}, "vllm"),
        (models(OTHER), "generic"),
        (models(), "generic"),
        (models({"id": "m", "owned_by": 7}), "generic"),
        (models("no card"), "generic"),
        ({"/v1/models": Answer(200, {"data": None})}, None),
        ({"/v1/models": Answer(200, ["a"])}, None),
        ({"/v1/models": Answer(200)}, None),
        ({"/v1/models": Answer(401, {"data": [OTHER]})}, None),
        ({"/v1/models": NO_ANSWER, "/version": NO_ANSWER, "/server_info": NO_ANSWER}, None),
        ({"/server_info": Answer(200, {})}, "sglang"),
    ],
)
def test_routes_that_only_one_engine_has_tell_it_otherwise(answers, runtime):
    found, asked = run(detect_runtime(), answers)
    assert (found, asked) == (runtime, [("/v1/models",), ASIDE])
