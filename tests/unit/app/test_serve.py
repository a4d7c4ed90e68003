import pytest

from smg.app.serve import _parser, engine_options, gateway_arguments, main, router_flags, worker_url


def plan(*argv):
    """The engines and the gateway's command line that a `smg serve` would start."""
    arguments, rest = _parser().parse_known_args(["--backend", "sim", *argv])
    engines = engine_options(arguments)
    return engines, gateway_arguments(arguments, engines, router_flags(rest, fallback=True))


def test_each_replica_listens_on_the_next_port():
    engines, gateway = plan("--data-parallel-size", "3", "--worker-base-port", "4000", "--model", "m")
    assert [worker_url(e) for e in engines] == [f"http://127.0.0.1:{port}" for port in (4000, 4001, 4002)]
    assert {e.model for e in engines} == {"m"}
    at = gateway.index("--worker-urls")
    assert gateway[at + 1 : at + 4] == [worker_url(e) for e in engines]


def test_flags_of_the_engines_reach_the_engines():
    engines, _ = plan("--dp-size", "2", "--engine", "vllm", "--ttft-ms", "5", "--fault", "kind=hang", "--api-key", "k")
    for engine in engines:
        assert (engine.engine, engine.ttft_ms, engine.api_key) == ("vllm", 5.0, "k")
        assert engine.faults[0].kind == "hang"


def test_flags_of_the_gateway_reach_the_gateway():
    _, gateway = plan("--dp-size", "2", "--router-policy", "random", "--router-enable-rl", "--queue-size", "3")
    assert gateway[-4:] == ["random", "--enable-rl", "--queue-size", "3"]
    assert "--policy" in gateway


def test_engines_and_gateway_share_the_key():
    _, gateway = plan("--api-key", "k")
    assert gateway[gateway.index("--api-key") + 1] == "k"
    assert "--api-key" not in plan()[1]


def test_a_single_worker_is_passed_through_to_without_retries_or_breaker():
    _, gateway = plan("--router-policy", "random")
    assert gateway[-4:] == ["--policy", "passthrough", "--disable-retries", "--disable-circuit-breaker"]
    assert "--disable-retries" not in plan("--dp-size", "2")[1]


def test_without_fallback_the_gateways_flags_need_their_prefix():
    assert router_flags(["--router-policy=random", "x"], fallback=False) == ["--policy=random", "x"]
    with pytest.raises(ValueError, match="--policy"):
        router_flags(["--policy=random"], fallback=False)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--backend", "sglang"], "--backend sglang is not available yet"),
        ([], "--backend sglang is not available yet"),
        (["--backend", "sim", "--connection-mode", "grpc"], "--connection-mode grpc is not available yet"),
        (["--backend", "sim", "--dp-size", "0"], "--data-parallel-size must be at least 1"),
        (["--backend", "sim", "--output-tokens", "0"], "output_tokens must be at least 1"),
        (["--backend", "sim", "--router-disable-arg-fallback", "--policy", "random"], "unknown flag --policy"),
    ],
)
def test_what_cannot_be_served_is_refused(argv, said, capsys, monkeypatch):
    monkeypatch.delenv("SMG_DEFAULT_BACKEND", raising=False)
    assert main(argv) == 2
    assert said in capsys.readouterr().err


def test_the_environment_may_name_the_backend(capsys, monkeypatch):
    monkeypatch.setenv("SMG_DEFAULT_BACKEND", "vllm")
    assert main([]) == 2
    assert "--backend vllm is not available yet" in capsys.readouterr().err
