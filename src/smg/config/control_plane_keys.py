"""How `--control-plane-api-keys` is written: an id, a name, a role and the key, separated by the first three colons."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, cast

from smg.config.options import Form

Role = Literal["admin", "user"]
ROLES: Final[tuple[Role, ...]] = ("admin", "user")
"""What a holder of a credential of the control plane may be. Only `admin` opens its routes."""

_PARTS: Final = 4


class ControlPlaneKey(NamedTuple):
    """One key of the control plane. `id` is what the audit log calls its holder, `name` is for people."""

    id: str
    name: str
    role: Role
    key: str


def split_control_plane_key(text: str) -> ControlPlaneKey:
    """The parts of `id:name:role:key`, trimmed; the key may hold colons. Parts that are not there are empty."""
    parts = [part.strip() for part in text.split(":", _PARTS - 1)]
    holder, name, role, key = *parts, *[""] * (_PARTS - len(parts))
    return ControlPlaneKey(holder, name, cast("Role", role), key)  # the form sees to it


def _complaint(text: str) -> str | None:
    key = split_control_plane_key(text)
    if not key.id or not key.key:
        return "must be written <id>:<name>:<role>:<key>"
    if key.role not in ROLES:
        return f"must have {' or '.join(ROLES)} as its third part, the role"
    return None


def split_role(text: str) -> tuple[str, Role]:
    """(role of the issuer, our role) of `role=admin`, both trimmed; ours is what follows the last `=`."""
    theirs, _, ours = text.rpartition("=")
    return theirs.strip(), cast("Role", ours.strip())  # the form sees to it


def _role_complaint(text: str) -> str | None:
    theirs, ours = split_role(text)
    return None if theirs and ours in ROLES else f"must be written <role of the issuer>=<{'|'.join(ROLES)}>"


CONTROL_PLANE_KEY = Form("ID:NAME:ROLE:KEY", _complaint, lambda text: ":".join(split_control_plane_key(text)))
ROLE_MAPPING = Form("ROLE=admin|user", _role_complaint, lambda text: "=".join(split_role(text)))
