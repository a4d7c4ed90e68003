from smg.config.reference import render
from smg.config.settings import OPTIONS


def test_the_page_has_every_option_with_its_variable_under_its_section():
    page = render()
    for row in OPTIONS:
        assert f"## {row.section}\n" in page
        assert f"- **`{row.flag}" in page
        assert f"`{row.env}`" in page
        assert row.summary in page


def test_an_entry_gives_limits_and_default():
    entry = next(line for line in render().splitlines() if line.startswith("- **`--port"))
    assert entry.endswith("At least 1, at most 65535. Default: `30000`. Variable: `SMG_PORT`.")
