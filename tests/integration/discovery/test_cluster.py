"""The two requests to the API server, over real sockets."""

import asyncio
import json
from contextlib import aclosing

import pytest

from smg.services.discovery.cluster import ClusterError, Gone, NoCluster, Undecodable, connect
from support.waiting import until, within

TOKEN = "hush-hush-token"


def write_config(path, url, **user):
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )


@pytest.fixture
async def cluster(api, kubeconfig):
    cluster = connect("models")
    yield cluster
    await cluster.close()


async def events(cluster, version, count, selector="app=engine"):
    """The next events of a watch, as kind and name."""
    found = []
    async with aclosing(cluster.watch_pods(selector, version, 60)) as stream:
        async with asyncio.timeout(30):
            async for event in stream:
                found.append((event.kind, event.pod.metadata.name, event.pod.metadata.resource_version))
                if len(found) == count:
                    return found
    return found


async def test_a_list_has_the_pods_of_the_selector_and_its_version(api, cluster, pod):
    api.put(pod("a"))
    api.put(pod("b", labels={"app": "other"}))
    api.put(pod("c", namespace="elsewhere"))
    pods, version = await within(cluster.list_pods("app=engine"))
    assert [found.metadata.name for found in pods] == ["a"]
    assert version == "103"
    assert api.asked == [{"labelSelector": "app=engine", "limit": "500", "path": "/api/v1/namespaces/models/pods"}]


async def test_a_list_has_the_pods_of_all_pages(api, cluster, pod):
    api.page = 2
    for name in "abcde":
        api.put(pod(name))
    pods, _ = await within(cluster.list_pods("app=engine"))
    assert [found.metadata.name for found in pods] == list("abcde")
    assert [query.get("continue") for query in api.asked] == [None, "2", "4"]


async def test_all_namespaces_are_one_list(api, kubeconfig, pod):
    api.put(pod("a"))
    api.put(pod("b", namespace="elsewhere"))
    cluster = connect(None)
    pods, _ = await within(cluster.list_pods("app=engine"))
    await cluster.close()
    assert [found.metadata.name for found in pods] == ["a", "b"]
    assert api.asked[0]["path"] == "/api/v1/pods"


async def test_a_watch_goes_on_from_a_version_and_asks_for_bookmarks(api, cluster, pod):
    api.put(pod("a"))
    _, version = await within(cluster.list_pods("app=engine"))
    watching = asyncio.create_task(events(cluster, version, 4))
    await until(lambda: api.watches, "a watch")
    api.put(pod("b"))
    api.put(pod("a", ready=False))
    api.bookmark()
    api.delete("b")
    assert await within(watching) == [
        ("ADDED", "b", "102"),
        ("MODIFIED", "a", "103"),
        ("BOOKMARK", "", "104"),
        ("DELETED", "b", "105"),
    ]
    query = api.asked[-1]
    assert (query["watch"], query["allowWatchBookmarks"], query["resourceVersion"]) == ("true", "true", "101")
    assert query["timeoutSeconds"] == "60"


async def test_events_come_whole_however_they_are_cut(api, cluster, pod):
    watching = asyncio.create_task(events(cluster, "100", 2))
    await until(lambda: api.watches, "a watch")
    lines = b"".join(
        json.dumps({"type": "ADDED", "object": {**pod(name), "note": "x" * 70_000}}).encode() + b"\n" for name in "ab"
    )
    for at in range(0, len(lines), 20_011):
        api.watches[0].write(lines[at : at + 20_011])
        await asyncio.sleep(0)
    assert [found[:2] for found in await within(watching)] == [("ADDED", "a"), ("ADDED", "b")]


async def test_what_is_cut_off_at_the_end_is_no_event(api, cluster):
    watching = asyncio.create_task(events(cluster, "100", 1))
    await until(lambda: api.watches, "a watch")
    api.watches[0].write(b'{"type": "ADDED", "obj')
    api.end_watches()
    assert await within(watching) == []


async def test_a_version_that_is_too_old_is_gone(api, cluster):
    api.compact()
    with pytest.raises(Gone, match="too old"):
        await events(cluster, "1", 1)


async def test_a_past_that_goes_while_watching_is_gone(api, cluster):
    watching = asyncio.create_task(events(cluster, "100", 1))
    await until(lambda: api.watches, "a watch")
    api.expire()
    with pytest.raises(Gone, match="too old"):
        await within(watching)


async def test_an_error_in_the_stream_that_is_another_is_just_an_error(api, cluster):
    watching = asyncio.create_task(events(cluster, "100", 1))
    await until(lambda: api.watches, "a watch")
    api.watches[0].write(b'{"type":"ERROR","object":{"code":500,"message":"etcd is away"}}\n')
    with pytest.raises(ClusterError, match="500: etcd is away") as refusal:
        await within(watching)
    assert not isinstance(refusal.value, Gone)


async def test_a_connection_that_is_cut_is_an_error(api, cluster):
    watching = asyncio.create_task(events(cluster, "100", 1))
    await until(lambda: api.watches, "a watch")
    api.cut_watches()
    with pytest.raises(ClusterError):
        await within(watching)


@pytest.mark.parametrize("status", [403, 429, 500])
async def test_a_refusal_is_an_error_with_the_server_s_words(api, cluster, status):
    api.refuse(status, status)
    with pytest.raises(ClusterError, match=f"status {status}: refused with {status}"):
        await within(cluster.list_pods("app=engine"))
    with pytest.raises(ClusterError, match=f"status {status}"):
        await events(cluster, "100", 1)


async def test_what_makes_no_sense_is_told_apart(api, cluster):
    watching = asyncio.create_task(events(cluster, "100", 1))
    await until(lambda: api.watches, "a watch")
    api.watches[0].write(b"<html>\n")
    with pytest.raises(Undecodable):
        await within(watching)


async def test_a_server_that_is_away_is_an_error(kubeconfig, api):
    cluster = connect("models")
    await api.__aexit__()
    with pytest.raises(ClusterError):
        await within(cluster.list_pods("app=engine"))
    await cluster.close()


async def test_a_token_that_was_renewed_on_disk_is_taken(api, tmp_path, monkeypatch):
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("first")
    write_config(tmp_path / "config", api.url, tokenFile=str(account / "token"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    cluster = connect("models")
    api.token = "first"
    await within(cluster.list_pods("app=engine"))
    (account / "token").write_text("second")
    api.token = "second"
    await within(cluster.list_pods("app=engine"))
    await cluster.close()
    assert api.tokens == ["bearer first", "bearer first", "bearer second"]


async def test_no_error_repeats_the_token(api, tmp_path, monkeypatch):
    write_config(tmp_path / "config", api.url, token=TOKEN)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    cluster = connect("models")
    api.token = "another"
    with pytest.raises(ClusterError) as refusal:
        await within(cluster.list_pods("app=engine"))
    await cluster.close()
    assert TOKEN not in str(refusal.value)


@pytest.mark.parametrize(
    "text", [None, "", "- a list", f"users: [{{name: u, user: {{token: {TOKEN}", "contexts: []", "current-context: x"]
)
def test_without_a_usable_configuration_there_is_no_cluster(tmp_path, monkeypatch, text):
    config = tmp_path / "config"
    if text is not None:
        config.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(config))
    with pytest.raises(NoCluster) as refusal:
        connect(None)
    assert TOKEN not in str(refusal.value)


async def test_a_cluster_may_ask_for_no_credentials(api, tmp_path, monkeypatch):
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    cluster = connect("models")
    assert await within(cluster.list_pods("app=engine")) == ([], "100")
    await cluster.close()
    assert api.tokens == [None]
