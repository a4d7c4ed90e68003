from smg.fleet.statuses import DEFAULT_RULES, status_rules


def test_a_worker_without_lists_has_the_gateways_rules():
    assert status_rules(None, None) is DEFAULT_RULES


def test_a_list_of_retryable_statuses_replaces_the_gateways():
    rules = status_rules([418], None)
    assert rules.retryable == {418}
    assert 503 not in rules.retryable


def test_a_status_that_is_retried_speaks_against_the_worker_too():
    assert 418 in status_rules([418], None).failures


def test_a_server_error_that_is_not_retried_still_speaks_against_the_worker():
    assert 500 in status_rules([418], None).failures


def test_a_status_of_capacity_says_nothing_of_the_worker():
    rules = status_rules([503, 529], [503])
    assert rules.capacity == {503}
    assert 503 not in rules.failures
    assert 529 in rules.failures
    assert 429 not in rules.capacity
