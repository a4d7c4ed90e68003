"""Keys open what they should, whatever the scheme's case, and are not kept in the clear."""

from hashlib import sha256

import pytest

from smg.auth.keys import KeyRing, bearer_token

KEY = "sk-t\u00e9st key"
RING = KeyRing(KEY, [("red", "red-key"), ("blue", "a:b"), ("blue", "second")])
SHARED_TENANT = "auth:" + sha256(KEY.encode()).hexdigest()

NOTHING = [
    None,
    b"",
    b"Bearer",
    b"Bearer ",
    b"Bearer  " + KEY.encode(),
    b"Bearer " + KEY.encode() + b" ",
    b"Bearer " + KEY.upper().encode(),
    b"Bearer " + KEY.encode()[:-1],
    b"Bearer " + KEY.encode("latin-1"),
    b"Bearer\t" + KEY.encode(),
    b"Basic " + KEY.encode(),
    KEY.encode(),
    b"Bearer red",
    b"Bearer red:red-key",
    b"Bearer blue:a:b",
    b"Bearer a",
]


@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer ", b"BEARER ", b"bEaReR "])
def test_the_shared_key_opens_everything_in_any_case_of_the_scheme(scheme):
    assert RING.tenant_of(scheme + KEY.encode()) == RING.shared_tenant == SHARED_TENANT
    assert RING.administers(scheme + KEY.encode())


@pytest.mark.parametrize(("key", "tenant"), [(b"red-key", "auth:red"), (b"a:b", "auth:blue"), (b"second", "auth:blue")])
def test_a_tenant_s_keys_open_serving_routes_only(key, tenant):
    assert RING.tenant_of(b"Bearer " + key) == tenant
    assert not RING.administers(b"Bearer " + key)


@pytest.mark.parametrize("authorization", NOTHING)
def test_anything_else_opens_nothing(authorization):
    assert RING.tenant_of(authorization) is None
    assert not RING.administers(authorization)


def test_without_a_shared_key_nothing_administers():
    ring = KeyRing(tenants=[("red", "red-key")])
    assert ring.locks
    assert ring.shared_tenant is None
    assert not ring.administers(b"Bearer red-key")


def test_a_ring_without_keys_locks_nothing():
    assert not KeyRing().locks
    assert KeyRing("k").locks


def test_the_ring_knows_all_its_keys():
    assert all(RING.holds(key) for key in (KEY.encode(), b"red-key", b"a:b"))
    assert not any(RING.holds(key) for key in (b"", b"red", b"red:red-key"))


def test_a_token_is_what_follows_the_scheme():
    assert bearer_token(b"Bearer a b") == b"a b"
    assert bearer_token(b"Bearer ") == b""
    assert bearer_token(b"Token a") is None
    assert bearer_token(None) is None


def test_the_keys_are_nowhere_in_what_is_kept():
    kept = repr([getattr(RING, slot) for slot in RING.__slots__]) + repr(RING)
    for key in (KEY, "red-key", "second"):
        assert key not in kept
