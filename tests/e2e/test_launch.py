"""`smg launch`, from its refusals to its last request."""

import signal
import socket
from contextlib import ExitStack

import pytest

from support.bodies import CHAT, chat
from support.client import Client
from support.plain_http import get, post
from support.ports import free_ports
from support.processes import engine_process, launched, launched_beside, run
from support.raw_engine import raw_engine
from support.waiting import eventually, until, within

# --- refusals


def test_every_wrong_flag_is_named_at_once():
    status, stdout, stderr = run(
        *("launch", "--port", "0", "--policy", "nonsense", "--cb-failure-threshold", "0"),
        *("--worker-urls", "ftp://somewhere", "--queue-timeout-secs", "soon", "--no-such-flag", "--api-key", " k"),
    )
    assert status == 2
    assert stdout == ""
    lines = stderr.splitlines()
    for flag in (
        "--port",
        "--policy",
        "--cb-failure-threshold",
        "--worker-urls",
        "--queue-timeout-secs",
        "--no-such-flag",
        "--api-key",
    ):
        assert sum(flag in line for line in lines) == 1, (flag, lines)
    assert len(lines) == 7
    assert "Traceback" not in stderr


def test_addresses_that_are_taken_are_named():
    port, metrics_port = free_ports(2)
    with ExitStack() as stack:
        for number in (port, metrics_port):
            sock = stack.enter_context(socket.socket())
            sock.bind(("127.0.0.1", number))
            sock.listen()
        flags = [
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--prometheus-host",
            "127.0.0.1",
            "--prometheus-port",
            metrics_port,
        ]
        status, _, stderr = run("launch", *flags)
    assert status == 2
    first, second = stderr.splitlines()
    assert first.startswith(f"--port: cannot listen on 127.0.0.1:{port}")
    assert second.startswith(f"--prometheus-port: cannot listen on 127.0.0.1:{metrics_port}")


def test_an_unknown_command_is_refused():
    status, _, stderr = run("lunch")
    assert status == 2
    assert "launch" in stderr


# --- configuration


def test_config_show_tells_every_value_and_its_origin_and_no_secret(tmp_path):
    file = tmp_path / "smg.yaml"
    file.write_text("policy: random\nqueue_size: 7\napi_key: key-in-the-file\n")
    status, stdout, stderr = run(
        *("config", "show", "--config", file, "--queue-size", "9", "--worker-urls", "http://a:1", "http://b:2"),
        SMG_API_KEY="key-in-the-environment",
        SMG_REQUEST_TIMEOUT_SECS="77",
    )
    assert (status, stderr) == (0, "")
    shown = {line.split()[0]: line for line in stdout.splitlines() if line.strip()}
    assert "random" in shown["policy"]
    assert "smg.yaml" in shown["policy"]
    assert " 9" in shown["queue_size"]
    assert "--queue-size" in shown["queue_size"]
    assert "77" in shown["request_timeout_secs"]
    assert "SMG_REQUEST_TIMEOUT_SECS" in shown["request_timeout_secs"]
    assert "http://a:1" in shown["worker_urls"]
    assert "key-in" not in stdout


def test_a_gateway_takes_its_settings_from_file_variables_and_flags(tmp_path):
    file = tmp_path / "smg.yaml"
    with engine_process("--model", "m") as engine:
        file.write_text(f"worker_urls: [{engine}]\nmodel_alias: [nick=m]\nmax_payload_size: 100\n")
        with launched("--config", file, workers=1, SMG_MAX_PAYLOAD_SIZE="1000") as gateway:
            assert post(f"{gateway.url}{CHAT}", chat(model="nick", max_tokens=1)).status == 200
            assert post(f"{gateway.url}{CHAT}", chat("x" * 2000)).status == 413


# --- the end


async def test_a_drain_lets_a_stream_end_and_takes_what_comes_while_it_settles():
    async with raw_engine() as engine:
        flags = ["--worker-urls", engine.url, "--shutdown-grace-period-secs", "8"]
        async with launched_beside(*flags, workers=1) as gateway:
            client = await Client.open(gateway.port)
            await client.send("POST", CHAT, chat(stream=True))
            stream = await engine.call()
            await stream.begin_stream()
            await stream.event("before")
            await client.head()
            assert await client.chunk() == b"data: before\n\n"

            gateway.drain()
            late = await Client.open(gateway.port)
            await late.send("POST", CHAT, chat())
            await (await engine.call()).answer()
            assert (await late.answer()).status == 200
            assert get(f"{gateway.url}/health").status == 200
            assert await late.rest() == b""  # when the listener closes, idle connections end
            with pytest.raises(ConnectionRefusedError):
                await Client.open(gateway.port)

            await stream.event("after")
            assert await client.chunk() == b"data: after\n\n"
            await stream.end_stream()
            assert await client.chunk() == b""
            assert await client.rest() == b""
            await until(lambda: not gateway.process.running, "the gateway's end")
            assert gateway.process.wait() == 0
            assert "draining" in gateway.written
            assert "Traceback" not in gateway.written
            for connection in (client, late):
                await connection.closed()


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_at_once(second):
    async with raw_engine() as engine:
        flags = ["--worker-urls", engine.url, "--shutdown-grace-period-secs", "3600"]
        async with launched_beside(*flags, workers=1) as gateway:
            client = await Client.open(gateway.port)
            await client.send("POST", CHAT, chat(stream=True))
            stream = await engine.call()
            await stream.begin_stream()
            await client.head()
            gateway.drain(signal.SIGINT)
            gateway.process.signal(second)
            assert not (await client.rest()).endswith(b"0\r\n\r\n")  # cut, and not ended
            await within(stream.abandoned())
            await until(lambda: not gateway.process.running, "the gateway's end")
            assert gateway.process.wait() == 0
            assert "Traceback" not in gateway.written
            await client.closed()


def test_an_idle_gateway_ends_when_told_to():
    with launched() as gateway:
        gateway.process.signal(signal.SIGTERM)
        assert gateway.process.wait() == 0
        assert gateway.process.stderr == ""


def test_a_gateway_waits_for_its_engines():
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with launched("--worker-urls", url, "--worker-startup-check-interval", "0.05") as gateway:
        assert gateway.readiness().status == 503
        assert get(f"{gateway.url}/liveness").status == 200
        with engine_process("--port", port, "--model", "m"):
            eventually(lambda: gateway.readiness().status == 200, "readiness")
            assert post(f"{gateway.url}{CHAT}", chat(max_tokens=1)).status == 200
