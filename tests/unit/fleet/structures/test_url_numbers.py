from smg.fleet.structures.url_numbers import UrlNumbers


def test_a_url_keeps_its_number_while_it_is_at_hand():
    workers = UrlNumbers()
    a, b = workers.number("http://a"), workers.number("http://b")
    assert a != b
    assert (workers.number("http://a"), workers.number("http://b")) == (a, b)
    assert (workers.urls[a], workers.numbers["http://b"]) == ("http://a", b)


def test_a_url_that_returns_gets_a_number_that_nobody_had():
    workers = UrlNumbers()
    old = workers.number("http://a")
    assert workers.forget("http://a") == old
    assert old not in workers.urls
    assert workers.number("http://b") != old
    assert workers.number("http://a") not in {old, workers.number("http://b")}


def test_forgetting_a_stranger_is_no_error():
    assert UrlNumbers().forget("http://nobody") is None


def test_forgotten_urls_leave_nothing():
    workers = UrlNumbers()
    for number in range(100):
        workers.number(f"http://{number}")
        workers.forget(f"http://{number}")
    assert (workers.urls, workers.numbers) == ({}, {})
