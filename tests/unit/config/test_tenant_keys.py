import pytest

from smg.config.settings import OPTIONS
from smg.config.tenant_keys import split_tenant_key
from smg.config.values import convert

ROW = next(row for row in OPTIONS if row.field == "tenant_api_key")


def test_the_first_colon_parts_the_tenant_from_its_key():
    assert split_tenant_key("red:secret") == ("red", "secret")
    assert split_tenant_key(" blue : a:b ") == ("blue", "a:b")
    assert split_tenant_key("alone") == ("alone", "")


def test_both_parts_are_trimmed():
    assert convert(ROW, [" red : secret ", "blue:a:b"]) == (("red:secret", "blue:a:b"), [])


@pytest.mark.parametrize("text", ["red", "red:", "red:  ", ":hush", "  :hush", "", "hush-hush"])
def test_a_missing_part_is_refused_and_nothing_is_repeated(text):
    value, complaints = convert(ROW, [text])
    assert value == ()
    assert len(complaints) == 1
    assert "hush" not in complaints[0]
