"""Who gets through the control plane's own door, and what is recorded of everybody who tries."""

import json

import pytest

from smg.auth.principals import ControlKeys, Principal
from smg.edge.control_plane import ControlPlane
from smg.errors import Forbidden, Unauthorized
from smg.net.routes import Route
from smg.telemetry.logs import start_logs

KEYS = ControlKeys([("a-1", "admin", "admin-key"), ("u-1", "user", "user-key"), ("d-1", "admin", "d.o.t")])
MISSING = "Missing or invalid Authorization header"
WRONG = "Invalid authentication token"
NO_ADMIN = "Admin role required for control plane access"
WORKERS = Route("POST", "/workers/{id}", print, "admin")


class FakeExchange:
    def __init__(self, authorization=None, route=WORKERS):
        self.headers = {} if authorization is None else {b"authorization": authorization}
        self.method = "POST"
        self.path = "/workers/w1"
        self.request_id = "req-1"
        self.route = route


async def check_token(token):
    """Tokens of two subjects; all others are bad."""
    roles = {b"t.a.t": "admin", b"t.u.t": "user"}
    if token not in roles:
        raise Unauthorized("Invalid JWT: it is malformed", "control-plane")
    return Principal("ann", "jwt", roles[token])


@pytest.fixture
def audit(tmp_path):
    """The audit events so far, as objects."""
    with (tmp_path / "log").open("w+b") as file:
        logs = start_logs(level="info", json=True, secrets=[], fd=file.fileno())

        def events():
            logs.flush()
            file.seek(0)
            return [json.loads(line) for line in file.read().splitlines()]

        yield events
        logs.close()


def door(*, tokens=True, audited=True):
    return ControlPlane(KEYS, check_token if tokens else None, audit=audited)


async def outcome(plane, authorization):
    """What comes of a try: nothing for a pass, else the status and the words."""
    try:
        await plane.admit(FakeExchange(authorization))
    except Unauthorized as error:
        return error.status, error.message if error.realm == "control-plane" else error.realm
    except Forbidden as error:
        return error.status, error.message
    return None


TRIES = [
    # Authorization, the answer with tokens, the answer without, and who it was.
    (b"Bearer admin-key", None, None, ("a-1", "api_key", "admin")),
    (b"bearer admin-key", None, None, ("a-1", "api_key", "admin")),
    (b"BEARER admin-key", None, None, ("a-1", "api_key", "admin")),
    (b"Bearer user-key", (403, NO_ADMIN), (403, NO_ADMIN), ("u-1", "api_key", "user")),
    (None, (401, MISSING), (401, MISSING), None),
    (b"", (401, MISSING), (401, MISSING), None),
    (b"Bearer", (401, MISSING), (401, MISSING), None),
    (b"Bearer ", (401, MISSING), (401, MISSING), None),
    (b"admin-key", (401, MISSING), (401, MISSING), None),
    (b"Basic admin-key", (401, MISSING), (401, MISSING), None),
    (b"Bearer\tadmin-key", (401, MISSING), (401, MISSING), None),
    (b"Bearer other", (401, WRONG), (401, WRONG), None),
    (b"Bearer admin-key ", (401, WRONG), (401, WRONG), None),
    (b"Bearer  admin-key", (401, WRONG), (401, WRONG), None),
    (b"Bearer ADMIN-KEY", (401, WRONG), (401, WRONG), None),
    (b"Bearer a-1:x:admin:admin-key", (401, WRONG), (401, WRONG), None),
    (b"Bearer admin-key, Bearer admin-key", (401, WRONG), (401, WRONG), None),
    (b"Bearer \xff\xfe", (401, WRONG), (401, WRONG), None),
    (b"Bearer t.a.t", None, (401, WRONG), ("ann", "jwt", "admin")),
    (b"Bearer t.u.t", (403, NO_ADMIN), (401, WRONG), ("ann", "jwt", "user")),
    (b"Bearer b.a.d", (401, "Invalid JWT: it is malformed"), (401, WRONG), None),
    (b"Bearer t.a", (401, WRONG), (401, WRONG), None),
    (b"Bearer t.a.t.t", (401, WRONG), (401, WRONG), None),
]


@pytest.mark.parametrize(("authorization", "with_tokens", "without", "who"), TRIES)
async def test_only_administrators_pass(authorization, with_tokens, without, who):
    assert await outcome(door(), authorization) == with_tokens
    assert await outcome(door(tokens=False), authorization) == without


@pytest.mark.parametrize(("authorization", "with_tokens", "without", "who"), TRIES)
async def test_every_try_is_recorded(audit, authorization, with_tokens, without, who):
    await outcome(door(), authorization)
    (event,) = audit()
    principal, method, role = who or ("unknown", "none", "none")
    assert (event["level"], event["target"], event["message"]) == ("INFO", "smg::audit", "control_plane_audit")
    assert (event["principal"], event["auth_method"], event["role"]) == (principal, method, role)
    assert event["outcome"] == ("denied" if with_tokens else "success")
    assert (event["method"], event["path"], event["resource"]) == ("POST", "/workers/w1", "/workers/{id}")
    assert event["request_id"] == "req-1"
    assert "-key" not in json.dumps(event)


async def test_nothing_is_recorded_where_nobody_wants_it(audit):
    plane = door(audited=False)
    for authorization in (b"Bearer admin-key", b"Bearer user-key", b"Bearer other", None):
        await outcome(plane, authorization)
    assert audit() == []


async def test_a_key_that_looks_like_a_token_is_a_key_where_there_are_no_tokens():
    assert await outcome(door(tokens=False), b"Bearer d.o.t") is None
    assert await outcome(door(), b"Bearer d.o.t") == (401, "Invalid JWT: it is malformed")


def test_the_door_knows_what_is_the_control_plane_s():
    assert all(door().knows(token) for token in (b"admin-key", b"user-key", b"t.a.t", b"any.thing.else"))
    assert not any(door().knows(token) for token in (b"", b"other", b"t.a", b"t.a.t.t"))
    assert not door(tokens=False).knows(b"t.a.t")


# --- the routes behind it


async def test_only_admin_routes_are_behind_the_door():
    rows = [Route("GET", f"/{group}", print, group) for group in ("public", "serving", "admin")]
    guarded = door().guarded(rows)
    assert [route is row for route, row in zip(guarded, rows, strict=True)] == [True, True, False]
    assert [route._replace(handler=print) for route in guarded] == rows


@pytest.mark.parametrize("waits", [False, True])
async def test_a_handler_runs_once_its_caller_has_passed(waits):
    seen = []

    async def waiting(exchange):
        seen.append(exchange)

    (route,) = door().guarded([Route("GET", "/x", waiting if waits else seen.append, "admin")])
    exchange = FakeExchange(b"Bearer admin-key")
    await route.handler(exchange)
    assert seen == [exchange]
    with pytest.raises(Unauthorized):
        await route.handler(FakeExchange())
    with pytest.raises(Forbidden):
        await route.handler(FakeExchange(b"Bearer user-key"))
    assert seen == [exchange]
