"""The example runs as it is described: as a program, against engines behind a gateway."""

import asyncio
import sys
from pathlib import Path

import pytest

from smg.sim.faults import Fault
from support.processes import environment

SCRIPT = Path(__file__).parents[3] / "examples" / "rl" / "refit_from_disk.py"
CHECKPOINT = ("--model-path", "/ckpt/step-42", "--weight-version", "42")


async def run(*arguments, **variables):
    """Run it to its end: exit status, standard output, standard error."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SCRIPT), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(**variables),
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.fixture
def fleet(stage):
    async def put_up(*faults, **settings):
        engines = [await stage.engine(*faults), await stage.engine()]
        return engines, await stage.gateway(*engines, enable_rl=True, **settings)

    return put_up


async def test_it_refits_every_engine_and_sees_the_new_version_answer(fleet):
    engines, gateway = await fleet()
    status, out, err = await run("--url", gateway.url, *CHECKPOINT)
    assert (status, err) == (0, "")
    for engine in engines:
        assert engine.url in out
        assert engine.machine.weight_version == "42"
        assert not engine.machine.stopped
    assert out.count("HTTP 200") == 2
    assert "answered with weight version 42" in out
    assert sum(engine.machine.seen["/generate"] for engine in engines) == 1


async def test_it_takes_everything_from_the_environment(fleet):
    engines, gateway = await fleet(api_key="admin-key-1")
    status, _, err = await run(
        SMG_URL=gateway.url + "/",
        SMG_ADMIN_TOKEN="admin-key-1",
        SMG_API_KEY="admin-key-1",
        REFIT_SELECTOR=f"base_url in ({engines[0].url}, {engines[1].url})",
        REFIT_MODEL_PATH="/ckpt/step-7",
        REFIT_WEIGHT_VERSION="7",
    )
    assert (status, err) == (0, "")
    assert {engine.machine.weight_version for engine in engines} == {"7"}
    assert {engine.machine.model_path for engine in engines} == {"/ckpt/step-7"}


async def test_it_names_the_engines_that_failed_and_leaves_none_paused(fleet):
    engines, gateway = await fleet(Fault("/update_weights_from_disk", "error", 500))
    status, _, err = await run("--url", gateway.url, *CHECKPOINT)
    assert status == 1
    assert engines[0].url in err
    assert "upstream_error: HTTP 500" in err
    assert engines[1].url not in err
    assert [engine.machine.stopped for engine in engines] == [False, False]


async def test_it_fails_when_an_old_version_answers(stage):
    engine = await stage.engine(Fault("/generate", "error", 400))
    gateway = await stage.gateway(engine, enable_rl=True)
    status, _, err = await run("--url", gateway.url, *CHECKPOINT)
    assert status == 1
    assert "400" in err
    old = await stage.engine(weight_version="41")
    # The selector names one engine, the model another, which is the one that answers.
    other = await stage.engine(model="old", weight_version="41")
    both = await stage.gateway(old, other, enable_rl=True)
    arguments = ("--selector", f"base_url={old.url}", "--model", "old")
    status, _, err = await run("--url", both.url, *arguments, *CHECKPOINT)
    assert status == 1
    assert "answered with weight version 41, not 42" in err


async def test_it_says_what_is_wrong_with_the_gateway(stage):
    gateway = await stage.gateway(await stage.engine())
    status, _, err = await run("--url", gateway.url, *CHECKPOINT)
    assert (status, err) == (1, "http_error (HTTP 404)\n")


async def test_it_says_what_it_needs():
    status, _, err = await run("--url", "http://127.0.0.1:9")
    assert status == 2
    assert "--model-path" in err
    assert "--weight-version" in err
