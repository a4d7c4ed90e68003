"""Who gets past the filters of serving and admin routes."""

import pytest

from smg.auth.keys import KeyRing
from smg.edge.authenticate import admin_filter, serving_filter
from smg.errors import Unauthorized

RING = KeyRing("shared", [("red", "red-key")])


class FakeExchange:
    def __init__(self, key=None):
        self.headers = {} if key is None else {b"authorization": b"Bearer " + key}
        self.tenant = ""


def passes(check, key=None):
    try:
        check(FakeExchange(key))
    except Unauthorized:
        return False
    return True


def test_every_key_serves_and_only_the_shared_one_administers():
    keys = (b"shared", b"red-key", b"other", None)
    assert [passes(serving_filter(RING), key) for key in keys] == [True, True, False, False]
    assert [passes(admin_filter(RING), key) for key in keys] == [True, False, False, False]


def test_with_tenant_keys_alone_nothing_administers():
    ring = KeyRing(tenants=[("red", "red-key")])
    assert not any(passes(admin_filter(ring), key) for key in (b"red-key", b"", None))


@pytest.mark.parametrize(("key", "tenant"), [(b"red-key", "auth:red"), (b"shared", RING.shared_tenant)])
def test_who_serves_is_noted(key, tenant):
    exchange = FakeExchange(key)
    serving_filter(RING)(exchange)
    assert exchange.tenant == tenant
