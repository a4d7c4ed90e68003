"""GET /openapi.json of running gateways."""

import json

import jsonschema_rs
import pytest
import schemathesis

from smg.control.openapi.operations import OPERATIONS as OWN
from smg.protocol.openapi.document import undescribed
from smg.protocol.openapi.inference import OPERATIONS as INFERENCE
from smg.protocol.openapi.operation import Described

PATH = "/openapi.json"
CONTROL = {"control_plane_api_keys": ("a:Ann:admin:admin-key",)}
CONFIGURATIONS = {
    "open": {},
    "keys": {"api_key": "k"},
    "control plane": CONTROL,
    "all keys": {"api_key": "k", "tenant_api_key": ("red:red-key",), **CONTROL},
    "rl": {"enable_rl": True},
    "pairs": {"pd_disaggregation": True},
    "everything": {"enable_rl": True, "api_key": "k", "priority_scheduler_enabled": True, **CONTROL},
}
configured = pytest.mark.parametrize("settings", CONFIGURATIONS.values(), ids=CONFIGURATIONS)


async def document_of(gateway):
    answer = await gateway.get(PATH)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    return json.loads(answer.body)


@configured
async def test_every_route_is_described_and_nothing_else(stage, settings):
    gateway = await stage.gateway(**settings)
    rows = [row for row in gateway.gateway.server.handler._routes if row.described]
    missing = undescribed([Described(row.method, row.path, row.group) for row in rows], OWN | INFERENCE)
    assert missing == [], (
        "describe them in OPERATIONS of protocol/openapi/inference.py or control/openapi/operations.py"
    )
    document = await document_of(gateway)
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(row.method, row.path.replace("{*", "{")) for row in rows}
    assert any("/v1/rl" in path for _, path in described) == settings.get("enable_rl", False)


async def test_every_description_is_of_a_route(stage):
    gateway = await stage.gateway(enable_rl=True)
    there = {(row.method, row.path) for row in gateway.gateway.server.handler._routes}
    assert (OWN | INFERENCE).keys() - there == set()


@configured
async def test_the_document_is_openapi(stage, settings):
    document = await document_of(await stage.gateway(**settings))
    schemathesis.openapi.from_dict(document).validate()
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


@configured
async def test_every_reference_leads_somewhere(stage, settings):
    document = await document_of(await stage.gateway(**settings))

    def follow(part):
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                found = document
                for step in part["$ref"].removeprefix("#/").split("/"):
                    found = found[step]
            for member in part.values():
                follow(member)
        elif isinstance(part, list):
            for member in part:
                follow(member)

    follow(document)


async def test_the_document_is_open_to_everybody_and_says_who_may_do_what(stage):
    document = await document_of(await stage.gateway(**CONFIGURATIONS["all keys"]))
    paths = document["paths"]
    assert paths["/v1/chat/completions"]["post"]["security"] == [{"key": []}]
    assert paths["/workers"]["post"]["security"] == [{"controlPlane": ["admin"]}]
    assert paths[PATH]["get"]["security"] == []


async def test_the_document_is_made_once(stage):
    gateway = await stage.gateway()
    client = await gateway.connect()
    bodies = []
    for method in ("GET", "HEAD", "GET"):
        await client.send(method, PATH)
        bodies.append(await client.answer())
    first, head, second = bodies
    assert first.body == second.body
    assert (head.status, head.headers["content-length"]) == (200, str(len(first.body)))
