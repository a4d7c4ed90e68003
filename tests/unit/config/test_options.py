from dataclasses import dataclass

import pytest

from smg.config.options import option, table_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Toy:
    queue_size: int = option(7, "How many.", section="A", aliases=("--depth",))
    ratio: float | None = option(None, "How much.", section="A")
    urls: tuple[str, ...] = option((), "Where.", section="B")
    quiet: bool = option(False, "Whether.", section="B", in_file=False)
    password: str | None = option(None, "What.", section="B", secret=True)


SIZE, RATIO, URLS, QUIET, PASSWORD = table_of(Toy)


def test_every_name_of_an_option_follows_from_its_field():
    assert SIZE.field == "queue_size"
    assert SIZE.flag == "--queue-size"
    assert SIZE.flags == ("--queue-size", "--depth")
    assert SIZE.env == "SMG_QUEUE_SIZE"
    assert SIZE.keys == ("queue_size", "depth")


def test_an_option_that_cannot_stand_in_the_file_has_no_key():
    assert QUIET.keys == ()


@pytest.mark.parametrize(
    ("row", "item", "many"),
    [
        (SIZE, int, False),
        (RATIO, float, False),
        (URLS, str, True),
        (QUIET, bool, False),
        (PASSWORD, str, False),
    ],
)
def test_the_annotation_says_how_an_option_is_read(row, item, many):
    assert (row.item, row.many) == (item, many)


def test_the_declared_default_is_the_default_of_the_field_and_of_the_row():
    assert Toy().queue_size == SIZE.default == 7


def test_a_secret_is_left_out_of_the_repr():
    assert "hush" not in repr(Toy(password="hush"))
