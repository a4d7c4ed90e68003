from dataclasses import dataclass

import pytest

from smg.config.environment import read_environ
from smg.config.options import option, table_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Toy:
    port: int = option(1, "", section="")
    urls: tuple[str, ...] = option((), "", section="")
    pairs: tuple[str, ...] = option((), "", section="", grouped=True)


ROWS = table_of(Toy)


def read(**environ):
    return {name: given.texts for name, given in read_environ(environ, ROWS).items()}


def test_a_single_option_takes_the_whole_text():
    assert read(SMG_PORT="1, 2") == {"port": ("1, 2",)}


@pytest.mark.parametrize("text", ["a b", "a,b", " a ,\n b ", "a,,b"])
def test_a_list_is_separated_by_commas_or_white_space(text):
    assert read(SMG_URLS=text) == {"urls": ("a", "b")}


def test_groups_are_separated_by_commas_alone():
    assert read(SMG_PAIRS="a 1, b") == {"pairs": ("a 1", "b")}


def test_an_empty_variable_empties_a_list_and_is_an_empty_text_elsewhere():
    assert read(SMG_URLS="", SMG_PORT="") == {"urls": (), "port": ("",)}


def test_variables_that_name_no_option_are_left_alone():
    assert read(SMG_SOMETHING="1", PORT="2", smg_port="3") == {}


def test_the_address_of_a_kubernetes_service_is_not_a_port():
    assert read(SMG_PORT="tcp://10.0.0.1:30000") == {}


def test_the_origin_is_the_variable():
    assert str(read_environ({"SMG_PORT": "1"}, ROWS)["port"].origin) == "SMG_PORT"
