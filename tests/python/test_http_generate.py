"""`generate` and `generate_stream`: inputs and outputs as members of JSON objects."""

import gzip
import json

import numpy as np
import pytest
from v2_repository import truth


def generate(server, model, body, verb="generate", **more):
    return server.post(f"/v2/models/{model}/{verb}", json.dumps(body).encode(), **more)


def test_a_text_in_and_a_text_out(v2_server):
    answer = generate(v2_server, "text", {"x": "halló\0", "stream": False, "parameters": {"top": 3}, "id": "7"})
    assert answer.json() == {"id": "7", "model_name": "text", "model_version": "1", "y": "halló\0!"}
    answer = generate(v2_server, "text", {"x": ["a", "b"]})
    assert answer.json()["y"] == ["a!", "b!"]


def test_numbers_are_made_to_fit_the_model(v2_server):
    features = np.linspace(-2, 2, 16, dtype=np.float32)
    answer = generate(v2_server, "fraud_mlp", {"features": features.tolist()}).json()
    expected = truth("fraud_mlp", {"features": features.reshape(2, 8)})
    np.testing.assert_allclose(answer["logit"], expected["logit"][:, 0], rtol=1e-5)
    answer = generate(v2_server, "scalar", {"x": 1.5}).json()
    assert answer == {"model_name": "scalar", "model_version": "1", "y": 3.0}


def test_a_stream_is_one_event(v2_server):
    answer = generate(v2_server, "text", {"x": "a"}, "generate_stream")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.body == b'data: {"model_name":"text","model_version":"1","y":"a!"}\n\n'
    answer = v2_server.post("/v2/models/text/versions/1/generate_stream", b'{"x":"a"}')
    assert answer.status == 200


@pytest.mark.parametrize("verb", ["generate", "generate_stream"])
@pytest.mark.parametrize(
    "model, body, status, text",
    [
        ("nowhere", {}, 400, "Request for unknown model: 'nowhere' is not found"),
        (
            "text",
            {},
            400,
            "[request id: <id_unknown>] expected 1 inputs but got 0 inputs for model 'text'. Got input(s) [], but missing "
            "required input(s) ['x']. Please provide all required input(s).",
        ),
        (
            "fraud_mlp",
            {"features": [1, 2, 3], "id": "7"},
            400,
            "Unable to parse 'data': Shape does not match true shape of 'data' field (input 'features' of shape [0,8] holds 0 "
            "values, 'data' has more)",
        ),
        ("text", {"x": "a", "y": [1]}, 400, "parameter 'y' has invalid type. It should be either 'int', 'bool', or 'string'."),
    ],
)
def test_refusals(v2_server, verb, model, body, status, text):
    answer = generate(v2_server, model, body, verb)
    assert (answer.status, answer.json()["error"]) == (status, text)


def test_a_compressed_body_is_refused(v2_server):
    for coding in ("gzip", "br"):
        body, headers = gzip.compress(b'{"x":"a"}'), {"Content-Encoding": coding}
        answer = v2_server.post("/v2/models/text/generate", body, headers=headers)
        assert answer.status == 400
        assert answer.json()["error"] == "Unsupported content-encoding, only 'identity' is supported."
    assert v2_server.post("/v2/models/text/generate", b'{"x":"a"}', headers={"Content-Encoding": "identity"}).status == 200
