"""What requests of the Realtime API must say before a worker is asked: the model, and where it stands.

Each route keeps it elsewhere: in the query, in the body, in the body's `session`, or in the JSON of a form's field.
Everything else in a request is between the caller and the worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote

import msgspec

from smg.errors import GatewayError
from smg.protocol.body import edit, members
from smg.protocol.decoding import decode
from smg.protocol.failures import FormFailure, ParseFailure
from smg.protocol.multipart import Form, render_fields
from smg.protocol.requests import CallSession, ClientSecretRequest, RealtimeSessionRequest

SDP_TYPE: Final = b"application/sdp"
SDP: Final = "sdp"
SESSION: Final = "session"
FIELDS: Final = (SDP, SESSION)

# RFC 8866 section 5: a description begins with its version, and there is only one.
_SDP_BEGINS: Final = ("v=0\r\n", "v=0\n")


class Offered(NamedTuple):
    """A call that is offered: the session description and, from a form, the session's JSON."""

    model: str
    sdp: str
    session: str | None = None


# --- the query


def model_in(query: str) -> str:
    """The model that a raw query names; empty without. Raises FormFailure if it names several."""
    named = [value for name, value in parse_qsl(query) if name == "model"]
    if len(set(named)) > 1:
        raise FormFailure("The query names more than one model")
    return named[0] if named else ""


def with_model(path: str, model: str) -> str:
    """A path with a query that names the model."""
    return f"{path}?model={quote(model)}"


# --- JSON


def session_model(body: bytes) -> str:
    """The model of a session to create. Raises ParseFailure, also for one without a type."""
    return decode(RealtimeSessionRequest, body).model


def secret_model(body: bytes) -> str:
    """The model of the session that a client secret is for. Raises ParseFailure, also for one without a type."""
    return decode(ClientSecretRequest, body).session.model


def with_session_model(body: bytes, model: str) -> bytes:
    """The body of a session with another model."""
    return edit(body, {"model": msgspec.json.encode(model)})


def with_secret_model(body: bytes, model: str) -> bytes:
    """The body of a client secret with another model in its session."""
    session = members(body)["session"]
    return edit(body, {"session": with_session_model(bytes(session), model)})


# --- calls


def offered_in(form: Form) -> Offered:
    """The call that a form offers. Raises GatewayError."""
    sdp = _one(form.fields.get(SDP, []), SDP)
    check_sdp(sdp)
    session = _one(form.fields.get(SESSION, []), SESSION)
    if not session.strip():
        raise GatewayError("missing_model", "the form has no session, which names the model")
    try:
        model = decode(CallSession, session.encode()).model
    except ParseFailure as error:
        raise GatewayError("invalid_session_json", f"the form's session cannot be read: {error.message}") from None
    if not model:
        raise GatewayError("missing_model", "the form's session names no model")
    return Offered(model, sdp, session)


def offered_plain(body: bytes, model: str) -> Offered:
    """The call that a bare session description offers. Raises GatewayError."""
    if not model:
        raise GatewayError("missing_model", "the query names no model")
    try:
        sdp = body.decode()
    except UnicodeDecodeError:
        raise GatewayError("invalid_sdp", "the session description is not UTF-8") from None
    check_sdp(sdp)
    return Offered(model, sdp)


def check_sdp(sdp: str) -> None:
    """Refuse what is no session description, as far as its beginning tells. Raises GatewayError."""
    if not sdp.strip():
        raise GatewayError("missing_sdp", "the request has no session description")
    if not sdp.startswith(_SDP_BEGINS):
        raise GatewayError("invalid_sdp", "the session description does not begin with v=0")


def rendered(offered: Offered, model: str, boundary: bytes) -> bytes:
    """The form of a call for the worker, which knows the model by this name."""
    assert offered.session is not None
    session = offered.session
    if model != offered.model:
        session = with_session_model(session.encode(), model).decode()
    fields = ((SDP, offered.sdp, SDP_TYPE), (SESSION, session, b"application/json"))
    return render_fields(fields, boundary) + b"--%b--\r\n" % boundary


def _one(values: Sequence[str], name: str) -> str:
    if len(values) > 1:
        raise GatewayError("malformed_multipart", f"the form has more than one '{name}'")
    return values[0] if values else ""
