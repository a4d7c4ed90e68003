import copy
import pickle

from smg.rl import CallResult, FanoutError, FanoutFailure, FanoutResult, RlError


def failures(count):
    return [FanoutFailure(f"w-{i}", f"http://e:{i}", None, "upstream_timeout", "late") for i in range(count)]


def test_a_fan_out_error_is_an_rl_error():
    assert issubclass(FanoutError, RlError)


def test_an_error_without_a_message_says_code_and_status():
    assert str(RlError(404, "http_error")) == "http_error (HTTP 404)"


def test_a_fan_out_error_names_those_who_failed():
    error = FanoutError(207, {}, FanoutResult({}, failures(2), 3, 1))
    assert str(error) == (
        "fanout_partial (HTTP 207): 2 of 3 workers failed; w-0 (http://e:0): upstream_timeout: late; "
        "w-1 (http://e:1): upstream_timeout: late"
    )


def test_a_fan_out_error_stays_short_in_a_large_fleet():
    text = str(FanoutError(207, {}, FanoutResult({}, failures(100), 100, 0)))
    assert "w-2 " in text
    assert "w-3 " not in text
    assert text.endswith("97 more")


def test_errors_survive_pickling_and_copying():
    result = FanoutResult({"w": CallResult("w", "http://e", 200, 7, "cut", _truncated=True)}, failures(1), 2, 1)
    for error in (RlError(400, "invalid_selector", {"offset": 6}, "no"), FanoutError(207, {"a": 1}, result)):
        error.add_note("seen on rank 3")
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(other) is type(error)
            assert (str(other), other.status, other.code, other.payload) == (
                str(error),
                error.status,
                error.code,
                error.payload,
            )
            assert other.__notes__ == ["seen on rank 3"]
    assert other.result == result
    assert other.result.results["w"].body_truncated
