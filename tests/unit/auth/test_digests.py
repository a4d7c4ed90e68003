"""A secret is found by its whole self, and kept nowhere."""

import pytest

from smg.auth.digests import DigestTable

SECRET = "h\u00fcsh hush"


def table(**secrets):
    made = DigestTable()
    for meaning, secret in secrets.items():
        made.add(secret, meaning)
    return made


def test_each_secret_stands_for_what_it_was_added_as():
    found = table(a=SECRET, b="other")
    assert found.find(SECRET.encode()) == "a"
    assert found.find(b"other") == "b"


@pytest.mark.parametrize(
    "token",
    [None, b"", b"h", SECRET.encode()[:-1], SECRET.encode() + b" ", SECRET.upper().encode(), SECRET.encode("latin-1")],
)
def test_anything_else_stands_for_nothing(token):
    assert table(a=SECRET).find(token) is None


def test_a_table_without_secrets_is_false():
    assert not table()
    assert table(a=SECRET)
    assert table().find(b"") is None


def test_what_is_kept_does_not_hold_the_secret():
    assert "hush" not in repr(table(a=SECRET)._rows)
