"""Who uses the control plane, and what they may do there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from smg.auth.digests import DigestTable
from smg.config.control_plane_keys import Role

REALM = "control-plane"
"""What a credential is for, as a refusal names it."""

Method = Literal["api_key", "jwt"]


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever brought a credential: `name` as the audit log shows it, and the kind of the credential."""

    name: str
    method: Method
    role: Role

    @property
    def administers(self) -> bool:
        """Whether admin routes open."""
        return self.role == "admin"


class ControlKeys:
    """The API keys of the control plane, given as triples of holder, role and key."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Iterable[tuple[str, Role, str]] = ()) -> None:
        self._keys: DigestTable[Principal] = DigestTable()
        for holder, role, key in keys:
            self._keys.add(key, Principal(holder, "api_key", role))

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, token: bytes) -> Principal | None:
        """Whose key a token is."""
        return self._keys.find(token)


# Where issuers put the roles of a subject; the first claim that is there counts.
_ROLE_CLAIMS = ("roles", "role", "groups", "group")
_NAME_CLAIMS = ("sub", "email", "preferred_username")


def principal_of(claims: Mapping[str, Any], mapping: Mapping[str, Role]) -> Principal:
    """Whom the claims of a verified token are about.

    With a mapping only the roles in it count, by exact spelling. Without one the roles admin and user stand for
    themselves, in any case. The highest role counts; a subject without any is a user.
    """
    name = next((claims[claim] for claim in _NAME_CLAIMS if _is_text(claims.get(claim))), "unknown")
    texts = next((_texts(claims[claim]) for claim in _ROLE_CLAIMS if claim in claims), [])
    roles = [mapping.get(text) for text in texts] if mapping else [text.lower() for text in texts]
    return Principal(name, "jwt", "admin" if "admin" in roles else "user")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str)]
