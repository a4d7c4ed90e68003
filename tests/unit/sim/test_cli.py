from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.sim.cli import _parser, arguments_for, main, options_from
from smg.sim.faults import Fault
from smg.sim.options import ENGINE_NAMES, SimOptions


@given(
    st.builds(
        SimOptions,
        engine=st.sampled_from(ENGINE_NAMES),
        model=st.text(min_size=1, max_size=10),
        port=st.integers(0, 65535),
        tokens_per_second=st.floats(0, 1e6),
        prefill_tokens_per_second=st.floats(0, 1e6),
        ttft_ms=st.floats(0, 1e4),
        max_running_requests=st.integers(1, 999),
        kv_capacity_tokens=st.integers(1, 10**7),
        output_tokens=st.integers(1, 999),
        dp_size=st.integers(1, 8),
        api_key=st.text(max_size=10),
        seed=st.integers(-5, 5),
        weight_version=st.text(max_size=10),
        faults=st.lists(st.builds(Fault, ms=st.floats(0, 9)), max_size=2).map(tuple),
    )
)
def test_options_survive_the_way_through_a_command_line(options):
    parsed = options_from(_parser().parse_args(arguments_for(options)))
    assert parsed == replace(options, may_crash=True)


def test_what_makes_no_sense_ends_with_the_usage(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--output-tokens", "0"])
    assert caught.value.code == 2
    assert "output_tokens must be at least 1" in capsys.readouterr().err


def test_a_wrong_fault_is_explained(capsys):
    with pytest.raises(SystemExit):
        main(["--fault", "kind=explode"])
    assert "kind must be one of latency" in capsys.readouterr().err
