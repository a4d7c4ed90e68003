import pytest

from smg.config.control_plane_keys import ControlPlaneKey, split_control_plane_key, split_role
from smg.config.settings import OPTIONS
from smg.config.values import convert

ROWS = {row.field: row for row in OPTIONS}
KEYS = ROWS["control_plane_api_keys"]
ROLES = ROWS["jwt_role_mapping"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a:Ann:admin:hush", ("a", "Ann", "admin", "hush")),
        (" a : Ann B : user : hush ", ("a", "Ann B", "user", "hush")),
        ("a:Ann:admin:hush:hush::", ("a", "Ann", "admin", "hush:hush::")),
        ("a::admin:hush", ("a", "", "admin", "hush")),
        ("a:Ann:admin:two words", ("a", "Ann", "admin", "two words")),
    ],
)
def test_a_key_has_an_id_a_name_and_a_role_before_it(text, parts):
    assert split_control_plane_key(text) == ControlPlaneKey(*parts)
    assert convert(KEYS, [text]) == ((":".join(parts),), [])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("hush", "<id>"),
        ("a:hush", "<id>"),
        ("a:Ann:hush", "<id>"),
        ("a:Ann:admin", "<id>"),
        ("a:Ann:admin:", "<id>"),
        ("a:Ann:admin:  ", "<id>"),
        (":Ann:admin:hush", "<id>"),
        ("  :Ann:admin:hush", "<id>"),
        ("a:Ann::hush", "role"),
        ("a:Ann:root:hush", "role"),
        ("a:Ann:Admin:hush", "role"),
        ("a:Ann:hush:admin", "role"),
        ("a:admin:hush:more", "role"),
    ],
)
def test_a_malformed_key_is_refused_and_nothing_of_it_repeated(text, word):
    value, complaints = convert(KEYS, [text])
    assert value == ()
    assert len(complaints) == 1
    assert word in complaints[0]
    assert "hush" not in complaints[0]
    assert "Ann" not in complaints[0]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ops=admin", ("ops", "admin")),
        (" ops = user ", ("ops", "user")),
        ("cn=ops,dc=x=admin", ("cn=ops,dc=x", "admin")),
        ("Platform Team=admin", ("Platform Team", "admin")),
    ],
)
def test_a_mapping_s_own_role_follows_the_last_equals_sign(text, parts):
    assert split_role(text) == parts
    assert convert(ROLES, [text]) == (("=".join(parts),), [])


@pytest.mark.parametrize(
    "text", ["", "ops", "admin", "ops=", "=admin", "ops=root", "ops=Admin", "admin=ops", "ops:admin"]
)
def test_a_mapping_without_a_role_on_either_side_is_refused(text):
    value, complaints = convert(ROLES, [text])
    assert value == ()
    assert len(complaints) == 1


def test_keys_and_their_holders_are_no_part_of_what_settings_look_like():
    assert KEYS.secret
    assert not ROLES.secret
