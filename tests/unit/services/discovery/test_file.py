import asyncio
import logging
import os

import pytest

from smg.services.discovery.bell import Bell
from smg.services.discovery.file import MAX_FILE_BYTES, FileOptions, FileSource


class Fleet:
    """Stands in for the reconciler: the passes made, as the addresses desired."""

    source = "file"

    def __init__(self):
        self.passes = []

    def apply(self, desired):
        self.passes.append([one.spec.url for one in desired])


class Watched:
    """A source over a file of the test's, which looks as often as it can."""

    def __init__(self, path, metrics, interval_secs):
        self.path = path
        self.fleet = Fleet()
        self.bell = Bell(0)
        self.metrics = metrics
        options = FileOptions(path, interval_secs, look_secs=0.001)
        self.source = FileSource(options, self.fleet, self.bell, metrics)

    def errors(self, reason):
        return self.metrics.discovery_snapshot_errors.labels("file", reason).value

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110  what is waited for has no event
                await asyncio.sleep(0.001)

    async def desired(self, *urls):
        """Wait for a pass with these addresses."""
        await self.until(lambda: self.fleet.passes and self.fleet.passes[-1] == list(urls))


@pytest.fixture
async def watch(tmp_path, site):
    running = []

    async def start(text=None, interval_secs=3600.0):
        path = tmp_path / "workers.yaml"
        if text is not None:
            path.write_text(text)
        watched = Watched(path, site.metrics, interval_secs)
        running.append(asyncio.create_task(watched.source.run()))
        return watched

    yield start
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_the_file_is_read_at_the_start_and_when_it_changes(watch):
    watched = await watch("- http://a\n")
    await watched.desired("http://a")
    watched.path.write_text("- http://a\n- http://b\n")
    await watched.desired("http://a", "http://b")


async def test_a_file_that_is_replaced_is_read(watch, tmp_path):
    watched = await watch("- http://a\n")
    await watched.desired("http://a")
    fresh = tmp_path / "fresh"
    fresh.write_text("- http://b\n")
    fresh.replace(watched.path)
    await watched.desired("http://b")


async def test_a_file_may_appear_after_the_start(watch):
    watched = await watch()
    await watched.until(lambda: watched.errors("unreadable"))
    assert watched.fleet.passes == []
    watched.path.write_text("- http://a\n")
    await watched.desired("http://a")


async def test_a_file_that_breaks_changes_nothing_and_is_logged_once_with_its_line(watch, caplog):
    watched = await watch("- http://a\n", interval_secs=0.01)
    await watched.desired("http://a")
    watched.path.write_text("- http://a\n- {url: http://b, api_key: [hush]}\n")
    await watched.until(lambda: watched.errors("invalid") > 2)
    assert watched.fleet.passes[-1] == ["http://a"]
    refused = [record.fields for record in caplog.records if record.message == "discovery file refused"]
    assert [fields["problem"].partition(":")[0] for fields in refused] == ["line 2"]
    assert "hush" not in str([getattr(record, "fields", record) for record in caplog.records])


async def test_a_file_that_vanishes_changes_nothing(watch):
    watched = await watch("- http://a\n")
    await watched.desired("http://a")
    watched.path.unlink()
    await watched.until(lambda: watched.errors("unreadable"))
    assert watched.fleet.passes[-1] == ["http://a"]


async def test_a_file_that_is_good_again_says_so(watch, caplog):
    caplog.set_level(logging.INFO)
    watched = await watch("[")
    await watched.until(lambda: watched.errors("invalid"))
    watched.path.write_text("- http://a\n")
    await watched.desired("http://a")
    assert "discovery file is good again" in caplog.messages


async def test_the_same_trouble_is_logged_anew_when_it_comes_back(watch, caplog):
    watched = await watch("[")
    await watched.until(lambda: watched.errors("invalid"))
    for number, text in enumerate(["- http://a\n", "[", "- http://b\n", "["]):
        failures = watched.errors("invalid")
        watched.path.write_text(text)
        if number % 2:
            await watched.until(lambda failures=failures: watched.errors("invalid") > failures)
        else:
            await watched.desired(text.split()[1])
    assert caplog.messages.count("discovery file refused") == 3


async def test_a_file_is_read_only_when_it_stands_still(watch, monkeypatch):
    stamps = [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 3, 0), (3, 3, 0)]
    seen = []

    def look(path):
        stamp = stamps[min(len(seen), len(stamps) - 1)]
        path.write_text(f"- http://{stamp[0]}\n")  # the file grows from look to look
        seen.append(stamp)
        return stamp

    monkeypatch.setattr("smg.services.discovery.file._look", look)
    watched = await watch()
    await watched.desired("http://3")
    assert watched.fleet.passes == [["http://0"], ["http://3"]]


async def test_a_change_that_leaves_no_trace_is_found_at_the_interval(watch):
    watched = await watch("- http://a\n", interval_secs=0.05)
    await watched.desired("http://a")
    before = watched.path.stat()
    with watched.path.open("r+") as file:
        file.write("- http://b\n")
    os.utime(watched.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    await watched.desired("http://b")


async def test_the_interval_makes_a_pass_although_nothing_changed(watch):
    watched = await watch("- http://a\n", interval_secs=0.01)
    await watched.until(lambda: len(watched.fleet.passes) > 2)


async def test_a_ring_makes_a_pass(watch):
    watched = await watch("- http://a\n")
    await watched.desired("http://a")
    count = len(watched.fleet.passes)
    watched.bell.ring()
    await watched.until(lambda: len(watched.fleet.passes) > count)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"\xff\xfe- h", "invalid"), (b"#" * (MAX_FILE_BYTES + 1), "unreadable")]
)
async def test_what_is_no_text_or_too_large_is_refused(watch, content, reason):
    watched = await watch("- http://a\n")
    await watched.desired("http://a")
    watched.path.write_bytes(content)
    await watched.until(lambda: watched.errors(reason))
    assert watched.fleet.passes[-1] == ["http://a"]


async def test_a_mark_at_the_beginning_is_no_part_of_the_text(watch):
    watched = await watch()
    watched.path.write_bytes("\ufeff- http://a\n".encode())
    await watched.desired("http://a")
