"""Triton's own HTTP client against the real server, and what it reads against ONNX Runtime called directly."""

import itertools
import json

import numpy as np
import pytest
import tritonclient.http as triton
import v2_repository
from v2_repository import NUMPY_TYPES, TYPES, samples, truth

CODINGS = [None, "gzip", "deflate"]
# The client itself refuses to send or read these as JSON, as Triton does.
BINARY_ONLY = ("FP16", "BF16")


@pytest.fixture(scope="module")
def client(v2_server):
    with triton.InferenceServerClient(v2_server.http.removeprefix("http://"), concurrency=4) as client:
        yield client


def tensor(name, data_type, values, binary=True):
    entry = triton.InferInput(name, values.shape, data_type)
    entry.set_data_from_numpy(values, binary_data=binary)
    return entry


def output(name, **how):
    return triton.InferRequestedOutput(name, **how)


def as_text(values):
    """BYTES come as bytes in binary and as text in JSON, and ONNX Runtime has text."""
    flat = [value.decode() if isinstance(value, bytes) else value for value in values.flatten()]
    return np.array(flat, dtype=np.object_).reshape(values.shape)


def assert_same(got, expected):
    assert got.shape == expected.shape
    if got.dtype == np.object_:
        np.testing.assert_array_equal(as_text(got), as_text(expected))
    else:
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def expected_identity(data_type, values):
    # ONNX Runtime's Python takes no BF16; an identity answers what it was asked.
    return values if data_type == "BF16" else truth(f"identity_{data_type.lower()}", {"x": values})["y"]


def forms():
    """Every type, with and without batches, in binary and as JSON either way where the client speaks both."""
    for data_type, kind in itertools.product(TYPES, ["rows", "whole"]):
        ways = [True] if data_type in BINARY_ONLY else [True, False]
        for binary_in, binary_out in itertools.product(ways, ways):
            yield data_type, kind, binary_in, binary_out


@pytest.mark.parametrize("data_type, kind, binary_in, binary_out", list(forms()))
def test_every_type_in_every_form(client, data_type, kind, binary_in, binary_out):
    values = samples(data_type, (5, 3))
    result = client.infer(
        f"{kind}_{data_type.lower()}",
        [tensor("x", data_type, values, binary_in)],
        outputs=[output("y", binary_data=binary_out)],
        request_id="r-1",
    )
    assert_same(result.as_numpy("y"), expected_identity(data_type, values))
    answer = result.get_response()
    assert answer["id"] == "r-1" and answer["model_version"] == "1"
    assert result.get_output("y")["datatype"] == data_type
    assert ("data" in result.get_output("y")) != binary_out


@pytest.mark.parametrize("data_type", TYPES)
def test_without_outputs_named_all_come_in_binary(client, data_type):
    values = samples(data_type, (2, 4), seed=1)
    result = client.infer(f"rows_{data_type.lower()}", [tensor("x", data_type, values)])
    assert_same(result.as_numpy("y"), expected_identity(data_type, values))
    assert "binary_data_size" in result.get_output("y")["parameters"]


@pytest.mark.parametrize("data_type", BINARY_ONLY)
def test_half_precision_as_json(v2_server, data_type):
    values = [1.5, -0.25, 65280.0, 0.0]
    body = {"inputs": [{"name": "x", "datatype": data_type, "shape": [2, 2], "data": values}]}
    answer = v2_server.post(f"/v2/models/rows_{data_type.lower()}/infer", json.dumps(body).encode())
    assert answer.json()["outputs"] == [{"name": "y", "datatype": data_type, "shape": [2, 2], "data": values}]


def test_every_type_in_one_request_some_in_binary(client):
    arrays = {name: samples(name, (2, 3), seed=2) for name in TYPES}
    inputs = [
        tensor(f"x_{name.lower()}", name, values, name in BINARY_ONLY or place % 2 == 0)
        for place, (name, values) in enumerate(arrays.items())
    ]
    outputs = [
        output(f"y_{name.lower()}", binary_data=name in BINARY_ONLY or place % 3 == 0)
        for place, name in enumerate(reversed(TYPES))
    ]
    result = client.infer("identity_all_types", inputs, outputs=outputs)
    for name, values in arrays.items():
        assert_same(result.as_numpy(f"y_{name.lower()}"), expected_identity(name, values))
    names = [entry["name"] for entry in result.get_response()["outputs"]]
    assert names == [f"y_{name.lower()}" for name in reversed(TYPES)], "outputs come as they are asked for"


@pytest.mark.parametrize("response", CODINGS)
@pytest.mark.parametrize("request_", CODINGS)
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_compression_both_ways(client, request_, response, binary):
    features = np.random.default_rng(3).normal(size=(8, 8)).astype(np.float32)
    result = client.infer(
        "fraud_mlp",
        [tensor("features", "FP32", features, binary)],
        outputs=[output("probability", binary_data=binary), output("logit", binary_data=not binary)],
        request_compression_algorithm=request_,
        response_compression_algorithm=response,
    )
    for name, expected in truth("fraud_mlp", {"features": features}).items():
        np.testing.assert_allclose(result.as_numpy(name), expected, rtol=1e-5)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_answers_are_compressed_for_those_who_ask(v2_server, coding):
    values = [0.0] * 4096
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4096], "data": values}]}
    answer = v2_server.post(
        "/v2/models/rows_fp32/infer", json.dumps(body).encode(), headers={"Accept-Encoding": f"{coding}, identity;q=0.5"}
    )
    assert answer.headers["content-encoding"] == coding and len(answer.body) < 500


def test_two_inputs_in_any_order_and_a_part_of_the_outputs(client):
    a, b = samples("FP32", (3, 2), seed=4), np.ones((3, 2), dtype=np.float32)
    result = client.infer("add", [tensor("b", "FP32", b), tensor("a", "FP32", a, binary=False)])
    np.testing.assert_array_equal(result.as_numpy("sum"), truth("add", {"a": a, "b": b})["sum"])
    result = client.infer("passthrough", [tensor("x", "FP32", a)], outputs=[output("x")])
    np.testing.assert_array_equal(result.as_numpy("x"), a)
    assert result.as_numpy("y") is None


def test_bytes_that_are_no_text(client):
    values = np.array([[b"\x00\xff\xfe", b""], [b"\x80", bytes(range(256))]], dtype=np.object_)
    result = client.infer("rows_bytes", [tensor("x", "BYTES", values)])
    np.testing.assert_array_equal(result.as_numpy("y"), values)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_scalars_and_nothing_at_all(client, binary):
    x = np.array(2.5, dtype=np.float32)
    # A scalar of the model's file is an element of the protocol, as in Triton.
    asked = [output("y", binary_data=binary)]
    result = client.infer("scalar", [tensor("x", "FP32", x.reshape(1), binary)], outputs=asked)
    assert_same(result.as_numpy("y"), truth("scalar", {"x": x})["y"].reshape(1))
    for values in ([-1.0, 0.0], [1.0, -1.0, 2.0], []):
        x = np.array(values, dtype=np.float32)
        result = client.infer("positive", [tensor("x", "FP32", x, binary)], outputs=[output("y", binary_data=binary)])
        assert_same(result.as_numpy("y"), truth("positive", {"x": x})["y"])


def test_a_request_that_is_nothing_but_values(v2_server):
    values = samples("FP32", (1, 6), seed=5)
    path = "/v2/models/{}/infer"
    raw = {"Inference-Header-Content-Length": "0"}
    answer = v2_server.post(path.format("rows_fp32"), values.tobytes(), "application/octet-stream", raw)
    length = int(answer.headers["inference-header-content-length"])
    described = json.loads(answer.body[:length])["outputs"][0]
    assert (described["shape"], described["parameters"]) == ([1, 6], {"binary_data_size": 24})
    assert answer.body[length:] == truth("identity_fp32", {"x": values})["y"].tobytes()
    answer = v2_server.post(path.format("text"), b"raw\0text", "application/octet-stream", raw)
    length = int(answer.headers["inference-header-content-length"])
    assert answer.body[length:] == b"\x09\0\0\0raw\0text!"


def test_a_large_tensor(client):
    values = np.random.default_rng(6).normal(size=(8, 500_000)).astype(np.float32)
    result = client.infer("rows_fp32", [tensor("x", "FP32", values)])
    np.testing.assert_array_equal(result.as_numpy("y"), values)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("model, labels", [("rows_fp32", []), ("labelled", ["zero", "one", "two"])])
def test_classification(client, model, labels, binary):
    values = np.array([[0.1, 2.5, -3.0, 1.0], [1e9, 4.0, 3.0, 3.5]], dtype=np.float32)
    asked = output("y", binary_data=binary, class_count=3)
    result = client.infer(model, [tensor("x", "FP32", values)], outputs=[asked])
    ranks = np.argsort(-values, axis=1)[:, :3]
    expected = [
        [":".join([f"{row[at]:f}", str(at), *labels[at : at + 1]]) for at in order] for row, order in zip(values, ranks)
    ]
    assert_same(result.as_numpy("y"), np.array(expected, dtype=np.object_))
    assert result.get_output("y")["datatype"] == "BYTES"


def test_classification_with_the_labels_of_the_models_own_file(client):
    features = np.random.default_rng(7).normal(size=(4, 4)).astype(np.float32)
    asked = [output("output_probability", class_count=1), output("output_label")]
    result = client.infer("classifier_strings", [tensor("X", "FP32", features)], outputs=asked)
    best = as_text(result.as_numpy("output_probability")).flatten()
    labels = as_text(result.as_numpy("output_label")).flatten()
    assert [text.split(":", 2)[2] for text in best] == labels.tolist()


def test_classification_of_integers_and_without_batches(client):
    values = np.array([[3, -7], [250, 3]], dtype=np.int64)
    result = client.infer("whole_int64", [tensor("x", "INT64", values)], outputs=[output("y", class_count=9)])
    assert as_text(result.as_numpy("y")).tolist() == ["250:2", "3:0", "3:3", "-7:1"]


def test_parameters_are_taken_and_not_echoed(client):
    values = samples("FP32", (1, 2))
    result = client.infer(
        "rows_fp32",
        [tensor("x", "FP32", values)],
        sequence_id=7,
        sequence_start=True,
        priority=1,
        timeout=10_000_000,
        headers={"X-Tenant": "one"},
        parameters={"mine": "text", "other": 3},
    )
    assert "parameters" not in result.get_response()


def test_many_at_once(client):
    a = np.arange(64, dtype=np.float32).reshape(32, 2)
    waiting = [
        client.async_infer("add", [tensor("a", "FP32", a[i : i + 1]), tensor("b", "FP32", -a[i : i + 1])]) for i in range(32)
    ]
    assert all((request.get_result().as_numpy("sum") == 0).all() for request in waiting)


def test_metadata(client, v2_server):
    server = client.get_server_metadata()
    expected = ["classification", "model_repository", "model_repository(unload_dependents)", "schedule_policy"]
    expected += ["model_configuration", "binary_tensor_data", "parameters", "statistics", "trace", "logging"]
    assert server["extensions"] == expected
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("add", "1")
    model = client.get_model_metadata("add")
    assert model["platform"] == "onnxruntime_onnx" and model["versions"] == ["1"]
    assert [entry["shape"] for entry in model["inputs"]] == [[-1, 2], [-1, 2]]
    assert client.get_model_metadata("identity_all_types")["inputs"][0]["shape"] == [2, 3]
    assert client.get_model_config("add")["max_batch_size"] == 8
    assert {entry["name"] for entry in client.get_model_repository_index()} == {
        name for name, _, _ in v2_repository.configurations()
    }


def test_the_table_of_types_is_whole():
    assert len(TYPES) == 14 and set(NUMPY_TYPES) | {"BF16"} == set(TYPES)
