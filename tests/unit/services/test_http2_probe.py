import pytest

from smg.errors import ConfigError
from smg.fleet.spec import HttpPoolSpec, WorkerSpec
from smg.services import http2_probe
from smg.services.http2_probe import Http2Probe
from smg.services.jobs import JobFailed


def spec(url="http://a", http2=None, **fields):
    return WorkerSpec(url=url, http_pool=HttpPoolSpec(http2=http2), **fields)


@pytest.fixture
def without_h2(monkeypatch):
    monkeypatch.setattr(http2_probe, "find_spec", lambda _name: None)


def test_the_flag_without_the_package_is_refused_and_says_what_to_install(engines, without_h2):
    with pytest.raises(ConfigError, match=r"--upstream-http2: .* pip install 'smg-gateway\[http2\]'"):
        Http2Probe(engines, wanted=True)


async def test_a_worker_that_asks_for_it_without_the_package_is_refused(engines, without_h2):
    probe = Http2Probe(engines, wanted=False)
    with pytest.raises(JobFailed, match="pip install"):
        await probe.choose(spec(http2=True))
    assert await probe.choose(spec()) is False


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("own", [True, False])
async def test_a_workers_own_setting_decides_without_a_question(engines, wanted, own):
    assert await Http2Probe(engines, wanted=wanted).choose(spec(http2=own)) is own
    assert engines.calls == []


@pytest.mark.parametrize(
    "worker", [spec("grpc://a:1"), spec("ipc:///tmp/a"), spec("https://api.openai.com"), spec(runtime_type="external")]
)
async def test_engines_of_other_transports_and_providers_are_not_asked(engines, worker):
    assert await Http2Probe(engines, wanted=True).choose(worker) is False
    assert engines.calls == []
