"""The server against its own description: the document is valid OpenAPI, every operation that can succeed does so once as
described, refusals look as described, and whatever schemathesis thinks of sending is answered with a described status,
media type, headers and body, and never by a fault of the server.
"""

import json
import shutil
import uuid
import zlib
from pathlib import Path

import jsonschema
import pytest
import schemathesis
from conftest import ROOT, serving
from hypothesis import HealthCheck, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

DOCUMENT = json.loads((ROOT / "host/src/http/openapi.json").read_bytes())
OPERATIONS = {
    operation["operationId"]: (path, method, operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if method != "servers"
}
CONFORMANCE = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    allow_header_conformance,
]
# What these answer to everything is that the server does not do it, 501.
REFUSED = {"namedRepositoryIndex", "namedRepositoryModel"}
# Their paths have two slashes in a row, of which schemathesis would make one.
SLASHED = ["loadNameless", "unloadNameless"]
EXAMPLES_MAX = 12
LEAST_TIMEOUT_MS = 10_000
CODINGS = ("gzip", "deflate", "identity")

API = schemathesis.openapi.from_dict(
    DOCUMENT, config=schemathesis.Config.from_dict({"generation": {"deterministic": True, "mode": "all"}})
)

IDENTITY = """
backend: "identity"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ]
"""
LABELLED = """
max_batch_size: 8
dynamic_batching { }
parameters [ { key: "airlock.version_labels" value { string_value: "stable=1" } } ]
"""
FEATURES = ROOT / "model_repository/fraud_v3/samples/low_risk/request.json"
# Of a model of ONNX Runtime's, of the identity, and of a model with a plugin.
MODELS = ("rows", "same", "fraud_v3")


def write_models(folder):
    fixture = ROOT / "tests/fixtures/models/identity_fp32.onnx"
    for name, config, onnx in [("rows", LABELLED, fixture), ("spare", "max_batch_size: 8", fixture), ("same", IDENTITY, None)]:
        version = folder / name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(config)
        if onnx:
            shutil.copy(onnx, version / "model.onnx")
    shutil.copytree(ROOT / "model_repository/fraud_v3", folder / "fraud_v3")


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """Answers to everything that it can be set to answer to."""
    folder = tmp_path_factory.mktemp("described")
    write_models(folder / "models")
    flags = ["--model-control-mode=explicit", "--load-model=*", "--allow-client-shm=true", "--http-max-input-size=1048576"]
    with serving(folder, folder / "models", flags) as running:
        yield running


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """Answers to as little as it can be set to answer to."""
    folder = tmp_path_factory.mktemp("closed")
    write_models(folder / "models")
    with serving(folder, folder / "models", ["--http-restricted-api=metadata,statistics:key=secret"]) as running:
        yield running


@pytest.fixture
def memory():
    """The key of a shared memory object."""
    path = Path("/dev/shm", f"airlock-{uuid.uuid4().hex}")
    path.write_bytes(bytes(64))
    yield path.name
    path.unlink()


def send(server, name, names=None, body=None, headers=None, media_type="application/json"):
    """Sends a request to an operation, and holds the answer to the description."""
    path, method, _ = OPERATIONS[name]
    content = {} if body is None else {"body": body, "media_type": media_type}
    case = API[path][method.upper()].Case(path_parameters=names or {}, headers=headers or {}, **content)
    return case.call_and_validate(base_url=address(server, name), checks=CONFORMANCE)


def address(server, name):
    return server.metrics if name == "metrics" else server.http


def test_the_document_is_valid_and_served_as_it_is(described):
    OpenAPIV31SpecValidator(DOCUMENT).validate()
    answer = described.get("/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == DOCUMENT


def x(shape=(1, 2), **more):
    return {"name": "x", "datatype": "FP32", "shape": list(shape), **more}


DATA = {"inputs": [x(data=[1, 2.5])]}
BINARY = json.dumps({"inputs": [x(parameters={"binary_data_size": 8})]}).encode()
ROWS = {"model": "rows"}
FIRST = {"model": "rows", "version": "1"}
STABLE = {"model": "rows", "label": "stable"}
REGION = {"region": "r"}


def successes(key):
    """By operation: what it succeeds with."""
    for name in ("openapi", "serverMetadata", "serverLive", "serverReady", "allStatistics", "metrics"):
        yield name, {}
    for suffix, names in [("", ROWS), ("", {"model": "same"}), ("", {"model": "fraud_v3"}), ("OfVersion", FIRST)]:
        for name in ("modelMetadata", "modelReady", "modelConfig", "modelStatistics", "modelStatus", "modelSignature"):
            yield name + suffix, {"names": names}
    for suffix, names in [("", ROWS), ("", {"model": "same"}), ("OfVersion", FIRST)]:
        for more in ({}, {"id": "7"}, {"parameters": {"binary_data_output": True}}):
            yield "infer" + suffix, {"names": names, "body": {**DATA, **more}}
        for name in ("generate", "generateStream"):
            yield name + suffix, {"names": names, "body": {"x": [1, 2.5]}}
        length = {"Inference-Header-Content-Length": str(len(BINARY))}
        binary = {"names": names, "body": BINARY + bytes(8), "headers": length, "media_type": "application/octet-stream"}
        yield "infer" + suffix, binary
        yield "infer" + suffix, {**binary, "body": bytes(8), "headers": {"Inference-Header-Content-Length": "0"}}
        yield "infer" + suffix, {"names": names, "body": DATA, "headers": {"Accept-Encoding": "gzip"}}
    application = {"body": json.loads(FEATURES.read_bytes()), "headers": {"X-Request-Id": "7"}}
    yield "predict", {"names": {"model": "fraud_v3"}, **application}
    yield "predictOfVersion", {"names": {"model": "fraud_v3", "version": "1"}, **application}
    for suffix, names in [("", ROWS), ("OfVersion", FIRST), ("OfLabel", STABLE)]:
        for body in ({"instances": [[1, 2.5]]}, {"inputs": [[1, 2.5]]}):
            yield "predict" + suffix, {"names": names, "body": body}
    for name in ("modelStatusOfLabel", "modelSignatureOfLabel"):
        yield name, {"names": STABLE}
    for body in (None, {}, {"ready": True}):
        yield "repositoryIndex", {"body": body}
    for name, body in [("unloadModel", {}), ("loadModel", None), ("loadModel", {"parameters": {"config": "{}"}})]:
        yield name, {"names": {"model": "spare"}, "body": body}
    yield "traceSettings", {}
    yield "modelTraceSettings", {"names": {"model": "same"}}
    for body in ({}, {"trace_rate": "9", "trace_level": ["OFF"]}, {"trace_rate": None, "trace_level": None}):
        yield "updateTraceSettings", {"body": body}
        yield "updateModelTraceSettings", {"names": {"model": "same"}, "body": body}
    yield "logSettings", {}
    for body in ({}, {"log_verbose_level": 1, "log_format": "text"}, {"log_verbose_level": 0}):
        yield "updateLogSettings", {"body": body}
    place = {"key": key, "byte_size": 64}
    yield "registerSystemRegion", {"names": REGION, "body": place}
    yield "infer", {"names": ROWS, "body": {**DATA, "outputs": [{"name": "y", "parameters": region()}]}}
    yield "systemRegions", {}
    yield "systemRegion", {"names": REGION}
    yield "unregisterSystemRegion", {"names": REGION}
    yield "unregisterCudaRegion", {"names": REGION}
    for name in ("unregisterSystemRegions", "cudaRegions", "unregisterCudaRegions"):
        yield name, {}


def region(size=8):
    return {"shared_memory_region": "r", "shared_memory_byte_size": size}


def test_every_operation_succeeds_as_described(described, memory):
    succeeded = set()
    for name, request in successes(memory):
        answer = send(described, name, **request)
        assert answer.status_code == 200, (name, request, answer.content)
        succeeded.add(name)
    assert succeeded == {name for name, (_, _, operation) in OPERATIONS.items() if "200" in operation["responses"]}


@pytest.mark.parametrize(
    "status, code, name, request_",
    [
        (400, "model_not_found", "modelMetadata", {"names": {"model": "nobody"}}),
        (404, "version_not_found", "modelMetadataOfVersion", {"names": {"model": "rows", "version": "7"}}),
        (400, "malformed_request", "infer", {"names": ROWS, "body": b"{", "media_type": "application/octet-stream"}),
        (400, "malformed_request", "infer", {"names": ROWS, "body": DATA, "headers": {"X-Request-Timeout-Ms": "0"}}),
        (400, "invalid_tensors", "infer", {"names": ROWS, "body": {"inputs": [x((1, 3), data=[1])]}}),
        (404, "region_not_found", "infer", {"names": ROWS, "body": {"inputs": [x(parameters=region())]}}),
        (413, "body_too_large", "infer", {"names": ROWS, "body": {**DATA, "more": "x" * (1 << 20)}}),
        (501, "not_implemented", "infer", {"names": ROWS, "body": DATA, "headers": {"Content-Encoding": "br"}}),
        (400, "invalid_tensors", "generate", {"names": ROWS, "body": {"x": {}}}),
        (400, None, "predict", {"names": ROWS, "body": {"instances": []}}),
        (404, None, "predict", {"names": {"model": "nobody"}, "body": {}}),
        (501, None, "predict", {"names": ROWS, "body": {}, "headers": {"Content-Encoding": "br"}}),
        (404, "version_not_found", "predictOfVersion", {"names": {"model": "fraud_v3", "version": "7"}, "body": {}}),
        (422, "invalid_fields", "predict", {"names": {"model": "fraud_v3"}, "body": {"age": "x"}}),
        (415, "unsupported_media", "predict", {"names": {"model": "fraud_v3"}, "body": "x", "media_type": "text/plain"}),
        (405, "method_not_allowed", "modelStatus", {"names": {"model": "rows:predict"}}),
        (400, None, "modelNameless", {}),
        (404, None, "modelStatus", {"names": {"model": "nobody"}}),
        (400, None, "modelStatusOfLabel", {"names": {"model": "rows", "label": "nobody"}}),
        (404, None, "modelSignatureOfVersion", {"names": {"model": "rows", "version": "7"}}),
        (400, "repository_failed", "loadModel", {"names": {"model": "nobody"}}),
        (501, "not_implemented", "namedRepositoryIndex", {"names": {"repository": "r"}}),
        (400, "invalid_region", "registerSystemRegion", {"names": REGION, "body": {"key": "/no/such", "byte_size": 1}}),
        (400, "invalid_region", "registerSystemRegionNameless", {}),
        (400, "invalid_region", "registerCudaRegion", {"names": REGION, "body": {}}),
        (404, "region_not_found", "systemRegion", {"names": REGION}),
        (404, "region_not_found", "cudaRegion", {"names": REGION}),
    ],
)  # fmt: skip
def test_refusals_are_as_described(described, status, code, name, request_):
    answer = send(described, name, **request_)
    assert (answer.status_code, answer.json().get("code")) == (status, code)


@pytest.mark.parametrize(
    "status, code, name, request_",
    [
        (403, "restricted", "openapi", {}),
        (403, "restricted", "modelMetadata", {"names": ROWS}),
        (403, "restricted", "allStatistics", {}),
        (503, "model_control_disabled", "loadModel", {"names": ROWS}),
        (501, "shared_memory_disabled", "registerSystemRegion", {"names": REGION, "body": {"key": "k", "byte_size": 1}}),
        (501, "shared_memory_disabled", "unregisterCudaRegions", {}),
        (501, "shared_memory_disabled", "infer", {"names": ROWS, "body": {"inputs": [x(parameters=region())]}}),
    ],
)  # fmt: skip
def test_refusals_of_a_closed_server_are_as_described(closed, status, code, name, request_):
    answer = send(closed, name, **request_)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_the_description_is_had_where_metadata_are(closed):
    assert closed.get("/openapi.json").status == 403
    opened = send(closed, "openapi", headers={"key": "secret"})
    assert opened.json() == DOCUMENT


@pytest.mark.parametrize("path", ["/v2/models/%FF", "/v1/models/%FF:predict", "/v2/systemsharedmemory/region/%C0/status"])
def test_names_that_are_not_utf_8_are_refused_like_others(described, path):
    answer = described.post(path, b"{}") if path.endswith("predict") else described.get(path)
    assert (answer.status, answer.json()["code"]) == (400, "malformed_request")


def described_schema(path, method, status):
    """The schema of an answer's body; its references are resolved against the document."""
    name = DOCUMENT["paths"][path][method]["responses"][str(status)]["$ref"].rsplit("/", 1)[1]
    schema = DOCUMENT["components"]["responses"][name]["content"]["application/json"]["schema"]
    return {**schema, "components": DOCUMENT["components"]}


@pytest.mark.parametrize("verb", ["load", "unload"])
def test_a_model_without_a_name_is_refused_as_described(described, closed, verb):
    path = f"/v2/repository/models//{verb}"
    for server, status in [(described, 400), (closed, 503)]:
        answer = server.post(path, b"{}")
        schema = described_schema(path, "post", status)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
        jsonschema.validate(answer.json(), schema)


@API.exclude(operation_id=SLASHED).parametrize()
@settings(
    max_examples=EXAMPLES_MAX, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
def test_nothing_is_answered_otherwise_than_described(described, case):
    name = case.operation.definition.raw["operationId"]
    steer(case, name)
    checks = CONFORMANCE if name in REFUSED else [not_a_server_error, *CONFORMANCE]
    case.call_and_validate(base_url=address(described, name), checks=checks)


def steer(case, name):
    """Sends half of the requests to what is there, and leaves out what a sound server must fail: a deadline that nobody
    could keep (504), and a coding that is not implemented (501); both have tests of their own.
    """
    half = zlib.crc32(repr((name, case.path_parameters, case.headers, case.body)).encode())
    if half % 2 and name not in ("loadModel", "unloadModel"):
        known = {"model": MODELS[half // 2 % len(MODELS)], "version": "1", "label": "stable"}
        for parameter in known.keys() & (case.path_parameters or {}).keys():
            case.path_parameters[parameter] = known[parameter]
    headers = case.headers if case.headers is not None else {}
    timeout = str(headers.get("X-Request-Timeout-Ms", ""))
    if timeout.strip().isdigit() and 0 < int(timeout) < LEAST_TIMEOUT_MS:
        headers["X-Request-Timeout-Ms"] = str(LEAST_TIMEOUT_MS)
    if headers.get("Content-Encoding") not in (None, *CODINGS):
        del headers["Content-Encoding"]
