import json

import pytest

from smg.protocol.openapi.document import render
from smg.protocol.openapi.operation import JSON, TEXT, Access, Answer, Body, Described, Operation, Parameter

THING = ("GET", "/things/{*rest}")
SAID = Answer(200, "A thing.", {TEXT: {"type": "string"}})
ROUTE = Described(*THING, "public")


def operation(**changes):
    return Operation("showThing", "Show a thing", "Things", (SAID,))._replace(**changes)


OPEN, KEYED, OWN = Access(), Access(serving=True, admin=True), Access(admin=True, control_plane=True)
BOTH = Access(serving=True, admin=True, control_plane=True)


def described(group="public", access=OPEN, **changes):
    document = json.loads(render([ROUTE._replace(group=group)], {THING: operation(**changes)}, access, {}))
    return document, document["paths"]["/things/{rest}"]["get"]


def test_a_route_without_a_description_is_named():
    other = Described("PUT", "/others", "admin")
    with pytest.raises(LookupError, match=r"no description of PUT /others$"):
        render([ROUTE, other], {THING: operation()}, Access(), {})


def test_an_operation_says_what_was_said_of_it():
    _, found = described(description="Slowly.", parameters=(Parameter("rest", "path", "Which.", required=True),))
    assert found["operationId"] == "showThing"
    assert found["summary"] == "Show a thing"
    assert found["description"] == "Slowly."
    assert found["tags"] == ["Things"]
    schema = {"type": "string"}
    assert found["parameters"] == [
        {"name": "rest", "in": "path", "required": True, "description": "Which.", "schema": schema}
    ]
    assert found["responses"]["200"]["content"] == {"text/plain": {"schema": schema}}


def test_headers_are_shared():
    document, found = described(parameters=(Parameter("X-Of-Mine", "header", "Mine."),))
    assert found["parameters"] == [{"$ref": "#/components/parameters/X-Of-Mine"}]
    assert document["components"]["parameters"]["X-Of-Mine"]["description"] == "Mine."


def test_codes_of_one_status_share_an_answer_that_lists_them():
    _, found = described(codes=("no_available_workers", "no_workers"))
    answer = found["responses"]["503"]
    assert answer["description"] == "Service Unavailable: `no_available_workers`, `no_workers`."
    assert answer["headers"]["X-SMG-Error-Code"]["schema"]["enum"] == ["no_available_workers", "no_workers"]
    assert answer["headers"]["Retry-After"]["schema"]["type"] == "integer"
    assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


def test_different_answers_with_one_status_are_alternatives():
    _, found = described(answers=(SAID, Answer(404, "No such thing.", {TEXT: {"const": "no"}})), codes=("unknown_url",))
    answer = found["responses"]["404"]
    assert answer["description"] == "No such thing. Not Found: `unknown_url`."
    assert set(answer["content"]) == {"text/plain", "application/json"}


def test_what_is_relayed_may_come_with_every_status():
    relayed = {JSON: {"title": "Theirs"}}
    _, found = described(answers=(SAID, Answer("default", "Theirs.")), codes=("no_workers",), relayed=relayed)
    for status, answer in found["responses"].items():
        schema = answer["content"]["application/json"]["schema"]
        assert {"title": "Theirs"} in (schema, *schema.get("anyOf", [])), status


def test_a_leg_that_is_late_or_that_answers_itself_has_another_status():
    codes = ("decode_request_failed", "prefill_upstream_error", "call_upstream_timeout")
    _, found = described(codes=codes)
    named = {
        status: answer["headers"]["X-SMG-Error-Code"]["schema"]["enum"]
        for status, answer in found["responses"].items()
        if "X-SMG-Error-Code" in answer.get("headers", {})
    }
    assert named["504"] == list(codes)
    assert named["502"] == ["decode_request_failed", "prefill_upstream_error"]
    assert "prefill_upstream_error" in named["400"]


@pytest.mark.parametrize("group", ["public", "serving", "admin"])
def test_a_body_that_is_read_may_break_off(group):
    _, found = described(group, body=Body({JSON: {"type": "object"}}))
    assert found["requestBody"] == {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    assert "408" in found["responses"]


@pytest.mark.parametrize(
    ("group", "access", "security", "refused"),
    [
        ("public", BOTH, [], set()),
        ("serving", OPEN, [], set()),
        ("serving", KEYED, [{"key": []}], {"401"}),
        ("serving", OWN, [], set()),
        ("serving", BOTH, [{"key": []}], {"401"}),
        ("admin", OPEN, [], set()),
        ("admin", KEYED, [{"key": []}], {"401"}),
        ("admin", OWN, [{"controlPlane": ["admin"]}], {"401", "403"}),
        ("admin", BOTH, [{"controlPlane": ["admin"]}], {"401", "403"}),
    ],
)
def test_a_route_says_which_credential_it_asks_for(group, access, security, refused):
    document, found = described(group, access)
    assert found["security"] == security
    assert {"401", "403"} & found["responses"].keys() == refused
    schemes = document["components"].get("securitySchemes", {})
    assert {name for needed in security for name in needed} <= schemes.keys()


def test_only_schemes_that_are_asked_for_are_named():
    names = {
        access: set(described(access=access)[0]["components"].get("securitySchemes", {}))
        for access in (OPEN, KEYED, OWN, BOTH)
    }
    assert names == {OPEN: set(), KEYED: {"key"}, OWN: {"controlPlane"}, BOTH: {"key", "controlPlane"}}


def test_what_several_routes_answer_stands_once():
    routes = [ROUTE, ROUTE._replace(path="/others")]
    table = {THING: operation(), ("GET", "/others"): operation(id="showOther")}
    document = json.loads(render(routes, table, Access(), {}))
    one, other = (methods["get"]["responses"]["200"] for methods in document["paths"].values())
    assert one == other == {"$ref": "#/components/responses/Ok"}
    assert document["components"]["responses"]["Ok"]["description"] == "A thing."
