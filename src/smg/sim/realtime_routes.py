"""The HTTP routes beside realtime sessions: they make secrets that look like real ones and open nothing."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from smg.sim.dialect import Answer, Control, Route, SimError, as_json

_LIFE_SECS: Final = 600


def _sessions(control: Control) -> Answer:
    session = _session(control, control.fields())
    return as_json(session | {"client_secret": _secret(control)})


def _client_secrets(control: Control) -> Answer:
    given = control.fields().get("session")
    if not isinstance(given, dict):
        raise SimError(400, "session must be an object", "session")
    return as_json(_secret(control) | {"session": _session(control, given)})


def _session(control: Control, given: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(given.get("type"), str):
        raise SimError(400, "type is required", "type")
    model = given.get("model")
    if model != control.machine.options.model:
        raise SimError(404, f"The model `{model}` does not exist.", "model")
    return {"object": "realtime.session", **given, "id": f"sess_{_unlike_others(control)[:24]}"}


def _secret(control: Control) -> dict[str, Any]:
    return {"value": f"ek_{_unlike_others(control)}", "expires_at": int(control.wall) + _LIFE_SECS}


def _unlike_others(control: Control) -> str:
    """A name that no earlier call got: it follows from the seed and how many there were."""
    control.machine.requests += 1
    seed = f"{control.machine.options.seed} {control.machine.requests}"
    return hashlib.sha256(seed.encode()).hexdigest()[:48]


ROUTES: Final = {
    ("POST", "/v1/realtime/sessions"): Route(_sessions),
    ("POST", "/v1/realtime/transcription_sessions"): Route(_sessions),
    ("POST", "/v1/realtime/client_secrets"): Route(_client_secrets),
}
