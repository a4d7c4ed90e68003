"""Which web pages may see the gateway's answers: those it names itself, on answers of every kind."""

import pytest

from support.bodies import CHAT, chat
from support.raw_engine import answers, resets, streams

APP = "https://app.example"
ORIGIN = [f"origin: {APP}"]
STRANGER = ["origin: https://evil.example"]
PREFLIGHT = ["access-control-request-method: POST", "access-control-request-headers: authorization"]
KEY = ["authorization: Bearer shared-key"]
CLOSED = {"api_key": "shared-key", "control_plane_api_keys": ("u:Uwe:user:user-key",)}
OPEN = {"cors_allowed_origins": (APP,)}
# What a worker says of pages is not for it to say.
SPEAKS_FOR_US = [
    f"access-control-{what}"
    for what in (
        "allow-origin: *",
        "allow-credentials: true",
        "allow-headers: *",
        "allow-methods: *",
        "allow-private-network: true",
        "expose-headers: *",
        "max-age: 5",
    )
]

KINDS = {
    "a success": ("GET", "/health", None, [], 200),
    "a list": ("GET", "/v1/models", None, [], 200),
    "an answer of a worker": ("POST", CHAT, chat(), KEY, 200),
    "nothing there": ("GET", "/nowhere", None, [], 404),
    "a wrong method": ("PUT", CHAT, b"{}", KEY, 405),
    "no key": ("POST", CHAT, chat(), [], 401),
    "no key of the control plane": ("GET", "/workers", None, [], 401),
    "no administrator": ("GET", "/workers", None, ["authorization: Bearer user-key"], 403),
    "a bad body": ("POST", CHAT, b"{", KEY, 400),
    "an unknown model": ("POST", CHAT, chat(model="nobody"), KEY, 404),
    "a body that is too large": ("POST", CHAT, b"x" * 5000, KEY, 413),
    "a head only": ("HEAD", "/health", None, [], 200),
}


def about_pages(answer):
    """The headers of an answer that browsers heed, but for the list of those that pages may read."""
    return sorted(
        (name, value)
        for name, value in answer.fields
        if (name.startswith("access-control-") and name != "access-control-expose-headers") or name == "vary"
    )


FOR_APP = [("access-control-allow-origin", APP), ("vary", "origin")]
FOR_NOBODY = [("vary", "origin")]


@pytest.mark.parametrize(("method", "target", "body", "headers", "status"), KINDS.values(), ids=KINDS)
async def test_answers_of_every_kind_are_for_the_allowed_page_only(stage, method, target, body, headers, status):
    engine = await stage.raw_engine(answers(200, b"{}", *SPEAKS_FOR_US))
    gateway = await stage.gateway(engine, **CLOSED, **OPEN, max_payload_size=4000)
    for origin, expected in ((ORIGIN, FOR_APP), (STRANGER, FOR_NOBODY), ([], FOR_NOBODY)):
        answer = await gateway.ask(method, target, body, [*headers, *origin])
        assert answer.status == status
        assert about_pages(answer) == expected


@pytest.mark.parametrize(("method", "target", "body", "headers", "status"), KINDS.values(), ids=KINDS)
async def test_without_an_origin_in_the_settings_nothing_is_said_of_pages(stage, method, target, body, headers, status):
    engine = await stage.raw_engine(answers(200, b"{}", *SPEAKS_FOR_US))
    gateway = await stage.gateway(engine, **CLOSED, max_payload_size=4000)
    answer = await gateway.ask(method, target, body, [*headers, *ORIGIN])
    assert answer.status == status
    assert about_pages(answer) == []
    assert "access-control-expose-headers" not in answer.headers


@pytest.mark.parametrize(("settings", "expected"), [(OPEN, FOR_APP), ({}, [])])
async def test_a_stream_is_like_any_answer(stage, settings, expected):
    engine = await stage.raw_engine(streams("hello"))
    gateway = await stage.gateway(engine, **settings)
    answer = await gateway.post(CHAT, chat(stream=True), ORIGIN)
    assert answer.events == ["hello"]
    assert about_pages(answer) == expected


async def test_a_worker_s_own_words_on_a_stream_are_left_out(stage):
    engine = await stage.raw_engine()
    gateway = await stage.gateway(engine, **OPEN)
    client = await gateway.send("POST", CHAT, chat(stream=True), ORIGIN)
    call = await engine.call()
    await call.begin_stream(*SPEAKS_FOR_US, "x-of-worker: yes")
    await call.end_stream()
    answer = await client.answer()
    assert answer.headers["x-of-worker"] == "yes"
    assert about_pages(answer) == FOR_APP


async def test_a_worker_s_refusal_and_its_failure_are_too(stage):
    engine = await stage.raw_engine(answers(422, b"{}", *SPEAKS_FOR_US), resets)
    gateway = await stage.gateway(engine, **OPEN, disable_retries=True)
    for status in (422, 500):
        answer = await gateway.post(CHAT, chat(), ORIGIN)
        assert answer.status == status
        assert about_pages(answer) == FOR_APP


async def test_an_engine_that_is_called_by_name_says_nothing_of_pages_either(stage):
    engine = await stage.raw_engine(answers(200, b"{}", *SPEAKS_FOR_US))
    gateway = await stage.gateway(engine, enable_rl=True, **OPEN)
    target = f"/v1/rl/workers/{gateway.worker(engine).id}/engine/op"
    answer = await gateway.post(target, b"{}", ORIGIN)
    assert answer.status == 200
    assert about_pages(answer) == FOR_APP


@pytest.mark.parametrize("target", [CHAT, "/workers", "/nowhere"])
async def test_a_browser_that_asks_first_needs_no_key(stage, target):
    gateway = await stage.gateway(**CLOSED, **OPEN)
    answer = await gateway.ask("OPTIONS", target, None, [*ORIGIN, *PREFLIGHT])
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == APP
    assert "authorization" in answer.headers["access-control-allow-headers"]
    assert answer.headers["vary"] == "origin"


@pytest.mark.parametrize(
    ("settings", "headers"), [(OPEN, STRANGER + PREFLIGHT), (OPEN, ORIGIN), ({}, ORIGIN + PREFLIGHT)]
)
async def test_any_other_question_is_a_wrong_method(stage, settings, headers):
    gateway = await stage.gateway(**CLOSED, **settings)
    answer = await gateway.ask("OPTIONS", CHAT, None, headers)
    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert "access-control-allow-methods" not in answer.headers


async def test_any_page_is_welcome_where_the_settings_say_so(stage):
    gateway = await stage.gateway(cors_allowed_origins=("*",))
    assert about_pages(await gateway.get("/health", STRANGER)) == [("access-control-allow-origin", "*")]
    assert about_pages(await gateway.get("/health")) == []


async def test_connections_do_not_remember_whom_they_answered(stage):
    gateway = await stage.gateway(**OPEN)
    client = await gateway.connect()
    for origin, expected in ((ORIGIN, FOR_APP), (STRANGER, FOR_NOBODY), (ORIGIN, FOR_APP), ([], FOR_NOBODY)):
        await client.send("GET", "/health", None, origin)
        assert about_pages(await client.answer()) == expected
