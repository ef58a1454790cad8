"""gRPC as Triton's own client speaks it, sync and asyncio, with results that onnxruntime gives when called directly."""

import asyncio
import concurrent.futures
import threading

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from conftest import serving
from grpc_models import (
    CONTENTS,
    FIXTURES,
    TYPES,
    add_model,
    add_scaler_with_plugin,
    assert_same_bits,
    raw_input,
    triton_input,
    truth,
    values,
)


LABELLED = """max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] label_filename: "labels.txt" }"""


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    for name in TYPES:
        add_model(repository, f"identity_{name.lower()}", f"identity_{name.lower()}")
    add_model(repository, "all_types", "identity_all_types", "max_batch_size: 0")
    add_model(repository, "add", "add", "max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 8 ] }")
    add_model(repository, "scalar", "scalar", "max_batch_size: 0")
    add_model(repository, "two_outputs", "fraud_mlp")
    labelled = add_model(repository, "labelled", "identity_fp32", LABELLED)
    (labelled / "labels.txt").write_text("one\ntwo\nthree\n")
    add_scaler_with_plugin(repository, "scaler")
    flags = ["--model-control-mode=explicit", "--load-model=*"]
    with serving(tmp_path_factory.mktemp("airlock"), repository, flags) as server:
        yield server


@pytest.fixture(scope="module")
def client(running):
    with triton.InferenceServerClient(running.grpc) as client:
        yield client


@pytest.fixture(scope="module")
def stub(running):
    with grpc.insecure_channel(running.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


SHAPES = [(1, 1), (1, 7), (4, 3), (2, 0)]


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_raw_contents_of_every_type(client, data_type, shape):
    array = values(data_type, shape)
    fixture = f"identity_{data_type.lower()}"
    result = client.infer(fixture, [triton_input("x", array, data_type)], request_id="r-1")
    response = result.get_response()
    assert (response.model_name, response.model_version, response.id) == (fixture, "1", "r-1")
    assert (response.outputs[0].datatype, tuple(response.outputs[0].shape)) == (data_type, shape)
    assert not response.outputs[0].HasField("contents") and len(response.raw_output_contents) == 1
    got = result.as_numpy("y")
    if data_type == "BYTES":
        assert got.tolist() == array.tolist()
    elif data_type == "BF16":
        assert_same_bits(got.astype(TYPES["BF16"]), array)
    else:
        assert_same_bits(got, truth(fixture, {"x": array})["y"])


@pytest.mark.parametrize("data_type", CONTENTS)
def test_typed_contents_of_every_type(stub, data_type):
    array = values(data_type, (2, 5))
    contents = service_pb2.InferTensorContents(**{CONTENTS[data_type]: array.ravel().tolist()})
    message = service_pb2.ModelInferRequest(
        model_name=f"identity_{data_type.lower()}", inputs=[raw_input("x", data_type, [2, 5], contents)]
    )
    raw = stub.ModelInfer(message).raw_output_contents[0]
    assert raw == (triton_input("x", array, data_type)._get_content())


def test_all_types_in_one_request_of_a_model_that_does_not_batch(client):
    arrays = {name: values(name, (2, 3)) for name in TYPES}
    inputs = [triton_input(f"x_{name.lower()}", array, name) for name, array in arrays.items()]
    # Another order than the model's.
    result = client.infer("all_types", list(reversed(inputs)))
    for name, array in arrays.items():
        got = result.as_numpy(f"y_{name.lower()}")
        if name == "BYTES":
            assert got.tolist() == array.tolist()
        elif name == "BF16":
            assert_same_bits(got.astype(TYPES["BF16"]), array)
        else:
            assert_same_bits(got, array)


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_rows_of_requests_that_share_batches(client, rows):
    def ask(number):
        a = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2) + number
        b = a * 0.5
        result = client.infer("add", [triton_input("a", a, "FP32"), triton_input("b", b, "FP32")])
        assert_same_bits(result.as_numpy("sum"), truth("add", {"a": a, "b": b})["sum"])

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(64)))


def test_a_scalar_is_a_tensor_of_one_element(client):
    x = np.array([2.5], dtype=np.float32)
    result = client.infer("scalar", [triton_input("x", x, "FP32")])
    assert_same_bits(result.as_numpy("y"), truth("scalar", {"x": x.reshape(())})["y"].reshape(1))


def test_outputs_asked_for_come_alone_and_in_order(client):
    features = np.linspace(-2, 2, 16, dtype=np.float32).reshape(2, 8)
    inputs = [triton_input("features", features, "FP32")]
    expected = truth("fraud_mlp", {"features": features})
    every = client.infer("two_outputs", inputs).get_response()
    assert [output.name for output in every.outputs] == ["probability", "logit"]
    for names in (["logit"], ["logit", "probability"]):
        result = client.infer("two_outputs", inputs, outputs=[triton.InferRequestedOutput(name) for name in names])
        assert [output.name for output in result.get_response().outputs] == names
        for name in names:
            np.testing.assert_allclose(result.as_numpy(name), expected[name], rtol=1e-6)


def test_parameters_are_taken(client):
    x = values("FP32", (1, 2))
    inputs = [triton_input("x", x, "FP32")]
    parameters = {"text": "t", "number": 7, "truth": True}
    result = client.infer("identity_fp32", inputs, priority=3, timeout=1_000_000, sequence_id=7, parameters=parameters)
    assert_same_bits(result.as_numpy("y"), x)


def test_versions(client):
    x = values("FP32", (1, 2))
    result = client.infer("identity_fp32", [triton_input("x", x, "FP32")], model_version="1")
    assert result.get_response().model_version == "1"


def test_what_answered_stands_in_the_metadata(running):
    with grpc.insecure_channel(running.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        message = service_pb2.ModelInferRequest(model_name="identity_fp32", inputs=[raw_input("x", "FP32", [1, 1])])
        message.raw_input_contents.append(b"\x00" * 4)
        _, call = stub.ModelInfer.with_call(message)
        assert dict(call.initial_metadata())["x-model-version"] == "1"
        message.raw_input_contents.append(b"surplus is ignored")
        stub.ModelInfer(message)


def test_health_and_metadata(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("add") and client.is_model_ready("add", "1")
    server = client.get_server_metadata()
    assert server.name == "airlock" and "model_repository" in server.extensions
    metadata = client.get_model_metadata("add", as_json=True)
    assert metadata["platform"] == "onnxruntime_onnx" and metadata["versions"] == ["1"]
    assert metadata["inputs"][0] == {"name": "a", "datatype": "FP32", "shape": ["-1", "2"]}
    assert metadata["outputs"] == [{"name": "sum", "datatype": "FP32", "shape": ["-1", "2"]}]


def test_metadata_is_that_of_http(client, running):
    for model in ("add", "all_types", "identity_bytes"):
        over_http = running.get(f"/v2/models/{model}").json()
        over_grpc = client.get_model_metadata(model, "1")
        for side in ("inputs", "outputs"):
            tensors = [
                {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
                for tensor in getattr(over_grpc, side)
            ]
            assert tensors == over_http[side]


def test_the_configuration_is_the_message_that_triton_sends(client, running):
    config = client.get_model_config("add").config
    assert (config.name, config.backend, config.platform) == ("add", "onnxruntime", "onnxruntime_onnx")
    assert config.max_batch_size == 8 and list(config.dynamic_batching.preferred_batch_size) == [8]
    assert [list(tensor.dims) for tensor in config.input] == [[2], [2]]
    assert config.version_policy.latest.num_versions == 1
    over_http = running.get("/v2/models/add/config").json()
    assert [group.count for group in config.instance_group] == [group["count"] for group in over_http["instance_group"]]


def test_index_load_and_unload(client):
    def state():
        index = client.get_model_repository_index().models
        return [(line.version, line.state, line.reason) for line in index if line.name == "scalar"]

    assert state() == [("1", "READY", "")]
    client.unload_model("scalar")
    assert state() == [("1", "UNAVAILABLE", "unloaded")]
    client.load_model("scalar")
    assert state() == [("1", "READY", "")]


def test_load_with_files_and_a_configuration(client):
    content = (FIXTURES / "scaler_v2.onnx").read_bytes()
    config = '{"backend": "onnxruntime", "max_batch_size": 2}'
    client.load_model("only_sent", config=config, files={"file:1/model.onnx": content})
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    result = client.infer("only_sent", [triton_input("x", x, "FP32")])
    assert_same_bits(result.as_numpy("y"), truth("scaler_v2", {"x": x})["y"])
    assert client.get_model_config("only_sent").config.max_batch_size == 2
    client.unload_model("only_sent")


def test_classes_with_labels(client):
    x = np.array([[0.5, 2.0, 1.0]], dtype=np.float32)
    asked = [triton.InferRequestedOutput("y", class_count=2)]
    result = client.infer("labelled", [triton_input("x", x, "FP32")], outputs=asked)
    assert result.as_numpy("y").tolist() == [[b"2.000000:1:two", b"1.000000:2:three"]]


def test_statistics_count_what_was_asked(client, running):
    a = np.zeros((3, 2), dtype=np.float32)

    def counts():
        [statistics] = client.get_inference_statistics("add", "1").model_stats
        phases = statistics.inference_stats
        assert statistics.inference_count == sum(batch.batch_size * batch.compute_infer.count for batch in statistics.batch_stats)
        return statistics.inference_count, statistics.execution_count, phases.success.count, phases.fail.count

    before = counts()
    client.infer("add", [triton_input("a", a, "FP32"), triton_input("b", a, "FP32")])
    with pytest.raises(InferenceServerException):
        client.infer("add", [triton_input("a", a, "FP32")])
    assert [after - earlier for after, earlier in zip(counts(), before, strict=True)] == [3, 1, 1, 1]
    over_http = running.get("/v2/models/add/stats").json()["model_stats"][0]
    assert over_http["inference_count"] == counts()[0]
    assert {statistics.name for statistics in client.get_inference_statistics().model_stats} >= {"add", "scaler"}


def test_async_infer_calls_back(client):
    x = values("INT64", (1, 3))
    done, answers = threading.Event(), []

    def answered(result, error):
        answers.append((result, error))
        done.set()

    client.async_infer("identity_int64", [triton_input("x", x, "INT64")], answered)
    assert done.wait(60)
    result, error = answers[0]
    assert error is None
    assert_same_bits(result.as_numpy("y"), x)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compressed_requests(client, algorithm):
    x = np.zeros((4, 50_000), dtype=np.float32)
    result = client.infer("identity_fp32", [triton_input("x", x, "FP32")], compression_algorithm=algorithm)
    assert_same_bits(result.as_numpy("y"), x)


def test_tensors_larger_than_grpcs_usual_limit(client):
    x = np.arange(2_500_000, dtype=np.float32).reshape(1, -1)
    result = client.infer("identity_fp32", [triton_input("x", x, "FP32")])
    assert_same_bits(result.as_numpy("y"), x)


def test_every_call_of_the_asyncio_client(running):
    async def ask():
        async with triton_aio.InferenceServerClient(running.grpc) as client:
            assert await client.is_server_live() and await client.is_server_ready()
            assert await client.is_model_ready("add")
            assert (await client.get_server_metadata()).name == "airlock"
            assert (await client.get_model_metadata("add")).name == "add"
            assert (await client.get_model_config("add")).config.max_batch_size == 8
            assert any(line.name == "add" for line in (await client.get_model_repository_index()).models)
            await client.unload_model("identity_uint8")
            await client.load_model("identity_uint8")
            arrays = [values("FP32", (1, 3)) + number for number in range(32)]
            asked = [client.infer("identity_fp32", [triton_input("x", array, "FP32")]) for array in arrays]
            for array, result in zip(arrays, await asyncio.gather(*asked), strict=True):
                assert_same_bits(result.as_numpy("y"), array)
            assert not (await client.get_system_shared_memory_status()).regions

    asyncio.run(ask())


def plugin_request(body, **parameters):
    inputs = [raw_input("body", "BYTES", [1], service_pb2.InferTensorContents(bytes_contents=[body]))]
    message = service_pb2.ModelInferRequest(model_name="scaler", id="p-1", inputs=inputs)
    for name, value in parameters.items():
        message.parameters[name].string_param = value
    return message


def test_a_plugin_answers_over_grpc_as_over_http(stub, running):
    body = b'{"x": [1, 2, 3, 4]}'
    over_http = running.post("/v1/models/scaler:predict", body)
    response, call = stub.ModelInfer.with_call(plugin_request(body, content_type="application/json"))
    assert (response.outputs[0].name, response.outputs[0].datatype, response.id) == ("body", "BYTES", "p-1")
    raw = response.raw_output_contents[0]
    assert int.from_bytes(raw[:4], "little") == len(raw) - 4 and raw[4:] == over_http.body
    assert response.parameters["content_type"].string_param == over_http.headers["content-type"]
    assert response.parameters["status"].int64_param == 200
    metadata = dict(call.initial_metadata())
    assert metadata["x-plugin-generation"] == over_http.headers["x-plugin-generation"]


def test_a_plugin_gets_raw_contents_too_and_tensors_go_past_it(client):
    body = np.array([b'{"x": [1, 2, 3, 4]}'], dtype=np.object_)
    inputs = [triton_input("body", body, "BYTES")]
    result = client.infer("scaler", inputs, parameters={"content_type": "application/json"})
    assert result.as_numpy("body")[0].startswith(b'{"tag":"t","scale":10.0')
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    tensors = client.infer("scaler", [triton_input("x", x, "FP32")])
    assert_same_bits(tensors.as_numpy("y"), truth("scaler_v1", {"x": x})["y"])


@pytest.mark.parametrize(
    ("body", "content_type", "code", "text"),
    [
        (b'{"x": [1]}', "application/json", "INVALID_ARGUMENT", "/x: "),
        (b"{", "application/json", "INVALID_ARGUMENT", ""),
        (b'{"x": [1, 2, 3, 4]}', "text/csv", "UNIMPLEMENTED", ""),
    ],
)
def test_what_a_plugin_refuses(stub, running, body, content_type, code, text):
    over_http = running.post("/v1/models/scaler:predict", body, content_type)
    with pytest.raises(grpc.RpcError) as refused:
        stub.ModelInfer(plugin_request(body, content_type=content_type))
    assert refused.value.code().name == code
    assert refused.value.details() == over_http.json()["error"] and text in refused.value.details()
    metadata = dict(refused.value.trailing_metadata())
    assert metadata["airlock-code"] == over_http.json()["code"]
