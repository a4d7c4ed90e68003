import pytest

from smg.engines.grpc_services import SERVICES, read_labels


def test_engines_are_tried_in_the_order_in_which_they_claim_an_address():
    assert list(SERVICES) == ["sglang", "vllm", "trtllm", "tokenspeed", "mlx"]


@pytest.mark.parametrize(
    ("model", "server", "labels"),
    [
        ({"served_model_name": "m", "is_generation": True}, {}, {"served_model_name": "m", "is_generation": "true"}),
        ({}, {"server_args": {"tp_size": 2.0, "dp_size": 4.0}}, {"tp_size": "2", "dp_size": "4"}),
        ({}, {"tensor_parallel_size": 8, "max_num_seqs": 256}, {"tp_size": "8", "max_running_requests": "256"}),
        ({}, {"scheduler_info": {"max_total_num_tokens": 9.0}}, {"max_total_tokens": "9"}),
        ({"architectures": ["A", "B"]}, {}, {"architectures": '["A","B"]'}),
        ({"model_path": "of-model"}, {"model_path": "of-server"}, {"model_path": "of-model"}),
        ({"max_context_length": "4096"}, {"server_args": "no object"}, {"max_context_length": "4096"}),
        ({"weight_version": ""}, {"active_requests": 7}, {}),
    ],
)
def test_labels_are_what_an_engine_says_of_itself(model, server, labels):
    assert read_labels(model, server) == labels


def test_keys_among_an_engine_s_arguments_are_no_labels():
    assert read_labels({}, {"server_args": {"api_key": "secret", "admin_api_key": "secret"}}) == {}
