from smg.config.settings import OPTIONS
from smg.config.usage import usage


def test_the_help_names_every_flag_under_its_section_within_a_terminal_s_width():
    text = usage("smg launch", "Start.", OPTIONS)
    lines = text.splitlines()
    assert lines[0] == "Usage: smg launch [FLAGS]"
    for row in OPTIONS:
        assert any(line.lstrip().startswith(row.flag) for line in lines)
        assert f"{row.section}:" in lines
        assert all(flag in text for flag in row.flags)
    assert max(map(len, lines)) <= 100


def test_the_help_gives_limits_and_defaults():
    text = usage("smg launch", "Start.", OPTIONS)
    assert "[at least 1, at most 65535; default: 30000]" in text
