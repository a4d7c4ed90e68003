"""Whom keys and claims are about, and what they may do."""

import pytest

from smg.auth.principals import ControlKeys, Principal, principal_of

MAPPING = {"Ops": "admin", "Dev": "user"}

ROLES = [
    # What the token says, the mapping, the role here.
    ({"roles": ["admin"]}, {}, "admin"),
    ({"roles": "admin"}, {}, "admin"),
    ({"roles": ["ADMIN"]}, {}, "admin"),
    ({"role": "Admin"}, {}, "admin"),
    ({"groups": ["x", "admin"]}, {}, "admin"),
    ({"group": "admin"}, {}, "admin"),
    ({"roles": ["user", "admin"]}, {}, "admin"),
    ({"roles": ["user"]}, {}, "user"),
    ({"roles": []}, {}, "user"),
    ({}, {}, "user"),
    ({"roles": ["administrator", "admin ", "admin,user"]}, {}, "user"),
    ({"roles": "user admin"}, {}, "user"),
    ({"scope": "admin"}, {}, "user"),
    ({"roles": [5, None, ["admin"], {"admin": True}]}, {}, "user"),
    ({"roles": [5, "admin"]}, {}, "admin"),
    ({"roles": None}, {}, "user"),
    ({"roles": True}, {}, "user"),
    ({"roles": {"admin": True}}, {}, "user"),
    # The first claim that is there counts, whatever it holds.
    ({"roles": ["user"], "role": "admin"}, {}, "user"),
    ({"roles": [], "groups": ["admin"]}, {}, "user"),
    ({"roles": None, "role": "admin"}, {}, "user"),
    ({"role": "user", "groups": ["admin"], "group": "admin"}, {}, "user"),
    ({"group": "user", "groups": ["admin"]}, {}, "admin"),
    # With a mapping only what it holds counts, by exact spelling.
    ({"roles": ["Ops"]}, MAPPING, "admin"),
    ({"roles": ["Dev", "Ops"]}, MAPPING, "admin"),
    ({"roles": ["Dev"]}, MAPPING, "user"),
    ({"roles": ["ops", "OPS", "Ops "]}, MAPPING, "user"),
    ({"roles": ["admin"]}, MAPPING, "user"),
    ({"roles": "Ops"}, MAPPING, "admin"),
    ({"groups": ["else", "Ops"]}, MAPPING, "admin"),
]


@pytest.mark.parametrize(("said", "mapping", "role"), ROLES)
def test_the_highest_role_of_the_first_claim_counts(said, mapping, role):
    found = principal_of({"sub": "ann", **said}, mapping)
    assert found == Principal("ann", "jwt", role)
    assert found.administers is (role == "admin")


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"sub": "s", "email": "e", "preferred_username": "p"}, "s"),
        ({"email": "e", "preferred_username": "p"}, "e"),
        ({"preferred_username": "p"}, "p"),
        ({"sub": "", "email": "e"}, "e"),
        ({"sub": 5, "email": None, "preferred_username": "p"}, "p"),
        ({"sub": ["s"]}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_a_subject_is_called_by_the_first_name_it_has(said, name):
    assert principal_of(said, {}).name == name


def test_a_key_tells_its_holder_and_its_role():
    keys = ControlKeys([("a", "admin", "one"), ("a", "admin", "two"), ("b", "user", "b:three")])
    assert keys.find(b"one") == keys.find(b"two") == Principal("a", "api_key", "admin")
    assert keys.find(b"b:three") == Principal("b", "api_key", "user")
    assert not keys.find(b"b:three").administers


@pytest.mark.parametrize("token", [b"", b"a", b"ONE", b"one ", b"a::admin:one", b"\xff"])
def test_what_is_no_key_is_nobody_s(token):
    assert ControlKeys([("a", "admin", "one")]).find(token) is None


def test_without_keys_there_are_none():
    assert not ControlKeys()
    assert ControlKeys([("a", "user", "one")])
