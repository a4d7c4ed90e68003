"""One large recording: `python -m bench.load_upload`, and what the gateway's memory grows by while it passes.

A small one goes first, so that what is loaded on first use does not count.
"""

import argparse
import asyncio
import json
import sys
from http import HTTPStatus

import uvloop

from bench import procfs, wire
from bench.plain_http import PlainClient

_MIB = 1 << 20
_BOUNDARY = b"a-boundary-that-no-recording-holds"
_PIECE = bytes(range(256)) * (_MIB // 256)
_SAMPLE_SECS = 0.005


async def upload(client: PlainClient, port: int, mebibytes: int) -> None:
    """Send a form with a file of that size, piece by piece, and wait for its answer."""
    before = b'--%b\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n' % (_BOUNDARY, wire.MODEL.encode())
    before += b'--%b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' % _BOUNDARY
    after = b"\r\n--%b--\r\n" % _BOUNDARY
    length = len(before) + mebibytes * _MIB + len(after)
    lines = (
        "POST /v1/audio/transcriptions HTTP/1.1",
        f"host: 127.0.0.1:{port}",
        f"content-type: multipart/form-data; boundary={_BOUNDARY.decode()}",
        f"content-length: {length}",
    )
    await client.send("\r\n".join([*lines, "", ""]).encode() + before)
    for _ in range(mebibytes):
        await client.send(_PIECE)
    answer = await client.ask(after)
    if answer.status != HTTPStatus.OK:
        raise RuntimeError(f"an upload was answered {answer.status}: {answer.body[:200]!r}")


async def growth_kb(port: int, gateway_pid: int, mebibytes: int) -> float:
    client = await PlainClient.to(port)
    await upload(client, port, 2)
    pids = procfs.process_tree(gateway_pid)
    before = most = procfs.rss_kb(pids)
    uploading = asyncio.ensure_future(upload(client, port, mebibytes))
    while not uploading.done():
        most = max(most, procfs.rss_kb(pids))
        await asyncio.sleep(_SAMPLE_SECS)
    await uploading
    client.close()
    return float(most - before)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load_upload")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--gateway-pid", type=int, required=True)
    parser.add_argument("--workers-pid", type=int, required=True)
    parser.add_argument("--mebibytes", type=int, default=500)
    args = parser.parse_args()
    json.dump({"growth_kb": uvloop.run(growth_kb(args.port, args.gateway_pid, args.mebibytes))}, sys.stdout)


if __name__ == "__main__":
    main()
