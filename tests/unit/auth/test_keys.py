"""A shared key opens what it should, whatever the scheme's case, and is not kept in the clear."""

import pytest

from smg.auth.keys import SharedKey, bearer_token

KEY = "sk-t\u00e9st key"


@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer ", b"BEARER ", b"bEaReR "])
def test_the_key_opens_in_any_case_of_the_scheme(scheme):
    assert SharedKey(KEY).opens(scheme + KEY.encode())


@pytest.mark.parametrize(
    "authorization",
    [
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
    ],
)
def test_anything_else_does_not(authorization):
    assert not SharedKey(KEY).opens(authorization)


def test_a_token_is_what_follows_the_scheme():
    assert bearer_token(b"Bearer a b") == b"a b"
    assert bearer_token(b"Bearer ") == b""
    assert bearer_token(b"Token a") is None
    assert bearer_token(None) is None


def test_the_key_is_nowhere_in_what_is_kept():
    key = SharedKey(KEY)
    kept = b"".join(getattr(key, slot) for slot in key.__slots__)
    assert KEY.encode() not in kept
    assert KEY not in repr(key)
