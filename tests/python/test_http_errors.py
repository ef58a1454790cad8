"""What a client gets for a wrong request: every case with its status and its whole text. The texts are Triton's, with the
place and the value at fault behind them in parentheses where Triton says less; docs/triton-differences.md has the statuses
that differ.
"""

import gzip
import http.client
import json
import struct
import zlib

import pytest

MALFORMED, TENSORS, NOT_SUPPORTED = "malformed_request", "invalid_tensors", "not_supported"
NO_ID = "[request id: <id_unknown>] "
ONE_WAY = (
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in "
    "'parameters'. But"
)
NOT_JSON = "failed to parse the request JSON buffer: "
UNSIGNED = "attempt to access JSON non-unsigned-integer as unsigned-integer"
RESERVED = "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified."
MISTYPED = "has invalid type. It should be either 'int', 'bool', or 'string'."
LIMIT = 1 << 20


def tensor(name="x", datatype="FP32", shape=(1, 2), data=(1, 2), **more):
    entry = {"name": name, "datatype": datatype, "shape": list(shape), **more}
    return entry if data is None else {**entry, "data": list(data)}


def binary(size, name="x", datatype="FP32", shape=(1, 2)):
    return tensor(name, datatype, shape, data=None, parameters={"binary_data_size": size})


def request(*inputs, **members):
    return {**members, "inputs": list(inputs)}


def asking(name="y", **parameters):
    return request(tensor(), outputs=[{"name": name, "parameters": parameters}])


# What is wrong with the JSON: the body, and the text.
JSON_CASES = [
    (b"", NOT_JSON + "the document is empty at 0"),
    (b"{", NOT_JSON + "expected a member's name in quotes at 1"),
    (b"[]", NOT_JSON + "expected an object at 0"),
    (b'{"inputs":[1,]}', "Unable to parse 'inputs': attempt to access JSON non-object as object (in inputs[0])"),
    (b'{"id":"\xff"}', NOT_JSON + "invalid UTF-8 at 7"),
    (b'{"id":"a"} {}', NOT_JSON + "nothing may follow the outermost value at 11"),
    (b'{"a":' + b"[" * 200, "JSON nesting depth exceeds maximum allowed limit (100)"),
    ({}, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs' (in the request)"),
    ({"inputs": {}}, "Unable to parse 'inputs': attempt to access JSON non-array as array (in the request)"),
    ({"inputs": [], "id": 1}, "Unable to parse 'id': attempt to access JSON non-string as string (in the request)"),
    ({"inputs": [], "outputs": 1}, "Unable to parse 'outputs': attempt to access JSON non-array as array (in the request)"),
    (
        {"inputs": [], "parameters": 1},
        "failed to get request params.: attempt to get members for non-object ('parameters')",
    ),
    (request({"datatype": "FP32", "shape": [1], "data": [1]}),
     "Unable to parse 'name': attempt to access non-existing object member 'name' (in inputs[0])"),
    (request({"name": "x", "shape": [1], "data": [1]}),
     "Unable to parse 'datatype': attempt to access non-existing object member 'datatype' (in inputs[0])"),
    (request({"name": "x", "datatype": "FP32", "data": [1]}),
     "Unable to parse 'shape': attempt to access non-existing object member 'shape' (in inputs[0])"),
    (request(tensor(shape=[-1, 2])), f"Unable to parse 'shape': {UNSIGNED} (in inputs[0])"),
    (request(tensor(shape=["1"])), f"Unable to parse 'shape': {UNSIGNED} (in inputs[0])"),
    (request(tensor(shape=[1] * 65)), "Unable to parse 'shape': it has more than 64 dimensions (in inputs[0])"),
    (request({**tensor(), "data": 1}), "Unable to parse 'data': attempt to access JSON non-array as array (in inputs[0])"),
    (request(tensor(data=None)), f"{ONE_WAY} no field is set (in inputs[0])"),
    (request({**binary(8), "data": [1, 2]}), f"{ONE_WAY} set 'data' 'binary_data_size' (in inputs[0])"),
    (request(tensor(data=None, parameters={"binary_data_size": 8, "shared_memory_region": "r"})),
     f"{ONE_WAY} set 'binary_data_size' 'shared_memory_region' (in inputs[0])"),
    (request(tensor(parameters=[])), "Unable to parse 'parameters': attempt to access JSON non-object as object (in inputs[0])"),
    (request(binary(-1)), f"Unable to parse 'binary_data_size': {UNSIGNED} (in inputs[0])"),
    (request(binary(1.5)), f"Unable to parse 'binary_data_size': {UNSIGNED} (in inputs[0])"),
    (request(tensor(), outputs=[{}]),
     "Unable to parse 'name': attempt to access non-existing object member 'name' (in outputs[0])"),
    (asking(binary_data=1), "Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean (in outputs[0])"),
    (asking(classification=-1), f"Unable to parse 'classification': {UNSIGNED} (in outputs[0])"),
    (asking(shared_memory_region="r", classification=1),
     "Output can't set both 'shared_memory_region' and 'classification'"),
    (asking(shared_memory_region="r", binary_data=True), "Output can't set both 'shared_memory_region' and 'binary_data'"),
    (request(parameters={"triton_x": 1}), RESERVED),
    (request(parameters={"a": None}), f"parameter 'a' {MISTYPED}"),
    (request(parameters={"a": [1]}), f"parameter 'a' {MISTYPED}"),
    (request(parameters={"priority": -1}), f"Unable to parse 'priority': {UNSIGNED} (in the request's parameters)"),
    (request(parameters={"timeout": "1"}), f"Unable to parse 'timeout': {UNSIGNED} (in the request's parameters)"),
    (request(parameters={"sequence_id": -1}),
     "Unable to parse 'sequence_id': attempt to access JSON non-string as string (in the request's parameters)"),
    (request(parameters={"sequence_start": 1}),
     "Unable to parse 'sequence_start': attempt to access JSON non-boolean as boolean (in the request's parameters)"),
    (request(parameters={"binary_data_output": "yes"}),
     "Unable to parse 'binary_data_output': attempt to access JSON non-boolean as boolean (in the request's parameters)"),
    (b'{"inputs":[],"inputs":[]}', "Unable to parse 'inputs': it is given more than once (in the request)"),
    (request(parameters={f"p{i}": i for i in range(257)}), "a request has at most 256 parameters"),
]  # fmt: skip

# What is wrong with tensors of `rows_fp32`, x to y, both [-1,-1], 8 rows at most.
TENSOR_CASES = [
    (request(), NO_ID + "expected 1 inputs but got 0 inputs for model 'rows_fp32'. Got input(s) [], but missing required "
     "input(s) ['x']. Please provide all required input(s)."),
    (request(tensor(), tensor("z")), NO_ID + "expected 1 inputs but got 2 inputs for model 'rows_fp32'. Got input(s) "
     "['x','z']. Please provide all required input(s)."),
    (request(tensor("z")), "unexpected inference input 'z' for model 'rows_fp32'"),
    (request(tensor("z"), id="7"), "unexpected inference input 'z' for model 'rows_fp32'"),
    (request(tensor(), outputs=[{"name": "z"}]), "unexpected inference output 'z' for model 'rows_fp32'"),
    (request(tensor(), tensor()), NO_ID + "input 'x' already exists in request"),
    (request(tensor(), tensor(), id="7"), "[request id: 7] input 'x' already exists in request"),
    (request(tensor(), outputs=[{"name": "y"}, {"name": "y"}], id="7"), "[request id: 7] output 'y' already exists in request"),
    (request(tensor(datatype="INT32")),
     NO_ID + "inference input 'x' data-type is 'INT32', but model 'rows_fp32' expects 'FP32'"),
    (request(tensor(datatype="INT32"), id="7"),
     "[request id: 7] inference input 'x' data-type is 'INT32', but model 'rows_fp32' expects 'FP32'"),
    (request(tensor(datatype="FLOAT")), "invalid datatype for input x ('FLOAT' is none of BOOL, UINT8, UINT16, UINT32, "
     "UINT64, INT8, INT16, INT32, INT64, FP16, BF16, FP32, FP64, BYTES)"),
    (request(tensor(shape=[], data=[1])),
     NO_ID + "input 'x' has no shape but model requires batch dimension for 'rows_fp32'"),
    (request(tensor(shape=[2])), NO_ID + "unexpected shape for input 'x' for model 'rows_fp32'. Expected [-1,-1], got [2]"),
    (request(tensor(shape=[1, 1, 2])),
     NO_ID + "unexpected shape for input 'x' for model 'rows_fp32'. Expected [-1,-1], got [1,1,2]"),
    (request(tensor(shape=[9, 1], data=[0] * 9)),
     NO_ID + "inference request batch-size must be <= 8 for 'rows_fp32', got 9"),
    (request(tensor(shape=[0, 2], data=[])), NO_ID + "inference request for model 'rows_fp32' must have at least 1 row"),
    (request(tensor(data=[1, 2, 3])), "Unable to parse 'data': Shape does not match true shape of 'data' field (input 'x' of "
     "shape [1,2] holds 2 values, 'data' has more)"),
    (request(tensor(data=[[1]])), "Failed to parse 'data' field: shape does not match true shape (input 'x' of shape [1,2] "
     "holds 2 values, 'data' has 1)"),
    (request(tensor(data=["1", 2])), "Unable to parse 'data': attempt to access JSON non-number as double (string at index 0 "
     "of input 'x' of type FP32)"),
    (request(tensor(data=[1, None])), "Unable to parse 'data': attempt to access JSON non-number as double (null at index 1 of "
     "input 'x' of type FP32)"),
    (request(tensor(data=[1, 1e39])), "Unable to parse 'data': value 1e+39 at index 1 of input 'x' is out of range for FP32, "
     "which holds -3.4028235e38 to 3.4028235e38"),
    (request(tensor(datatype="UINT8", data=[1, 256])), "Unable to parse 'data': value 256 at index 1 of input 'x' is out of "
     "range for UINT8, which holds 0 to 255"),
    (request(tensor(datatype="INT8", data=[1, 1.5])), "Unable to parse 'data': attempt to access JSON non-signed-integer as "
     "signed-integer (value 1.5 at index 1 of input 'x' of type INT8)"),
    (request(tensor(datatype="BOOL", data=[1, 0])), "Unable to parse 'data': attempt to access JSON non-boolean as boolean "
     "(number at index 0 of input 'x' of type BOOL)"),
    (request(tensor(datatype="BYTES", data=[1, "a"])), "Unable to parse JSON bytes array: attempt to access JSON non-string as "
     "string (number at index 0 of input 'x' of type BYTES)"),
    (request(tensor(datatype="BYTES", data=["a", "b", "c"])), NO_ID + "unexpected number of string elements 3 for inference "
     "input 'x' for model 'rows_fp32', expecting 2"),
    (request(tensor(datatype="BYTES", data=["a"])), NO_ID + "expected 2 string elements for inference input 'x' for model "
     "'rows_fp32', got 1"),
    (request(tensor(shape=[1 << 40, 1 << 40], data=[])), "invalid shape for input 'x': shape [1099511627776,1099511627776] "
     "causes total element count to exceed maximum size of 9223372036854775807"),
    (request(tensor(shape=[1 << 61], data=[])), "byte size overflow for input 'x': element count (2305843009213693952) * data "
     "type size (4) exceeds maximum allowed size (9223372036854775807)"),
    (request(tensor(shape=[1, LIMIT], data=[])), f"JSON input 'x' has a byte_size ({4 * LIMIT} bytes) that exceeds the maximum "
     f"allowed value of {LIMIT} bytes. Use --http-max-input-size to increase the limit."),
    (request(*(tensor(f"n{i}") for i in range(66))), "request lists more than 65 inputs, but model 'rows_fp32' has 1"),
]  # fmt: skip

# Binary data: the JSON, the bytes behind it, and the text.
BINARY_CASES = [
    (request(binary(8)), b"1234", "unexpected size for input 'x', expecting 4 additional bytes for model 'rows_fp32'"),
    (request(binary(8)), b"123456789", "unexpected additional input data for model 'rows_fp32'"),
    (request(tensor()), b"1", "unexpected additional input data for model 'rows_fp32'"),
    (request(binary(4)), b"1234", NO_ID + "input byte size mismatch for input 'x' for model 'rows_fp32'. Expected 8, got 4"),
    (request(binary(0), id="7"), b"",
     "[request id: 7] input byte size mismatch for input 'x' for model 'rows_fp32'. Expected 8, got 0"),
    (request(binary(8, datatype="FP16")), b"12345678",
     NO_ID + "input byte size mismatch for input 'x' for model 'rows_fp32'. Expected 4, got 8"),
    (request(binary(4, datatype="FP16")), b"1234",
     NO_ID + "inference input 'x' data-type is 'FP16', but model 'rows_fp32' expects 'FP32'"),
    (request(binary(8), binary(8)), b"1234567812345678", NO_ID + "input 'x' already exists in request"),
    (request(binary(8, shape=[1 << 40, 1 << 40])), b"12345678", "invalid shape for input 'x': shape "
     "[1099511627776,1099511627776] causes total element count to exceed maximum size of 9223372036854775807"),
    (request(binary(10, datatype="BYTES")), b"\1\0\0\0a\1\0\0\0b",
     NO_ID + "inference input 'x' data-type is 'BYTES', but model 'rows_fp32' expects 'FP32'"),
    (request(binary(5, datatype="BYTES")), b"\1\0\0\0a",
     NO_ID + "expected 2 string elements for inference input 'x' for model 'rows_fp32', got 1"),
    (request(binary(12, datatype="BYTES")), bytes(12),
     NO_ID + "unexpected number of string elements 3 for inference input 'x' for model 'rows_fp32', expecting 2"),
    (request(binary(6, datatype="BYTES")), b"\xff\0\0\0ab",
     NO_ID + "incomplete string data for inference input 'x' for model 'rows_fp32', expecting string of length 255 but only 2 "
     "bytes available. Please make sure the string is in one buffer."),
    (request(binary(7, datatype="BYTES")), b"\1\0\0\0a\1\0",
     NO_ID + "incomplete string length indicator for inference input 'x' for model 'rows_fp32', expecting 4 bytes but only 2 "
     "bytes available. Please make sure the string length indicator is in one buffer."),
]  # fmt: skip

# The length of the JSON that the header names, of a body of 10 bytes.
LENGTH_CASES = [
    ("ten", "Unable to parse Inference-Header-Content-Length, got: ten"),
    ("", "Unable to parse Inference-Header-Content-Length, got: "),
    ("11", "inference header size should be in range (0, 10), got: 11"),
    ("-1", "inference header size should be in range (0, 10), got: -1"),
]

# Bodies that are values alone, by model.
RAW_CASES = [
    ("add", b"12345678", "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'add' model "
     "configuration"),
    ("whole_fp32", b"12345678", "The shape of the raw input 'x' can not be deduced because there are more than one "
     "variable-sized dimension"),
    ("rows_bytes", b"12345678", "For BYTE datatype raw input 'x', the model must have input shape [1]"),
    ("fraud_mlp", b"12345678", NO_ID + "input byte size mismatch for input 'features' for model 'fraud_mlp'. Expected 32, "
     "got 8"),
]  # fmt: skip

# Models and versions that are not there.
ADDRESS_CASES = [
    ("POST", "/v2/models/nowhere/infer", 400, "model_not_found", "Request for unknown model: 'nowhere' is not found"),
    ("GET", "/v2/models/nowhere", 400, "model_not_found", "Request for unknown model: 'nowhere' is not found"),
    ("GET", "/v2/models/nowhere/config", 400, "model_not_found", "Request for unknown model: 'nowhere' is not found"),
    ("GET", "/v2/models/nowhere/ready", 400, "model_not_found", "Request for unknown model: 'nowhere' is not found"),
    ("POST", "/v2/models/add/versions/2/infer", 404, "version_not_found",
     "Request for unknown model: 'add' version 2 is not found"),
    ("GET", "/v2/models/add/versions/2", 404, "version_not_found", "Request for unknown model: 'add' version 2 is not found"),
    ("POST", "/v2/models/add/versions/two/infer", 400, MALFORMED, "failed to get model version from specified version string "
     "'two', version should be an integral value > 0"),
    ("POST", "/v2/models/add/versions/0/infer", 400, MALFORMED, "failed to get model version from specified version string "
     "'0', version should be an integral value > 0"),
    ("GET", "/v2/models/add/infer", 405, "method_not_allowed", "Method Not Allowed: GET on /v2/models/add/infer"),
    ("POST", "/v2/health/live", 405, "method_not_allowed", "Method Not Allowed: POST on /v2/health/live"),
    ("GET", "/v2/nothing", 404, "not_found", "Not Found: no route /v2/nothing"),
    ("POST", "/v2/models/add/inference", 404, "not_found", "Not Found: no route /v2/models/add/inference"),
]  # fmt: skip


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    """The same models behind a small limit on bodies."""
    import v2_repository
    from conftest import serving

    folder = tmp_path_factory.mktemp("v2-limited")
    v2_repository.write(folder / "models")
    flags = [f"--http-max-input-size={LIMIT}", "--http-header-forward-pattern=^x-tenant|^priority$"]
    with serving(folder, folder / "models", flags) as running:
        yield running


def exchange(server, path, body, headers=(), method="POST"):
    """Sends exactly these headers; a body that is a list goes out in chunks."""
    connection = http.client.HTTPConnection(server.http.removeprefix("http://"), timeout=60)
    try:
        connection.request(method, path, body=iter(body) if isinstance(body, list) else body, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def refused(server, path, body, headers=()):
    status, _, answer = exchange(server, path, body, headers)
    content = json.loads(answer)
    return status, content["code"], content["error"]


def encoded(body):
    return body if isinstance(body, bytes) else json.dumps(body).encode()


@pytest.mark.parametrize("body, text", JSON_CASES)
def test_json(limited, body, text):
    assert refused(limited, "/v2/models/rows_fp32/infer", encoded(body)) == (400, MALFORMED, text)


@pytest.mark.parametrize("body, text", TENSOR_CASES)
def test_tensors(limited, body, text):
    assert refused(limited, "/v2/models/rows_fp32/infer", encoded(body)) == (400, TENSORS, text)


@pytest.mark.parametrize("body, data, text", BINARY_CASES)
def test_binary_data(limited, body, data, text):
    described = encoded(body)
    headers = {"Inference-Header-Content-Length": str(len(described))}
    assert refused(limited, "/v2/models/rows_fp32/infer", described + data, headers) == (400, TENSORS, text)


def test_binary_data_without_the_length_of_the_json(limited):
    text = "unexpected size for input 'x', expecting 8 additional bytes for model 'rows_fp32'"
    assert refused(limited, "/v2/models/rows_fp32/infer", encoded(request(binary(8)))) == (400, TENSORS, text)


@pytest.mark.parametrize("length, text", LENGTH_CASES)
def test_the_length_of_the_json(limited, length, text):
    headers = {"Inference-Header-Content-Length": length}
    assert refused(limited, "/v2/models/rows_fp32/infer", b"0123456789", headers) == (400, MALFORMED, text)


@pytest.mark.parametrize("model, data, text", RAW_CASES)
def test_values_alone(limited, model, data, text):
    headers = {"Inference-Header-Content-Length": "0"}
    assert refused(limited, f"/v2/models/{model}/infer", data, headers) == (400, TENSORS, text)


@pytest.mark.parametrize("method, path, status, code, text", ADDRESS_CASES)
def test_addresses(limited, method, path, status, code, text):
    got, _, body = exchange(limited, path, b"{}" if method == "POST" else None, method=method)
    content = json.loads(body)
    assert (got, content["code"], content["error"]) == (status, code, text)


def test_rows_that_disagree(limited):
    body = request(tensor("a"), tensor("b", shape=[2, 2], data=[1, 2, 3, 4]))
    text = NO_ID + "input 'b' batch size does not match other inputs for 'add': 'a' has 1 rows, 'b' has 2"
    assert refused(limited, "/v2/models/add/infer", encoded(body)) == (400, TENSORS, text)


@pytest.mark.parametrize("data_type", ["FP16", "BF16", "BYTES", "BOOL"])
def test_outputs_that_have_no_classes(limited, data_type):
    data = {"BYTES": ["a"], "BOOL": [True]}.get(data_type, [1])
    asked = [{"name": "y", "parameters": {"classification": 1}}]
    body = request(tensor(datatype=data_type, shape=[1, 1], data=data), outputs=asked)
    text = f"class result not available for output due to unsupported type '{data_type}'"
    assert refused(limited, f"/v2/models/rows_{data_type.lower()}/infer", encoded(body)) == (400, TENSORS, text)


def test_bytes_that_json_cannot_hold(limited):
    described = encoded(request(binary(5, datatype="BYTES", shape=[1, 1])))
    headers = {"Inference-Header-Content-Length": str(len(described))}
    text = (
        "output 'y' has bytes that are not UTF-8 at index 0, and JSON strings cannot hold them; ask for it with "
        '"binary_data": true, or for all outputs with "binary_data_output": true'
    )
    answer = refused(limited, "/v2/models/rows_bytes/infer", described + b"\1\0\0\0\xff", headers)
    assert answer == (400, NOT_SUPPORTED, text)


def test_shared_memory_that_is_not_enabled(limited):
    off = (
        501,
        "shared_memory_disabled",
        "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.",
    )
    body = request(tensor(data=None, parameters={"shared_memory_region": "r", "shared_memory_byte_size": 8}))
    assert refused(limited, "/v2/models/rows_fp32/infer", encoded(body)) == off
    assert refused(limited, "/v2/models/rows_fp32/infer", encoded(asking(shared_memory_region="r"))) == off
    for kind in ("system", "cuda"):
        for path in ("region/r/register", "region/r/unregister", "unregister"):
            assert refused(limited, f"/v2/{kind}sharedmemory/{path}", b'{"key": "r", "byte_size": 8}') == off
        status, _, answer = exchange(limited, f"/v2/{kind}sharedmemory/status", None, method="GET")
        assert (status, answer) == (200, b"[]")


def test_a_batch_that_fails_in_the_engine(limited):
    body = request(tensor("index", "INT64", [1, 1], [9]))
    status, code, _ = refused(limited, "/v2/models/gather/infer", encoded(body))
    assert (status, code) == (500, "engine_failed")
    body = request(tensor("index", "INT64", [1, 1], [1]))
    assert exchange(limited, "/v2/models/gather/infer", encoded(body))[0] == 200


def test_bodies_beyond_the_limit(limited):
    path, body = "/v2/models/rows_fp32/infer", b" " * (LIMIT + 1)
    size = f"exceeds the maximum allowed input size of {LIMIT} bytes. Use --http-max-input-size to increase the limit."
    told = f"request JSON size of {LIMIT + 1} bytes {size}"
    assert refused(limited, path, body) == (413, "body_too_large", told)
    chunks = [b" " * 65536] * 17
    assert refused(limited, path, chunks) == (413, "body_too_large", f"request JSON size {size}")
    length = {"Inference-Header-Content-Length": "2"}
    assert refused(limited, path, body, length)[2] == f"request body size of {LIMIT + 1} bytes {size}"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_decompresses_to_more_than_the_limit(limited, coding):
    bomb = b" " * (64 * LIMIT)
    body = gzip.compress(bomb) if coding == "gzip" else zlib.compress(bomb)
    text = (
        f"Decompressed data size exceeds the maximum allowed value of {LIMIT} bytes. Use --http-max-input-size to increase "
        "the limit."
    )
    answer = refused(limited, "/v2/models/rows_fp32/infer", body, {"Content-Encoding": coding})
    assert answer == (413, "body_too_large", text)


def test_codings_that_are_unknown_or_wrong(limited):
    path, body = "/v2/models/rows_fp32/infer", encoded(request(tensor()))
    for coding in ("br", "zstd", "gzip, deflate"):
        status, headers, answer = exchange(limited, path, body, {"Content-Encoding": coding})
        assert (status, json.loads(answer)["error"]) == (501, "Unsupported compression type")
        assert headers["accept-encoding"] == "gzip, deflate"
    for coding in ("gzip", "deflate"):
        status, code, text = refused(limited, path, body, {"Content-Encoding": coding})
        assert (status, code) == (400, MALFORMED) and text.startswith("decompressing the request's body: ")
    broken_off = gzip.compress(body)[:-8]
    assert refused(limited, path, broken_off, {"Content-Encoding": "gzip"})[:2] == (400, MALFORMED)
    # Either label stands for either form, as in Triton.
    assert exchange(limited, path, zlib.compress(body), {"Content-Encoding": "gzip"})[0] == 200
    assert exchange(limited, path, body, {"Content-Encoding": "identity"})[0] == 200


def test_chunks(limited):
    body, path = encoded(request(tensor())), "/v2/models/rows_fp32/infer"
    status, _, answer = exchange(limited, path, [bytes([byte]) for byte in body])
    assert status == 200 and json.loads(answer)["outputs"][0]["data"] == [1.0, 2.0]
    padded = body + b" " * (65_537 - len(body))
    status, headers, answer = exchange(limited, path, [padded[i : i + 1] for i in range(len(padded))])
    text = "Chunked request body exceeds maximum of 65536 non-empty chunks. Send fewer or larger HTTP chunks."
    assert (status, json.loads(answer)["error"]) == (400, text)
    assert headers["connection"] == "close"


def test_headers_that_become_parameters(limited):
    body, path = encoded(request(tensor())), "/v2/models/rows_fp32/infer"
    assert exchange(limited, path, body, {"X-Tenant": "one", "X-Tenant-Group": "two", "X-Other": "3"})[0] == 200
    text = "Header 'priority' is reserved for Triton usage and cannot be forwarded."
    assert refused(limited, path, body, {"Priority": "1"}) == (400, MALFORMED, text)
    assert refused(limited, "/v2/models/text/generate", b'{"x":"a"}', {"Priority": "1"}) == (400, MALFORMED, text)


def test_none_of_it_was_in_vain(limited):
    """After every refusal the server answers as before."""
    values = struct.pack("<2f", 1.5, -2.0)
    described = encoded(request(binary(8), parameters={"binary_data_output": True}))
    headers = {"Inference-Header-Content-Length": str(len(described))}
    status, headers, body = exchange(limited, "/v2/models/rows_fp32/infer", described + values, headers)
    assert status == 200 and body[int(headers["inference-header-content-length"]) :] == values


def test_the_tables_are_as_long_as_promised():
    tables = (JSON_CASES, TENSOR_CASES, BINARY_CASES, LENGTH_CASES, RAW_CASES, ADDRESS_CASES)
    assert sum(map(len, tables)) >= 100
