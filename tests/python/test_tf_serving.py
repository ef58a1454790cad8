"""TF Serving's REST API as its users call it, on models without a plugin: bodies that `requests.post(url, json=...)` would
send, results that onnxruntime gives when called directly, and TF Serving's texts for what is refused."""

import base64
import concurrent.futures
import gzip
import json
import os
import shutil
import time
import urllib.request

import ml_dtypes
import numpy as np
import pytest
from conftest import ANSWER_TIMEOUT_S, ROOT, send, serving
from v2_repository import FIXTURES, NUMPY_TYPES, TYPES, samples, truth, write

COMPONENTS = os.environ.get("AIRLOCK_PLUGINS") or ROOT / "plugins/target/components"
NUMPY = NUMPY_TYPES | {"BF16": ml_dtypes.bfloat16}
BODY_BYTES_MAX = 1 << 20
FLAGS = [f"--http-max-input-size={BODY_BYTES_MAX}", "--rescan-ms=20", "--settle-ms=20"]
SLOW = """backend: "identity" max_batch_size: 1
input { name: "x" data_type: TYPE_INT32 dims: 1 }
output { name: "y" data_type: TYPE_INT32 dims: 1 }
dynamic_batching { default_queue_policy { max_queue_size: 1 } }
parameters { key: "execute_delay_ms" value { string_value: "1000" } }
"""


def labelled(labels):
    return f"""max_batch_size: 8
version_policy {{ all {{ }} }}
parameters {{ key: "airlock.version_labels" value {{ string_value: "{labels}" }} }}
"""


def add(repository, name, config, *stems):
    """A model with these versions, numbered from 1."""
    for number, stem in enumerate(stems, 1):
        version = repository / name / str(number)
        version.mkdir(parents=True)
        shutil.copy(FIXTURES / f"{stem}.onnx", version / "model.onnx")
    (repository / name / "config.pbtxt").write_text(config)
    return repository / name


@pytest.fixture(scope="module")
def tf_server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tf_serving")
    repository = folder / "models"
    write(repository)
    add(repository, "versions", labelled("stable=1,canary=2,gone=7"), "scaler_v1", "scaler_v2")
    add(repository, "moving", labelled("stable=1"), "scaler_v1", "scaler_v2")
    add(repository, "masked_mean", "max_batch_size: 8\n", "masked_mean")
    add(repository, "constant_output", "max_batch_size: 0\n", "constant_output")
    add(repository, "fixed_batch", "max_batch_size: 0\n", "fixed_batch")
    plugin = add(repository, "behind_plugin", labelled("stable=1"), "scaler_v1")
    shutil.copy(f"{COMPONENTS}/score-scaler.wasm", plugin / "plugin.wasm")
    (plugin / "plugin.toml").write_text("[config]\ntag = 't'\nscale = 10.0\n")
    slow = repository / "slow"
    (slow / "1").mkdir(parents=True)
    (slow / "config.pbtxt").write_text(SLOW)
    with serving(folder, repository, FLAGS) as server:
        # Readiness waits for every model, so what fails comes afterwards.
        broken = add(repository, "half_broken", "max_batch_size: 8\nversion_policy { all { } }\n", "scaler_v1")
        (broken / "2").mkdir()
        (broken / "2/model.onnx").write_bytes((FIXTURES / "sequence.onnx").read_bytes())
        until(lambda: '"END"' in server.get("/v1/models/half_broken").body.decode())
        yield server


def until(condition):
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < deadline:
        if condition():
            return
    pytest.fail("it has not come to be")


def predict(server, model, body, headers=None):
    """As `requests.post(url, json=body)`."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return server.post(f"/v1/models/{model}:predict", content, headers=headers)


def answered(answer):
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def refused(answer, status, text):
    assert (answer.status, answer.json()) == (status, {"error": text})
    assert answer.headers["content-type"] == "application/json"


def plain(array):
    """What JSON can hold of an array."""
    if array.dtype == ml_dtypes.bfloat16 or array.dtype == np.float16:
        return array.astype(np.float32).tolist()
    return array.tolist()


def same(answer, expected):
    got = np.array(answer, dtype=expected.dtype)
    assert got.shape == expected.shape
    if expected.dtype == np.object_:
        assert got.tolist() == expected.tolist()
    else:
        as_wide = [array.astype(np.float64) if array.dtype.kind not in "iub" else array for array in (got, expected)]
        np.testing.assert_array_equal(*as_wide)


# Results.


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (2, 0)])
@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("model", ["rows", "whole"])
def test_every_type_in_rows_and_columns(tf_server, model, data_type, shape):
    name, stem = f"{model}_{data_type.lower()}", f"identity_{data_type.lower()}"
    x = samples(data_type, shape)
    # Python's onnxruntime takes no bfloat16; the model is the identity.
    expected = x if data_type == "BF16" else truth(stem, {"x": x})["y"]
    rows = answered(predict(tf_server, name, {"instances": plain(x)}))
    named = answered(predict(tf_server, name, {"instances": [{"x": row} for row in plain(x)]}))
    columns = answered(predict(tf_server, name, {"inputs": plain(x), "signature_name": "serving_default"}))
    assert (list(rows), list(named), list(columns)) == (["predictions"], ["predictions"], ["outputs"])
    for values in (rows["predictions"], named["predictions"], columns["outputs"]):
        same(values, expected)


def test_all_types_at_once_and_names_that_mean_bytes(tf_server):
    inputs = {f"x_{data_type.lower()}": samples(data_type, (2, 3), seed=1) for data_type in TYPES}
    body = {name: plain(x) for name, x in inputs.items()}
    body["x_bytes"] = [[{"b64": base64.b64encode(text.encode()).decode()} for text in row] for row in inputs["x_bytes"]]
    columns = answered(predict(tf_server, "identity_all_types", {"inputs": body}))["outputs"]
    instances = [{name: rows[index] for name, rows in body.items()} for index in range(2)]
    rows = answered(predict(tf_server, "identity_all_types", {"instances": instances}))["predictions"]
    assert columns.pop("y_bytes") == body["x_bytes"], "an output whose name ends in _bytes is base64"
    assert [row.pop("y_bytes") for row in rows] == body["x_bytes"]
    assert len(columns) == len(TYPES) - 1
    for output, values in columns.items():
        x = inputs[output.replace("y_", "x_")]
        same(values, x)
        same([row[output] for row in rows], x)


def test_several_inputs_and_one_output(tf_server):
    a, b = (np.random.default_rng(seed).normal(size=(5, 2)).astype(np.float32) for seed in (1, 2))
    expected = truth("add", {"a": a, "b": b})["sum"]
    instances = [{"b": y, "a": x} for x, y in zip(a.tolist(), b.tolist())]
    same(answered(predict(tf_server, "add", {"instances": instances}))["predictions"], expected)
    same(answered(predict(tf_server, "add", {"inputs": {"b": b.tolist(), "a": a.tolist()}}))["outputs"], expected)


def test_one_input_and_several_outputs(tf_server):
    features = np.random.default_rng(3).normal(size=(4, 8)).astype(np.float32)
    expected = truth("fraud_mlp", {"features": features})
    rows = answered(predict(tf_server, "fraud_mlp", {"instances": features.tolist()}))["predictions"]
    columns = answered(predict(tf_server, "fraud_mlp", {"inputs": features.tolist()}))["outputs"]
    for name, values in expected.items():
        np.testing.assert_allclose([row[name] for row in rows], values, rtol=1e-5)
        np.testing.assert_allclose(columns[name], values, rtol=1e-5)
    assert all(set(row) == set(expected) for row in rows)


def test_several_inputs_and_several_outputs(tf_server):
    inputs = {
        "tokens": np.arange(6, dtype=np.int64).reshape(2, 3),
        "mask": np.array([[1, 1, 0], [1, 1, 1]], dtype=np.int64),
        "count": np.array([[2], [3]], dtype=np.int32),
    }
    expected = truth("masked_mean", inputs)
    body = {name: x.tolist() for name, x in inputs.items()}
    columns = answered(predict(tf_server, "masked_mean", {"inputs": body}))["outputs"]
    instances = [{name: x[index] for name, x in body.items()} for index in range(2)]
    rows = answered(predict(tf_server, "masked_mean", {"instances": instances}))["predictions"]
    for name, values in expected.items():
        np.testing.assert_allclose(columns[name], values, rtol=1e-5)
        np.testing.assert_allclose([row[name] for row in rows], values, rtol=1e-5)


def test_a_scalar_and_a_fixed_first_dimension(tf_server):
    # As in Triton, a scalar of the model is a tensor of one element to clients.
    assert answered(predict(tf_server, "scalar", {"inputs": [1.5]})) == {"outputs": [3.0]}
    assert answered(predict(tf_server, "scalar", {"instances": [1.5]})) == {"predictions": [3.0]}
    x = np.array([[1, 2, 3, 4]], dtype=np.float32)
    same(answered(predict(tf_server, "fixed_batch", {"instances": x.tolist()}))["predictions"], truth("fixed_batch", {"x": x})["y"])


def test_strings_and_bytes(tf_server):
    x = np.array([["halló"], ["\0"], [""]], dtype=np.object_)
    expected = truth("strings", {"x": x})["y"]
    same(answered(predict(tf_server, "text", {"instances": x.tolist()}))["predictions"], expected)
    raw = b"\xff\x00plain"
    rows = [[{"b64": base64.b64encode(raw).decode()}], ["text"]]
    answer = answered(predict(tf_server, "rows_bytes", {"instances": rows}))
    assert answer == {"predictions": rows}, "what is no text goes out as base64"
    wrapped = {"b64": base64.encodebytes(b"x" * 100).decode()}
    assert answered(predict(tf_server, "rows_bytes", {"inputs": [[wrapped]]})) == {"outputs": [["x" * 100]]}


def test_numbers_without_a_json_form(tf_server):
    answer = predict(tf_server, "rows_fp32", b'{"instances": [[NaN, Infinity, -Infinity, 1]]}')
    assert answer.body == b'{"predictions":[[NaN,Infinity,-Infinity,1.0]]}'


# Versions, labels and headers.

X = [[1.0, 2.0, 3.0, 4.0]]
TWICE, THRICE = [[2.0, 4.0, 6.0, 8.0]], [[3.0, 6.0, 9.0, 12.0]]


@pytest.mark.parametrize(
    ("path", "version", "predictions"),
    [
        ("versions", "2", THRICE),
        ("versions/versions/1", "1", TWICE),
        ("versions/versions/2", "2", THRICE),
        ("versions/labels/stable", "1", TWICE),
        ("versions/labels/canary", "2", THRICE),
    ],
)
def test_versions_and_labels(tf_server, path, version, predictions):
    answer = predict(tf_server, path, {"instances": X}, {"X-Request-Id": "r-1"})
    assert answered(answer) == {"predictions": predictions}
    assert (answer.headers["x-model-version"], answer.headers["x-request-id"]) == (version, "r-1")


def metric(server, name, **labels):
    """The sum over the series that have these labels."""
    lines = send(urllib.request.Request(server.metrics + "/metrics")).body.decode().splitlines()
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    found = (line for line in lines if line.startswith(name + "{") and all(label in line for label in wanted))
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


def test_a_label_moves_and_nothing_is_loaded(tf_server):
    def ask():
        return answered(predict(tf_server, "moving/labels/stable", {"instances": X}))["predictions"]

    assert ask() == TWICE
    loads = metric(tf_server, "airlock_engine_loads_total", model="moving")
    (tf_server.model_repository / "moving/config.pbtxt").write_text(labelled("stable=2"))
    until(lambda: ask() == THRICE)
    assert metric(tf_server, "airlock_engine_loads_total", model="moving") == loads == 2
    printed = tf_server.get("/v2/models/moving/config").json()["parameters"]
    assert printed["airlock.version_labels"] == {"string_value": "stable=2"}


def test_bodies_and_answers_may_be_compressed(tf_server):
    body = gzip.compress(json.dumps({"instances": X}).encode())
    headers = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
    answer = predict(tf_server, "versions", body, headers)
    assert answer.status == 200 and answer.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(answer.body)) == {"predictions": THRICE}


def test_requests_are_counted(tf_server):
    def counts(code):
        return metric(tf_server, "airlock_requests_total", model="add", code=code)

    body = {"inputs": {"a": [[1, 2]], "b": [[3, 4]]}}
    before = counts("ok"), counts("invalid_tensors"), metric(tf_server, "nv_inference_request_success", model="add")
    answered(predict(tf_server, "add", body))
    assert predict(tf_server, "add", {"inputs": [1]}).status == 400
    after = counts("ok"), counts("invalid_tensors"), metric(tf_server, "nv_inference_request_success", model="add")
    assert [now - then for now, then in zip(after, before)] == [1, 1, 1]


def test_a_model_with_a_plugin_keeps_its_own_predict(tf_server):
    for path in ("behind_plugin", "behind_plugin/versions/1", "behind_plugin/labels/stable"):
        answer = predict(tf_server, path, {"x": [1, 2, 3, 4]})
        assert answered(answer)["y"] == [20, 40, 60, 80] and answer.headers["x-plugin-generation"] == "1"
    answer = predict(tf_server, "behind_plugin", {"instances": X})
    assert answer.status in (400, 422) and "code" in answer.json(), "the plugin's own refusal"
    answer = predict(tf_server, "behind_plugin/labels/none", {"x": [1, 2, 3, 4]})
    assert (answer.status, answer.json()) == (
        400,
        {"error": "Unrecognized servable version label: none", "code": "malformed_request"},
    )
    assert tf_server.get("/v1/models/behind_plugin").json()["model_version_status"][0]["state"] == "AVAILABLE"


# What is refused.

FAILED = "Failed to process element: "
CASES = [
    ("nope", {}, 404, "Servable not found for request: Latest(nope)"),
    ("nope/versions/3", {}, 404, "Servable not found for request: Specific(nope, 3)"),
    ("versions/versions/3", {}, 404, "Servable not found for request: Specific(versions, 3)"),
    ("versions/versions/0", {}, 404, "Servable not found for request: Specific(versions, 0)"),
    ("versions/versions/x", {}, 400, "Malformed request: POST /v1/models/versions/versions/x:predict"),
    ("versions/versions/9223372036854775808", {}, 400, "Failed to convert version: 9223372036854775808 to numeric."),
    ("versions/labels/none", {}, 400, "Unrecognized servable version label: none"),
    ("nope/labels/stable", {}, 400, "Unrecognized servable version label: stable"),
    ("versions/labels/gone", {}, 404, "Servable not found for request: Specific(versions, 7)"),
    ("add", b"", 400, "JSON Parse error: The document is empty"),
    ("add", b"{", 400, "JSON Parse error: expected a member's name in quotes at offset: 1"),
    ("add", [], 400, "JSON Value: [] Is not object"),
    ("add", {}, 400, "Missing 'inputs' or 'instances' key"),
    ("add", {"instances": []}, 400, "JSON Value: {\"instances\": []} No values in 'instances' array"),
    ("add", {"signature_name": "other"}, 400, 'Serving signature name: "other" not found in signature def'),
    ("add", {"instances": [[1, 2]]}, 400, "instances is a plain list, but expecting list of objects as multiple input "
     "tensors required as per tensorinfo_map"),
    ("add", {"inputs": [[1, 2]]}, 400, "inputs is a plain value/list, but expecting an object as multiple input tensors "
     "required as per tensorinfo_map"),
    ("add", {"inputs": {"a": [[1, 2]]}}, 400, "Missing named input: b in 'inputs' object."),
    ("add", {"instances": [{"a": [1, 2]}]}, 400, FAILED + "0 of 'instances' list. JSON object: {\"a\": [1, 2]} keys must be "
     "equal to: a,b"),
    ("add", {"instances": [{"c": 1}]}, 400, FAILED + "0 key: c of 'instances' list. Error: INVALID_ARGUMENT: JSON object: "
     "does not have named input: c"),
    ("rows_fp32", {"instances": [[1], ["x"]]}, 400, FAILED + "1 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: "
     '"x" Type: String is not of expected type: float'),
    ("rows_fp32", {"instances": [[1, 2], [3]]}, 400, FAILED + "1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting "
     "tensor size: 2 but got: 1"),
    ("rows_uint8", {"inputs": [[256]]}, 400, "JSON Value: 256 Type: Number is not of expected type: uint8"),
    ("rows_fp32", {"inputs": [[1e39]]}, 400, "Cannot convert JSON value: 1e+39 to float without loss of precision."),
    ("rows_bytes", {"inputs": [[{"b64": "?"}]]}, 400, "Unable to base64 decode"),
    ("rows_fp32", {"instances": [1, 2]}, 400, "unexpected shape for input 'x' for model 'rows_fp32'. Expected [-1,-1], got "
     "[2]"),
    ("rows_fp32", {"instances": [[1]] * 9}, 400, "inference request batch-size must be <= 8 for 'rows_fp32', got 9"),
    ("add", {"inputs": {"a": [[1, 2]], "b": [[1, 2]] * 2}}, 400, "input 'b' batch size does not match other inputs for "
     "'add': 'a' has 1 rows, 'b' has 2"),
    ("scalar", {"inputs": 1}, 400, "unexpected shape for input 'x' for model 'scalar'. Expected [1], got []"),
    ("fixed_batch", {"instances": [[1, 2, 3, 4]] * 2}, 400, "unexpected shape for input 'x' for model 'fixed_batch'. "
     "Expected [1,4], got [2,4]"),
    ("rows_fp32", b'{"inputs": ' + b"[" * 200, 400, "JSON nesting depth exceeds maximum allowed limit (100)"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "status", "text"), CASES)
def test_what_is_refused(tf_server, path, body, status, text):
    refused(predict(tf_server, path, body), status, text)


@pytest.mark.parametrize("verb", ["classify", "regress"])
def test_verbs_for_examples(tf_server, verb):
    text = (
        f"':{verb}' takes tf.Example protos, and no model here has a signature for them; use ':predict' with 'instances' "
        "or 'inputs'"
    )
    for path in ("add", "versions/versions/1", "versions/labels/stable"):
        refused(tf_server.post(f"/v1/models/{path}:{verb}", b'{"examples": [{}]}'), 400, text)


def test_bodies_that_are_too_large(tf_server):
    large = json.dumps({"inputs": "x" * BODY_BYTES_MAX}).encode()
    text = f"exceeds the maximum allowed input size of {BODY_BYTES_MAX} bytes. Use --http-max-input-size to increase the limit."
    refused(predict(tf_server, "add", large), 413, f"request JSON size of {len(large)} bytes {text}")
    bomb = predict(tf_server, "add", gzip.compress(large), {"Content-Encoding": "gzip"})
    text = f"Decompressed data size exceeds the maximum allowed value of {BODY_BYTES_MAX} bytes."
    refused(bomb, 413, f"{text} Use --http-max-input-size to increase the limit.")
    numbers = json.dumps({"inputs": [[1] * (BODY_BYTES_MAX // 4)]}).encode()
    text = f"that exceeds the maximum allowed value of {BODY_BYTES_MAX} bytes. Use --http-max-input-size to increase the limit."
    refused(
        predict(tf_server, "rows_fp64", numbers),
        400,
        f"JSON input 'x' has a byte_size ({BODY_BYTES_MAX + 8} bytes) {text}",
    )


def test_compressions_that_are_not_there(tf_server):
    answer = predict(tf_server, "add", b"{}", {"Content-Encoding": "zstd"})
    refused(answer, 501, "Unsupported compression type")
    assert answer.headers["accept-encoding"] == "gzip, deflate"


def test_deadlines(tf_server):
    answer = predict(tf_server, "slow", {"instances": [[1]]}, {"X-Request-Timeout-Ms": "soon"})
    refused(answer, 400, "X-Request-Timeout-Ms is \"soon\"; it must be a number of milliseconds from 1 up")
    answer = predict(tf_server, "slow", {"instances": [[1]]}, {"X-Request-Timeout-Ms": "50"})
    assert answer.status == 504 and list(answer.json()) == ["error"], answer.body


def test_a_full_queue(tf_server):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: predict(tf_server, "slow", {"instances": [[1]]}), range(8)))
    turned_away = [answer for answer in answers if answer.status != 200]
    assert turned_away and len(turned_away) < 8
    for answer in turned_away:
        refused(answer, 503, "Exceeds maximum queue size")
        assert answer.headers["retry-after"] == "1"


def test_outputs_that_have_no_common_rows(tf_server):
    expected = truth("constant_output", {"x": np.array([1, 2], dtype=np.float32)})
    outputs = answered(predict(tf_server, "constant_output", {"inputs": [1, 2]}))["outputs"]
    assert outputs == {name: values.tolist() for name, values in expected.items()}
    text = "Tensor name: table has inconsistent batch size: 3 expecting: 2"
    refused(predict(tf_server, "constant_output", {"instances": [1, 2]}), 400, text)


# Status and metadata.


def version(number, state="AVAILABLE", code="OK", message=""):
    return {"version": str(number), "state": state, "status": {"error_code": code, "error_message": message}}


@pytest.mark.parametrize(
    ("path", "versions"),
    [
        ("versions", [version(2), version(1)]),
        ("versions/versions/1", [version(1)]),
        ("versions/labels/canary", [version(2)]),
        ("add", [version(1)]),
    ],
)
def test_status(tf_server, path, versions):
    assert answered(tf_server.get(f"/v1/models/{path}")) == {"model_version_status": versions}


def test_the_status_of_a_version_that_failed(tf_server):
    failed, serving_version = answered(tf_server.get("/v1/models/half_broken"))["model_version_status"]
    assert serving_version == version(1)
    reason = failed["status"]["error_message"]
    assert reason and failed == version(2, "END", "UNKNOWN", reason)
    answer = predict(tf_server, "half_broken/versions/2", {"instances": X})
    assert answer.status == 503 and reason in answer.json()["error"], "as on every other route"


def test_metadata(tf_server):
    def tensor(name, dtype, *dims):
        shape = {"dim": [{"size": str(dim), "name": ""} for dim in dims], "unknown_rank": False}
        return {"dtype": dtype, "tensor_shape": shape, "name": f"{name}:0"}

    signature = {
        "inputs": {"x": tensor("x", "DT_FLOAT", -1, 4)},
        "outputs": {"y": tensor("y", "DT_FLOAT", -1, 4)},
        "method_name": "tensorflow/serving/predict",
    }
    metadata = {"signature_def": {"signature_def": {"serving_default": signature}}}
    for path, number in [("versions", "2"), ("versions/versions/1", "1"), ("versions/labels/canary", "2")]:
        answer = answered(tf_server.get(f"/v1/models/{path}/metadata"))
        assert answer == {"model_spec": {"name": "versions", "signature_name": "", "version": number}, "metadata": metadata}
    signature = answered(tf_server.get("/v1/models/identity_all_types/metadata"))
    signature = signature["metadata"]["signature_def"]["signature_def"]["serving_default"]
    dtypes = {name.removeprefix("x_"): tensor["dtype"] for name, tensor in signature["inputs"].items()}
    assert dtypes == {
        "bool": "DT_BOOL", "uint8": "DT_UINT8", "uint16": "DT_UINT16", "uint32": "DT_UINT32", "uint64": "DT_UINT64",
        "int8": "DT_INT8", "int16": "DT_INT16", "int32": "DT_INT32", "int64": "DT_INT64", "fp16": "DT_HALF",
        "bf16": "DT_BFLOAT16", "fp32": "DT_FLOAT", "fp64": "DT_DOUBLE", "bytes": "DT_STRING",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("", 400, "Missing model name in request."),
        ("/nope", 404, "Could not find any versions of model nope"),
        ("/nope/versions/1", 404, "Could not find version 1 of model nope"),
        ("/versions/versions/3", 404, "Could not find version 3 of model versions"),
        ("/versions/versions/x", 400, "Malformed request: GET /v1/models/versions/versions/x"),
        ("/versions/labels/none", 400, "Unrecognized servable version label: none"),
        ("/versions/labels/gone", 404, "Could not find version 7 of model versions"),
        ("/nope/metadata", 404, "Servable not found for request: Latest(nope)"),
        ("/versions/versions/3/metadata", 404, "Servable not found for request: Specific(versions, 3)"),
        ("/versions/labels/none/metadata", 400, "Unrecognized servable version label: none"),
        ("/behind_plugin/versions/3/metadata", 404, "Servable not found for request: Specific(behind_plugin, 3)"),
    ],
)
def test_status_and_metadata_of_what_is_not_there(tf_server, path, status, text):
    refused(tf_server.get(f"/v1/models{path}"), status, text)


def test_restricted_groups(tmp_path):
    add(tmp_path / "models", "add", "max_batch_size: 8\n", "add")
    groups = [("health", "/v1/models/add"), ("metadata", "/v1/models/add/metadata"), ("inference", "/v1/models/add:predict")]
    flags = [f"--http-restricted-api={group}:x-{group}=secret" for group, _ in groups[1:]]
    with serving(tmp_path, tmp_path / "models", flags) as server:
        answered(server.get(groups[0][1]))
        for (group, path), body in zip(groups[1:], [None, b'{"inputs": {"a": [[1, 2]], "b": [[3, 4]]}}']):
            def ask(headers):
                return send(urllib.request.Request(server.http + path, data=body, headers=headers))

            answer = ask({})
            assert answer.status == 403
            assert answer.json()["error"] == f"This API is restricted, expecting header 'x-{group}'"
            answered(ask({f"x-{group}": "secret"}))
