"""The route table finds the row of a method and path."""

import pytest

from smg.net.routes import Route, RouteTable


def plain(exchange):
    return None


async def waiting(exchange):
    return None


TABLE = RouteTable(
    [
        Route("GET", "/health", plain),
        Route("POST", "/health", waiting),
        Route("GET", "/workers/{id}", waiting, "admin"),
        Route("DELETE", "/workers/{id}", plain, "admin"),
        Route("GET", "/workers/{id}/jobs/{job}", plain, "admin"),
        Route("GET", "/workers/self", plain, "admin"),
    ]
)


def test_a_fixed_path_is_found_with_all_its_methods():
    methods, params = TABLE.methods("/health")
    assert set(methods) == {"GET", "HEAD", "POST"}
    assert params == {}


def test_get_serves_head_too():
    methods, _ = TABLE.methods("/health")
    assert methods["HEAD"] is methods["GET"]
    assert "HEAD" not in TABLE.methods("/health/x")[0]


def test_a_template_gives_its_parameters_as_they_stand_in_the_path():
    methods, params = TABLE.methods("/workers/a%2Fb")
    assert set(methods) == {"GET", "HEAD", "DELETE"}
    assert params == {"id": "a%2Fb"}
    assert TABLE.methods("/workers/1/jobs/2")[1] == {"id": "1", "job": "2"}


def test_a_fixed_path_goes_before_a_template():
    assert TABLE.methods("/workers/self")[1] == {}


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/nowhere",
        "/health/",
        "/Health",
        "/workers/",
        "/workers//jobs/2",
        "/workers/1/jobs",
        "/workers/../health",
    ],
)
def test_an_unknown_path_has_no_methods(path):
    assert TABLE.methods(path) == ({}, {})


def test_the_table_knows_who_waits():
    assert TABLE.methods("/health")[0]["POST"].waits
    assert not TABLE.methods("/health")[0]["GET"].waits


def test_every_route_is_listed_once():
    listed = [(route.method, route.path) for route in TABLE]
    assert len(listed) == len(set(listed)) == 6


@pytest.mark.parametrize("path", ["/twice", "/twice/{id}"])
def test_two_routes_for_one_method_and_path_are_refused(path):
    with pytest.raises(ValueError, match="two routes"):
        RouteTable([Route("GET", path, plain), Route("GET", path, plain)])
