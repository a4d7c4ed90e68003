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
        Route("POST", "/engines/{id}/call/{*rest}", plain, "admin"),
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


@pytest.mark.parametrize("rest", ["a", "a/b/c", "", "/", "/a//b/", "a%2Fb", "../a"])
def test_a_template_may_take_the_rest_of_a_path_as_it_stands(rest):
    methods, params = TABLE.methods(f"/engines/7/call/{rest}")
    assert set(methods) == {"POST"}
    assert params == {"id": "7", "rest": rest}


@pytest.mark.parametrize("path", ["/engines/7/call", "/engines//call/a", "/engines/7/calls/a", "/engines/7/8/call/a"])
def test_what_stands_before_the_rest_must_match(path):
    assert TABLE.methods(path) == ({}, {})


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


@pytest.mark.parametrize("path", ["/v1.0/a", "/v1x0/a", "/(a)/b+", "/a\n/rest\nof/it"])
def test_templates_mean_what_they_say(path):
    table = RouteTable(
        [
            Route("GET", "/v1.0/{id}", plain),
            Route("GET", "/(a)/b+/{id}", plain),
            Route("GET", "/(a)/{id}", plain),
            Route("GET", "/{first}/{*rest}", plain),
        ]
    )
    found, params = table.methods(path)
    expected = {
        "/v1.0/a": ("/v1.0/{id}", {"id": "a"}),
        "/v1x0/a": ("/{first}/{*rest}", {"first": "v1x0", "rest": "a"}),
        "/(a)/b+": ("/(a)/{id}", {"id": "b+"}),
        "/a\n/rest\nof/it": ("/{first}/{*rest}", {"first": "a\n", "rest": "rest\nof/it"}),
    }
    assert (found["GET"].path, params) == expected[path]


def test_what_a_path_gave_belongs_to_the_request_alone():
    for path in ("/workers/1", "/workers/" + "1" * 1000):
        TABLE.methods(path)[1]["id"] = "another"
        assert TABLE.methods(path)[1]["id"] == path.removeprefix("/workers/")


def test_the_table_knows_who_waits():
    assert TABLE.methods("/health")[0]["POST"].waits
    assert not TABLE.methods("/health")[0]["GET"].waits


def test_every_route_is_listed_once():
    listed = [(route.method, route.path) for route in TABLE]
    assert len(listed) == len(set(listed)) == 7


@pytest.mark.parametrize("path", ["/twice", "/twice/{id}"])
def test_two_routes_for_one_method_and_path_are_refused(path):
    with pytest.raises(ValueError, match="two routes"):
        RouteTable([Route("GET", path, plain), Route("GET", path, plain)])
