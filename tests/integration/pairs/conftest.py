"""Gateways in front of prefill/decode pairs on the stage."""

import asyncio

import pytest

from support.waiting import until


def listed(engines):
    return engines if isinstance(engines, list) else [engines]


@pytest.fixture
def pairs(stage):
    """Makes a gateway in front of prefill and decode engines, one or a list of each."""

    async def make(prefill, decode, *, ready=True, **settings):
        prefills, decodes = listed(prefill), listed(decode)
        gateway = await stage.gateway(
            ready=False,
            pd_disaggregation=True,
            prefill=tuple(f"{engine.url} 9001" for engine in prefills),
            decode=tuple(engine.url for engine in decodes),
            **settings,
        )
        if ready:
            await gateway.registered(len(prefills) + len(decodes))
        return gateway

    return make


@pytest.fixture
def transfers(stage):
    """The same with engines of vLLM's kind, which a gateway does not recognise by itself in raw ones."""

    async def make(prefill, decode, **settings):
        gateway = await stage.gateway(ready=False, pd_disaggregation=True, **settings)
        for kind, engines in (("prefill", listed(prefill)), ("decode", listed(decode))):
            for engine in engines:
                spec = {"url": engine.url, "worker_type": kind, "runtime_type": "vllm", "kv_connector": "NixlConnector"}
                spec |= {"health": {"drain_settle_secs": 0}}
                assert (await gateway.post("/workers", spec)).status == 202
        await gateway.registered(len(listed(prefill)) + len(listed(decode)))
        return gateway

    return make


@pytest.fixture
def turn():
    """Let everything that is ready run."""

    async def turn_loop(times=10):
        for _ in range(times):
            await asyncio.sleep(0)

    return turn_loop


@pytest.fixture
def outcomes():
    """What the breaker of an engine's worker heard: (successes, failures)."""

    async def ask(gateway, engine):
        scrape = await gateway.scrape()
        return tuple(
            scrape.value("smg_worker_cb_outcomes_total", worker=engine.url, outcome=outcome)
            for outcome in ("success", "failure")
        )

    return ask


@pytest.fixture
def drained():
    """Wait until a prefill engine's part is over."""

    async def wait(gateway, engine):
        await until(lambda: not gateway.worker(engine).load, "the end of prefill's answer")

    return wait
