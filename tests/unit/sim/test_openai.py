import msgspec

from smg.sim.dialect import SimError
from smg.sim.openai import OPENAI


def test_it_has_the_public_api_and_no_control_plane(control):
    engine = control("openai")
    assert engine.call("GET", "/v1/models")[1]["data"][0]["id"] == "m"
    assert {path for _, path in OPENAI.control} == {"/health", "/v1/models"}


def test_errors_have_openais_shape():
    found = msgspec.json.decode(OPENAI.error(SimError(404, "no", "model")))["error"]
    assert (found["type"], found["code"], found["param"]) == ("invalid_request_error", "model_not_found", "model")
    assert msgspec.json.decode(OPENAI.error(SimError(503, "no")))["error"]["type"] == "server_error"
