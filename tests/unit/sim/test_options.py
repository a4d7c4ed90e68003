import pytest

from smg.sim.options import SimOptions


def test_every_problem_is_named_at_once():
    with pytest.raises(
        ValueError, match=r"ttft_ms must not be negative.*output_tokens must be at least 1.*model must not"
    ):
        SimOptions(ttft_ms=-1, output_tokens=0, model="")


def test_engines_and_ports_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="engine must be one of sglang, vllm, openai"):
        SimOptions(engine="other")
    with pytest.raises(ValueError, match="port must be at most 65535"):
        SimOptions(port=70000)
