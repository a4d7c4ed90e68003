import pytest

from smg.app.placing import placing_of, required_roles, static_specs
from smg.config.settings import Settings
from smg.errors import PlacementError
from smg.fleet.breaker import Breaker, BreakerOptions
from smg.fleet.hints import NO_HINTS, Hints
from smg.fleet.pairs import PairSelector
from smg.fleet.registry import Registry
from smg.fleet.selection import Selector
from smg.fleet.worker import ModelCard, Status, Worker
from smg.telemetry.metrics import Metrics

PAIRS = Settings(pd_disaggregation=True, policy="round_robin")


class Site:
    """A registry, and what places requests on it."""

    def __init__(self, settings):
        self.registry = Registry()
        self.metrics = Metrics()
        self.placing = placing_of(settings, self.registry, self.metrics, lambda: 0.0)
        self.placer = self.placing.placer

    def add(self, name, kind):
        url = f"http://{name}"
        worker = Worker(
            name,
            url,
            url,
            Breaker(BreakerOptions()),
            models=(ModelCard("m"),),
            worker_type=kind,
            status=Status.READY,
            runtime="sglang",
        )
        self.registry.add(worker)
        return worker

    def pair(self):
        return self.add("p", "prefill"), self.add("d", "decode")

    def policy(self, kind):
        return self.placing.policy_name("m", kind)


# --- the workers of the command line


def test_workers_of_the_command_line_have_the_gateway_s_key():
    specs = static_specs(Settings(worker_urls=("http://a", "http://b"), api_key="key"))
    assert [(spec.url, spec.worker_type, spec.api_key) for spec in specs] == [
        ("http://a", "regular", "key"),
        ("http://b", "regular", "key"),
    ]


def test_a_provider_of_the_command_line_does_not_inherit_the_gateway_s_key():
    (spec,) = static_specs(Settings(worker_urls=("https://api.openai.com",), api_key="key"))
    assert spec.api_key is None


def test_legs_of_the_command_line_have_their_roles_and_ports():
    settings = Settings(
        pd_disaggregation=True,
        prefill=("http://p1 9001", "http://p2 none", "http://p3"),
        decode=("http://d",),
        api_key="key",
    )
    specs = static_specs(settings)
    assert [(spec.url, spec.worker_type, spec.bootstrap_port) for spec in specs] == [
        ("http://p1", "prefill", 9001),
        ("http://p2", "prefill", None),
        ("http://p3", "prefill", None),
        ("http://d", "decode", None),
    ]
    assert {spec.api_key for spec in specs} == {"key"}


def test_pairs_take_the_place_of_single_workers(caplog):
    assert [spec.url for spec in static_specs(Settings(pd_disaggregation=True, decode=("http://d",)))] == ["http://d"]
    assert caplog.text == ""
    settings = Settings(pd_disaggregation=True, worker_urls=("http://a",), decode=("http://d",))
    assert [spec.url for spec in static_specs(settings)] == ["http://d"]
    assert "worker URLs are not registered" in caplog.text


def test_the_gateway_is_ready_with_a_worker_of_each_kind_it_needs():
    assert required_roles(Settings()) == ()
    assert required_roles(PAIRS) == ("prefill", "decode")


# --- who places


def test_single_workers_are_placed_on_by_default():
    site = Site(Settings(policy="round_robin"))
    assert type(site.placer) is Selector
    assert set(site.placing.by_type) == {"regular"}


def test_pairs_are_placed_on_with_policies_of_their_own():
    site = Site(PAIRS)
    assert type(site.placer) is PairSelector
    prefill, decode = site.pair()
    assert site.placer.place("m", NO_HINTS) == (decode, prefill)
    assert set(site.placing.by_type) == {"regular", "prefill", "decode"}
    assert len({id(policies.of("m")) for policies in site.placing.policies}) == 3


def test_each_leg_may_have_another_policy():
    site = Site(Settings(pd_disaggregation=True, policy="random", prefill_policy="bucket", decode_policy="manual"))
    site.pair()
    assert (site.policy("prefill"), site.policy("decode")) == ("bucket", "manual")
    site = Site(Settings(pd_disaggregation=True, policy="random", decode_policy="manual"))
    site.pair()
    assert (site.policy("prefill"), site.policy("decode")) == ("random", "manual")


def test_labels_choose_no_policy_for_a_leg():
    site = Site(PAIRS)
    worker = Worker(
        "p", "http://p", "http://p", None, models=(ModelCard("m"),), worker_type="prefill", labels={"policy": "random"}
    )
    site.registry.add(worker)
    assert site.policy("prefill") == "round_robin"


@pytest.mark.parametrize("settings", [Settings(policy="round_robin"), PAIRS])
def test_a_worker_that_moves_is_looked_at_again(settings):
    site = Site(settings)
    workers = [*site.pair(), site.add("r", "regular")]
    site.placer.place("m", NO_HINTS)
    for worker in workers:
        worker.overloaded = True
    site.placing.recheck()
    with pytest.raises(PlacementError) as refused:
        site.placer.place("m", NO_HINTS)
    assert refused.value.code == "worker_overload_protection_shed"


@pytest.mark.parametrize("kind", ["regular", "prefill", "decode"])
def test_a_worker_that_is_well_again_is_chosen_again(kind):
    site = Site(Settings(policy="round_robin") if kind == "regular" else PAIRS)
    one, other = site.add("one", kind), site.add("other", kind)
    if kind != "regular":
        site.add("partner", "decode" if kind == "prefill" else "prefill")
    one.overloaded = True
    site.placing.recheck()

    def placed():
        return {worker for _ in range(4) for worker in site.placer.place("m", NO_HINTS)}

    assert one not in placed()
    one.overloaded = False
    site.placing.recheck()
    assert placed() >= {one, other}


def test_the_workers_of_decisions_are_looked_at_again_too():
    site = Site(Settings(policy="round_robin"))
    one, other = site.add("one", "regular"), site.add("other", "regular")
    one.overloaded = True
    site.placing.recheck()
    assert site.placing.decisions.place("m", NO_HINTS).worker is other
    one.overloaded = False
    site.placing.recheck()
    assert {site.placing.decisions.place("m", NO_HINTS).worker for _ in range(4)} == {one, other}


@pytest.mark.parametrize("settings", [Settings(policy="round_robin"), PAIRS])
def test_requests_that_are_shed_are_counted_and_told_when_to_come_back(settings):
    site = Site(settings)
    for worker in (*site.pair(), site.add("r", "regular")):
        worker.overloaded = True
    with pytest.raises(PlacementError) as refused:
        site.placer.place("m", NO_HINTS)
    assert refused.value.retry_after_secs == 10  # the load monitor's interval
    assert {labels: child.value for labels, child in site.metrics.worker_overload_shed.recorded()} == {
        ("selection",): 1
    }


@pytest.mark.parametrize(
    ("chosen", "tokens"),
    [
        ({"policy": "least_load"}, 7),
        ({"policy": "random", "prefill_policy": "least_load"}, 7),
        ({"policy": "random", "decode_policy": "least_load"}, 7),
        ({"policy": "least_load", "prefill_policy": "random", "decode_policy": "random"}, 1024),
        ({"policy": "random"}, 1024),
    ],
)
def test_a_prompt_of_unknown_length_counts_what_least_load_says_if_a_leg_uses_it(chosen, tokens):
    site = Site(Settings(pd_disaggregation=True, least_load_mean_prefill_tokens=7, **chosen))
    legs = site.pair()
    site.placer.lease(site.placer.place("m", NO_HINTS), NO_HINTS)
    assert [worker.dispatched_tokens for worker in legs] == [tokens, tokens]
    site.placer.lease(site.placer.place("m", NO_HINTS), Hints(tokens=[1, 2]))
    assert [worker.dispatched_tokens for worker in legs] == [tokens + 2, tokens + 2]


def test_pairs_have_no_sticky_sessions(caplog):
    assert Site(Settings(routing_key_override=True)).placing.sessions is not None
    assert caplog.text == ""
    assert Site(Settings(routing_key_override=True, pd_disaggregation=True)).placing.sessions is None
    assert "--routing-key-override" in caplog.text


def test_without_the_override_there_are_none_at_all(caplog):
    for settings in (Settings(), PAIRS):
        assert Site(settings).placing.sessions is None
    assert caplog.text == ""
