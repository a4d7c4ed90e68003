def row(engine, target="/v1/loads"):
    return engine.call("GET", target)[1]["loads"][0]


def test_a_report_counts_running_waiting_and_tokens(control):
    engine = control("sglang", tokens_per_second=1.0, max_running_requests=1, kv_capacity_tokens=100)
    engine.start(prompt="x" * 40)
    engine.start(prompt="y" * 20)
    found = row(engine)
    assert (found["num_running_reqs"], found["num_waiting_reqs"], found["num_total_reqs"]) == (1, 1, 2)
    assert (found["num_used_tokens"], found["token_usage"]) == (11, 0.11)
    assert found["num_waiting_uncached_tokens"] == 5
    assert (found["max_running_requests"], found["max_total_num_tokens"]) == (1, 100)


def test_cached_prompts_in_line_are_no_work(control):
    engine = control("sglang", tokens_per_second=1.0, max_running_requests=1)
    engine.start(prompt="x" * 64)
    engine.start(prompt="x" * 64 + "tail")
    assert row(engine)["num_waiting_uncached_tokens"] == 1


def test_sections_are_included_as_asked_for(control):
    engine = control("sglang")
    assert {"queues", "memory"} <= set(row(engine))
    assert not {"queues", "memory"} & set(row(engine, "/v1/loads?include=core"))
    assert "queues" in row(engine, "/loads?include=core,disagg,queues")
    assert engine.call("GET", "/v1/loads?include=colour")[0] == 400


def test_each_rank_reports_for_itself(control):
    engine = control("sglang", tokens_per_second=1.0, dp_size=2, max_running_requests=8)
    engine.start(rank=1)
    report = engine.call("GET", "/v1/loads")[1]
    assert report["dp_rank_count"] == 2
    assert [r["num_running_reqs"] for r in report["loads"]] == [0, 1]
    assert [r["max_running_requests"] for r in report["loads"]] == [4, 4]
    assert [r["dp_rank"] for r in engine.call("GET", "/v1/loads?dp_rank=1")[1]["loads"]] == [1]


def test_the_older_report_has_the_older_names(control):
    engine = control("sglang", tokens_per_second=1.0)
    engine.start(prompt="x" * 40)
    assert engine.call("GET", "/get_load")[1] == [
        {"dp_rank": 0, "num_reqs": 1, "num_waiting_reqs": 0, "num_tokens": 11},
    ]
