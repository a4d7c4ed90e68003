import msgspec

from smg.sim.dialect import SimError
from smg.sim.openai import OPENAI


def test_it_has_the_public_api_and_no_control_plane(control):
    engine = control("openai")
    assert engine.call("GET", "/v1/models")[1]["data"][0]["id"] == "m"
    beside_sessions = {f"/v1/realtime/{name}" for name in ("sessions", "transcription_sessions", "client_secrets")}
    assert {path for _, path in OPENAI.control} == {"/health", "/v1/models", *beside_sessions}


def test_secrets_are_made_for_sessions_of_its_model(control):
    engine = control("openai")
    session = {"type": "realtime", "model": "m", "instructions": "Be brief."}
    status, made = engine.call("POST", "/v1/realtime/sessions", session)
    assert (status, made["instructions"]) == (200, "Be brief.")
    assert made["client_secret"]["value"].startswith("ek_")
    status, secret = engine.call("POST", "/v1/realtime/client_secrets", {"session": session})
    assert (status, secret["session"]["model"]) == (200, "m")
    assert secret["value"] != made["client_secret"]["value"]
    assert engine.call("POST", "/v1/realtime/client_secrets", {})[0] == 400
    assert engine.call("POST", "/v1/realtime/sessions", {"model": "m"})[0] == 400
    assert engine.call("POST", "/v1/realtime/sessions", {**session, "model": "other"})[0] == 404


def test_errors_have_openais_shape():
    found = msgspec.json.decode(OPENAI.error(SimError(404, "no", "model")))["error"]
    assert (found["type"], found["code"], found["param"]) == ("invalid_request_error", "model_not_found", "model")
    assert msgspec.json.decode(OPENAI.error(SimError(503, "no")))["error"]["type"] == "server_error"
