import pytest

from smg.fleet.spec import WorkerSpec
from smg.fleet.worker import ModelCard
from smg.services.discovery.desired import Desired, with_scheme


def test_a_worker_that_is_not_renamed_is_registered_as_it_is():
    spec = WorkerSpec(url="http://a", models=(ModelCard("mine"),))
    assert Desired("k", spec).wanted("engine's") is spec


def test_what_the_engine_calls_its_model_becomes_an_alias_of_the_new_name():
    one = Desired("k", WorkerSpec(url="http://a", models=(ModelCard("mine", aliases=("old",)),)), renamed=True)
    assert one.wanted("engine's").models == (ModelCard("mine", aliases=("old", "engine's")),)


@pytest.mark.parametrize("own_name", [None, "mine", "old"])
def test_a_name_that_is_unknown_or_known_already_adds_nothing(own_name):
    one = Desired("k", WorkerSpec(url="http://a", models=(ModelCard("mine", aliases=("old",)),)), renamed=True)
    assert one.wanted(own_name) is one.spec


@pytest.mark.parametrize(
    ("address", "url"),
    [("10.0.0.1:8000", "http://10.0.0.1:8000"), ("https://a", "https://a"), ("grpc://a:1", "grpc://a:1")],
)
def test_a_bare_address_speaks_http(address, url):
    assert with_scheme(address) == url
