import pytest

from smg.config.forms import (
    ALIAS,
    AUDIENCE,
    HEADER_NAME,
    HOST,
    ISSUER,
    KEY,
    LABEL_NAME,
    MODEL_ID_SOURCE,
    NAMESPACE,
    ORIGIN,
    PREFILL,
    SELECTOR,
    URL_PATH,
    WORKER_URL,
    split_alias,
    split_prefill,
    split_selector,
)
from smg.config.hosts import is_confidential


@pytest.mark.parametrize(
    "url",
    [
        "http://worker:8000",
        "https://worker",
        "http://10.0.0.1:1",
        "http://[::1]:65535",
        "http://[fd00::2]",
        "http://my-worker.svc.cluster.local:8000/base/path",
        "http://UPPER_case:80",
    ],
)
def test_a_worker_url_has_a_scheme_a_host_and_maybe_a_port_and_a_path(url):
    assert WORKER_URL.complaint(url) is None


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("127.0.0.1:1", "http://"),
        ("ftp://h:1", "http://"),
        ("HTTP://h:1", "lower case"),
        ("http:/h", "http://"),
        ("http://", "host"),
        ("http://:80", "host"),
        ("http:///path", "host"),
        ("http://h h", "visible"),
        ("http://hé", "visible"),
        ("http://h:0", "port"),
        ("http://h:65536", "port"),
        ("http://h:", "port"),
        ("http://h:80x", "port"),
        ("http://h:1:2", "port"),
        ("http://[::1", "IPv6"),
        ("http://[nonsense]", "IPv6"),
        ("http://[::1]x", "host"),
        ("http://h?x=1", "query"),
        ("http://h/#x", "fragment"),
        ("http://user:word@h", "credentials"),
        ("grpc://h:1", "not supported yet"),
        ("grpcs://h:1", "not supported yet"),
        ("ipc:///tmp/x", "not supported yet"),
    ],
)
def test_a_bad_worker_url_is_told_what_is_wrong_with_it(url, word):
    complaint = WORKER_URL.complaint(url)
    assert complaint is not None
    assert word in complaint


def test_a_worker_url_with_and_without_a_trailing_slash_is_the_same():
    assert WORKER_URL.clean("http://h:1/") == WORKER_URL.clean("http://h:1") == "http://h:1"


@pytest.mark.parametrize("name", ["x-request-id", "X_Trace", "a!#$%&'*+.^`|~b"])
def test_a_header_name_is_a_token(name):
    assert HEADER_NAME.complaint(name) is None
    assert HEADER_NAME.clean(name) == name.lower()


@pytest.mark.parametrize("name", ["", "bad:header", "a b", "é", "a\n"])
def test_what_is_no_token_is_no_header_name(name):
    assert HEADER_NAME.complaint(name) is not None


@pytest.mark.parametrize("path", ["/health", "/", "/v1/health?deep=1"])
def test_a_path_starts_with_a_slash(path):
    assert URL_PATH.complaint(path) is None


@pytest.mark.parametrize("path", ["health", "/a b", "/a#b", "http://h/health"])
def test_a_path_is_nothing_else(path):
    assert URL_PATH.complaint(path) is not None


@pytest.mark.parametrize("host", ["0.0.0.0", "::1", "fe80::1%eth0", "gateway.local"])
def test_a_host_is_a_name_or_an_address(host):
    assert HOST.complaint(host) is None


@pytest.mark.parametrize("host", ["http://h", "h h", "h/1"])
def test_a_host_is_not_a_url(host):
    assert HOST.complaint(host) is not None


def test_a_key_has_no_white_space_around_it():
    assert KEY.complaint("two words") is None
    assert KEY.complaint(" hush") is not None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("nonsense", "<alias>=<model>"),
        ("=b", "<alias>=<model>"),
        ("a=", "<alias>=<model>"),
        ("a=a", "another name"),
        (" a = a ", "another name"),
        ("unknown=b", "unknown"),
    ],
)
def test_a_bad_alias_is_told_what_is_wrong_with_it(text, word):
    complaint = ALIAS.complaint(text)
    assert complaint is not None
    assert word in complaint


def test_an_alias_is_trimmed_and_split_at_its_first_equals_sign():
    assert ALIAS.complaint("a = b=c") is None
    assert split_alias(ALIAS.clean("a = b=c")) == ("a", "b=c")


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("app=engine", [("app", "engine")]),
        ("a=b  c=d", [("a", "b"), ("c", "d")]),
        ("a=b,c=d", [("a", "b"), ("c", "d")]),
        ("example.com/role=x.y_z-1", [("example.com/role", "x.y_z-1")]),
        ("a=", [("a", "")]),
    ],
)
def test_a_selector_is_one_or_more_labels_with_their_values(text, pairs):
    assert SELECTOR.complaint(text) is None
    assert split_selector(text) == pairs


@pytest.mark.parametrize(
    "text", ["", " ", ",", "a", "a b=c", "a==b", "a!=b", "=b", "-a=b", "a/=b", "a=b/c", "a=" + "b" * 64]
)
def test_a_selector_that_kubernetes_would_not_take_is_refused(text):
    assert "<label>=<value>" in SELECTOR.complaint(text)


@pytest.mark.parametrize("text", ["namespace", "label:model", "annotation:example.com/model"])
def test_a_model_id_comes_from_the_namespace_a_label_or_an_annotation(text):
    assert MODEL_ID_SOURCE.complaint(text) is None


@pytest.mark.parametrize("text", ["", "label", "label:", "annotation", "namespace:", "pod:x", "label:a b"])
def test_a_model_id_comes_from_nowhere_else(text):
    assert "namespace" in MODEL_ID_SOURCE.complaint(text)


def test_names_are_spelled_as_kubernetes_spells_them():
    assert LABEL_NAME.complaint("smg.ai/kv-connector") is None
    assert LABEL_NAME.complaint("smg.ai/") is not None
    assert NAMESPACE.complaint("models-1") is None
    assert NAMESPACE.complaint("a/../b") is not None


@pytest.mark.parametrize(
    ("text", "url", "port"),
    [
        ("http://a:8000", "http://a:8000", None),
        ("http://a:8000/", "http://a:8000", None),
        ("http://a:8000/ 9001", "http://a:8000", 9001),
        ("http://a none", "http://a", None),
        ("https://[::1]:1 65535", "https://[::1]:1", 65535),
    ],
)
def test_a_prefill_worker_is_a_url_and_maybe_a_port(text, url, port):
    assert PREFILL.complaint(text) is None
    assert split_prefill(PREFILL.clean(text)) == (url, port)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "http://"),
        ("9001", "http://"),
        ("a:8000 9001", "http://"),
        ("http://a x", "port"),
        ("http://a 0", "port"),
        ("http://a 65536", "port"),
        ("http://a -1", "port"),
        ("http://a None", "port"),
        ("http://a 9001 9002", "port"),
        ("http://a  9001", "port"),
        ("http://a ²", "port"),
        ("http://a:0 9001", "port"),
        ("http://user:word@a 9001", "credentials"),
    ],
)
def test_what_is_no_prefill_worker_is_refused(text, word):
    complaint = PREFILL.complaint(text)
    assert word in complaint
    assert "word@" not in complaint


@pytest.mark.parametrize(
    "url",
    [
        "https://issuer.example",
        "https://issuer.example/",
        "https://issuer.example:8443/realms/one",
        "https://[fd00::2]/",
        "http://localhost:8080/realms/one",
        "http://127.0.0.1:8080",
        "http://127.8.9.1",
        "http://[::1]:8080",
    ],
)
def test_an_issuer_speaks_tls_or_is_on_this_machine(url):
    assert ISSUER.complaint(url) is None
    assert ISSUER.clean(url) == url  # tokens name it exactly so
    assert is_confidential(url)


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("", "https://"),
        ("issuer.example", "https://"),
        ("http://issuer.example", "https://"),
        ("http://10.0.0.1", "https://"),
        ("http://localhost.example", "https://"),
        ("http://127.0.0.1.example", "https://"),
        ("http://127.0.0.1@issuer.example", "https://"),
        ("http://[::2]", "https://"),
        ("http://[::1", "https://"),
        ("https://[::1", "https://"),
        ("ftp://localhost", "https://"),
        ("https://issuer example", "https://"),
        ("https://issu\u00e9r.example", "https://"),
        ("https://", "host"),
        ("https://:443", "host"),
        ("https://issuer.example:0", "port"),
        ("https://issuer.example?x=hush", "query"),
        ("https://issuer.example#hush", "fragment"),
        ("https://user:hush@issuer.example", "credentials"),
        ("http://user:hush@localhost", "credentials"),
    ],
)
def test_an_issuer_that_cannot_be_believed_is_told_why(url, word):
    complaint = ISSUER.complaint(url)
    assert complaint is not None
    assert word in complaint
    assert "hush" not in complaint


@pytest.mark.parametrize(
    ("text", "sound"), [("smg", True), ("https://gw/x", True), ("", False), ("a b", False), ("\u00e9", False)]
)
def test_an_audience_is_one_visible_word(text, sound):
    assert (AUDIENCE.complaint(text) is None) is sound


@pytest.mark.parametrize(
    "text",
    ["*", "https://app.example", "http://localhost:3000", "HTTPS://App.Example", "https://[::1]:8443", "app+x://local"],
)
def test_an_origin_is_a_scheme_a_host_and_maybe_a_port(text):
    assert ORIGIN.complaint(text) is None
    assert ORIGIN.clean(text) == text.lower()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "app.example",
        "://app.example",
        "https://",
        "https://*",
        "https://*.example",
        "https://app.example/",
        "https://app.example/path",
        "https://app.example:8443/",
        "https://app.example:8443/path",
        "https://app.example:8443?x",
        "https://app.example:",
        "https://app.example:0",
        "https://app.example:65536",
        "https://user@app.example",
        "https://user:word@app.example",
        "https://[::1",
        "https://[::1]/",
        "https://a.example https://b.example",
        "https://app.example\r\nx: y",
    ],
)
def test_an_origin_is_nothing_a_browser_would_not_send(text):
    assert ORIGIN.complaint(text) is not None
