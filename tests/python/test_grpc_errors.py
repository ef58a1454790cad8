"""What gRPC refuses: the status code and the exact text of each refusal, most of them Triton's, and that the model serves
on afterwards."""

import re
import urllib.request

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from conftest import send, serving
from grpc_models import CONTENTS, add_model, raw_input

Contents = service_pb2.InferTensorContents
LIMIT = 1 << 20
UNKNOWN = "[request id: <id_unknown>] "
SHARED_MEMORY_IS_OFF = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    add_model(repository, "add", "add", "max_batch_size: 4")
    add_model(repository, "strings", "strings")
    add_model(repository, "gather", "gather")
    for name in CONTENTS:
        add_model(repository, f"identity_{name.lower()}", f"identity_{name.lower()}")
    add_model(repository, "identity_fp16", "identity_fp16")
    add_model(repository, "off", "add", "max_batch_size: 4")
    flags = ["--grpc-max-message-size", str(LIMIT), "--model-control-mode=explicit"]
    flags += [f"--load-model={name}" for name in ("add", "strings", "gather", "identity_fp16")]
    flags += [f"--load-model=identity_{name.lower()}" for name in CONTENTS]
    with serving(tmp_path_factory.mktemp("airlock"), repository, flags) as server:
        yield server


@pytest.fixture(scope="module")
def stub(running):
    with grpc.insecure_channel(running.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def add(a=(1, 2), b=(1, 2), raw=None, **fields):
    """A request to `add`; right where nothing is given."""
    inputs = [raw_input("a", "FP32", list(a)), raw_input("b", "FP32", list(b))]
    message = service_pb2.ModelInferRequest(**{"model_name": "add", "inputs": inputs} | fields)
    if raw is None and "inputs" not in fields:
        sizes = [4 * shape[0] * shape[1] if len(shape) == 2 else 8 for shape in (a, b)]
        raw = [b"\x00" * size for size in sizes]
    message.raw_input_contents.extend(raw or [])
    return message


def parameter(name, **value):
    message = add()
    if value:
        setattr(message.parameters[name], *value.popitem())
    else:
        message.parameters[name].SetInParent()
    return message


def output(name, **parameters):
    message = add()
    entry = message.outputs.add(name=name)
    for key, value in parameters.items():
        entry.parameters[key].int64_param = value
    return message


def output_with_text(name, **parameters):
    message = add()
    entry = message.outputs.add(name=name)
    for key, value in parameters.items():
        entry.parameters[key].string_param = value
    return message


def output_in_region(name):
    message = output(name, shared_memory_byte_size=8)
    message.outputs[0].parameters["shared_memory_region"].string_param = "region"
    return message


def strings(raw, shape=(1, 2)):
    inputs = [raw_input("x", "BYTES", list(shape))]
    return service_pb2.ModelInferRequest(model_name="strings", inputs=inputs, raw_input_contents=[raw])


def typed(data_type, shape, contents, model=None):
    inputs = [raw_input("x", data_type, shape, contents)]
    return service_pb2.ModelInferRequest(model_name=model or f"identity_{data_type.lower()}", inputs=inputs)


def shared_memory():
    message = add(raw=[b"\x00" * 8])
    message.inputs[0].parameters["shared_memory_region"].string_param = "region"
    return message


def named(number, *names):
    inputs = [raw_input(name, "FP32", [1, 2]) for name in names]
    return service_pb2.ModelInferRequest(model_name="add", inputs=inputs, raw_input_contents=[b"\x00" * 8] * number)


INVALID, NOT_FOUND, UNIMPLEMENTED = "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"
TYPED = "unexpected explicit tensor data for input tensor 'x' for model "
RESERVED = (
    "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with "
    "'triton_' are allowed: triton_enable_empty_final_response"
)


def wrong_parameter(name, wanted):
    return f"invalid value type for '{name}' parameter, expected {wanted}."


INFER = {
    "unknown model": (add(model_name="m"), INVALID, "Request for unknown model: 'm' is not found"),
    "no model": (add(model_name=""), INVALID, "Request for unknown model: '' is not found"),
    "not loaded": (add(model_name="off"), INVALID, "Request for unknown model: 'off' is not found"),
    "unknown version": (add(model_version="7"), NOT_FOUND, "Request for unknown model: 'add' version 7 is not found"),
    "no version": (
        add(model_version="one"),
        INVALID,
        "failed to get model version from specified version string 'one', version should be an integral value > 0",
    ),
    "negative version": (
        add(model_version="-1"),
        INVALID,
        "failed to get model version from specified version string '-1', version should be an integral value > 0",
    ),
    "one input of two": (
        named(1, "a"),
        INVALID,
        UNKNOWN + "expected 2 inputs but got 1 inputs for model 'add'. Got input(s) ['a'], but missing required "
        "input(s) ['b']. Please provide all required input(s).",
    ),
    "no inputs": (
        named(0),
        INVALID,
        UNKNOWN + "expected 2 inputs but got 0 inputs for model 'add'. Got input(s) [], but missing required input(s) "
        "['a','b']. Please provide all required input(s).",
    ),
    "three inputs": (
        named(3, "a", "b", "c"),
        INVALID,
        UNKNOWN + "expected 2 inputs but got 3 inputs for model 'add'. Got input(s) ['a','b','c']. Please provide all "
        "required input(s).",
    ),
    "another input": (named(2, "a", "c"), INVALID, "unexpected inference input 'c' for model 'add'"),
    "an input twice": (named(2, "a", "a"), INVALID, UNKNOWN + "input 'a' already exists in request"),
    "the id is named": (
        add(a=(1, 3), raw=[b"\x00" * 12, b"\x00" * 8], id="r-7"),
        INVALID,
        "[request id: r-7] unexpected shape for input 'a' for model 'add'. Expected [-1,2], got [1,3]",
    ),
    "another rank": (
        add(a=(2,), raw=[b"\x00" * 8] * 2),
        INVALID,
        UNKNOWN + "unexpected shape for input 'a' for model 'add'. Expected [-1,2], got [2]",
    ),
    "rows that differ": (
        add(a=(1, 2), b=(2, 2)),
        INVALID,
        UNKNOWN + "input 'b' batch size does not match other inputs for 'add': 'a' has 1 rows, 'b' has 2",
    ),
    "too many rows": (
        add(a=(5, 2), b=(5, 2)),
        INVALID,
        UNKNOWN + "inference request batch-size must be <= 4 for 'add', got 5",
    ),
    "no rows": (
        add(a=(0, 2), b=(0, 2)),
        INVALID,
        UNKNOWN + "inference request for model 'add' must have at least 1 row",
    ),
    "a negative dimension": (
        add(a=(-1, 2), raw=[b"\x00" * 8] * 2),
        INVALID,
        UNKNOWN + "All input dimensions should be specified for input 'a' for model 'add', got [-1,2]",
    ),
    "too few bytes": (
        add(raw=[b"\x00" * 7, b"\x00" * 8]),
        INVALID,
        UNKNOWN + "input byte size mismatch for input 'a' for model 'add'. Expected 8, got 7",
    ),
    "too many bytes": (
        add(raw=[b"\x00" * 8, b"\x00" * 9]),
        INVALID,
        UNKNOWN + "input byte size mismatch for input 'b' for model 'add'. Expected 8, got 9",
    ),
    "no bytes": (
        add(raw=[b"", b""]),
        INVALID,
        UNKNOWN + "input byte size mismatch for input 'a' for model 'add'. Expected 8, got 0",
    ),
    "raw contents for one input of two": (
        add(raw=[b"\x00" * 8]),
        INVALID,
        "unable to find data for input tensor 'b' for model 'add' in request.",
    ),
    "no contents at all": (
        add(raw=[]),
        INVALID,
        "unable to find data for input tensor 'a' for model 'add' in request.",
    ),
    "another type": (
        service_pb2.ModelInferRequest(
            model_name="add",
            inputs=[raw_input("a", "FP64", [1, 2]), raw_input("b", "FP32", [1, 2])],
            raw_input_contents=[b"\x00" * 16, b"\x00" * 8],
        ),
        INVALID,
        UNKNOWN + "inference input 'a' data-type is 'FP64', but model 'add' expects 'FP32'",
    ),
    "no type": (
        service_pb2.ModelInferRequest(
            model_name="add", inputs=[raw_input("a", "float", [1, 2])], raw_input_contents=[b"\x00" * 8]
        ),
        INVALID,
        UNKNOWN + "inference input 'a' data-type is 'float', but model 'add' expects 'FP32'",
    ),
    "an unknown output": (output("z"), INVALID, "unexpected inference output 'z' for model 'add'"),
    "an output twice": (
        add(outputs=[service_pb2.ModelInferRequest.InferRequestedOutputTensor(name="sum")] * 2),
        INVALID,
        UNKNOWN + "output 'sum' already exists in request",
    ),
    "both contents": (
        add(
            raw=[b"\x00" * 8],
            inputs=[raw_input("a", "FP32", [1, 2], Contents(fp32_contents=[1, 2])), raw_input("b", "FP32", [1, 2])],
        ),
        INVALID,
        "contents field must not be specified when using raw_input_contents for 'a' for model 'add'",
    ),
    "contents of another type": (
        typed("FP32", [1, 2], Contents(int_contents=[1, 2])),
        INVALID,
        TYPED + "'identity_fp32' of type 'INT32', expected datatype 'FP32'",
    ),
    "32-bit contents for 64 bits": (
        typed("INT64", [1, 1], Contents(int_contents=[1])),
        INVALID,
        TYPED + "'identity_int64' of type 'INT32', expected datatype 'INT64'",
    ),
    "signed contents for unsigned": (
        typed("UINT8", [1, 1], Contents(int_contents=[1])),
        INVALID,
        TYPED + "'identity_uint8' of type 'INT32', expected datatype 'UINT8'",
    ),
    "contents for FP16": (
        typed("FP16", [1, 1], Contents(fp32_contents=[1])),
        INVALID,
        TYPED + "'identity_fp16' of type 'FP32', expected datatype 'FP16'",
    ),
    "two kinds of contents": (
        typed("BOOL", [1, 1], Contents(bool_contents=[True], int64_contents=[1])),
        INVALID,
        TYPED + "'identity_bool', binary data was already supplied.",
    ),
    "too few contents": (
        typed("INT32", [1, 3], Contents(int_contents=[1, 2])),
        INVALID,
        UNKNOWN + "input byte size mismatch for input 'x' for model 'identity_int32'. Expected 12, got 8",
    ),
    "contents without a value": (
        typed("INT32", [1, 3], Contents()),
        INVALID,
        UNKNOWN + "input byte size mismatch for input 'x' for model 'identity_int32'. Expected 12, got 0",
    ),
    "an integer out of range": (
        typed("INT8", [1, 2], Contents(int_contents=[1, 128])),
        INVALID,
        "value 128 at index 1 of input tensor 'x' for model 'identity_int8' is out of range for INT8",
    ),
    "too few strings": (
        strings(b"\x01\x00\x00\x00a"),
        INVALID,
        UNKNOWN + "expected 2 string elements for inference input 'x' for model 'strings', got 1",
    ),
    "too many strings": (
        strings(b"\x00" * 12),
        INVALID,
        UNKNOWN + "unexpected number of string elements 3 for inference input 'x' for model 'strings', expecting 2",
    ),
    "half a length": (
        strings(b"\x00" * 6),
        INVALID,
        UNKNOWN + "incomplete string length indicator for inference input 'x' for model 'strings', expecting 4 bytes but "
        "only 2 bytes available. Please make sure the string length indicator is in one buffer.",
    ),
    "half a string": (
        strings(b"\x05\x00\x00\x00abc"),
        INVALID,
        UNKNOWN + "incomplete string data for inference input 'x' for model 'strings', expecting string of length 5 but "
        "only 3 bytes available. Please make sure the string is in one buffer.",
    ),
    "priority a text": (
        parameter("priority", string_param="high"),
        INVALID,
        wrong_parameter("priority", "int64_param or uint64_param"),
    ),
    "priority negative": (
        parameter("priority", int64_param=-1),
        INVALID,
        "invalid value for 'priority', expected value >= 0.",
    ),
    "timeout unsigned": (parameter("timeout", uint64_param=1), INVALID, wrong_parameter("timeout", "int64_param")),
    "timeout negative": (
        parameter("timeout", int64_param=-1),
        INVALID,
        "invalid value for 'timeout', expected value >= 0.",
    ),
    "sequence_id a truth": (
        parameter("sequence_id", bool_param=True),
        INVALID,
        wrong_parameter("sequence_id", "int64_param or string_param"),
    ),
    "sequence_start a number": (
        parameter("sequence_start", int64_param=1),
        INVALID,
        wrong_parameter("sequence_start", "bool_param"),
    ),
    "sequence_end a text": (
        parameter("sequence_end", string_param="true"),
        INVALID,
        wrong_parameter("sequence_end", "bool_param"),
    ),
    "a key of Triton's": (parameter("triton_x", bool_param=True), INVALID, RESERVED),
    "a key of Triton's with a text": (
        parameter("triton_enable_empty_final_response", string_param="true"),
        INVALID,
        wrong_parameter("triton_enable_empty_final_response", "bool_param"),
    ),
    "a parameter without a value": (
        parameter("mine"),
        INVALID,
        wrong_parameter("mine", "int64_param, bool_param, or string_param"),
    ),
    "shared memory": (
        shared_memory(),
        INVALID,
        "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'a'",
    ),
    "no class": (
        output("sum", classification=0),
        INVALID,
        "invalid value for 'classification' parameter, expected >= 0",
    ),
    "classes as a text": (
        output_with_text("sum", classification="two"),
        INVALID,
        "invalid value type for 'classification' parameter, expected int64_param",
    ),
    "an output in shared memory": (
        output_in_region("sum"),
        UNIMPLEMENTED,
        SHARED_MEMORY_IS_OFF,
    ),
    "more inputs than anybody has": (
        named(100, *[f"x{number}" for number in range(100)]),
        INVALID,
        "request lists 100 inputs, but model 'add' has 2",
    ),
    "too large": (
        add(a=(1, 2), raw=[b"\x00" * LIMIT, b""]),
        "RESOURCE_EXHAUSTED",
        f"the message is larger than {LIMIT} bytes; raise --grpc-max-message-size to allow it",
    ),
}


@pytest.mark.parametrize("case", INFER)
def test_requests_that_are_refused(stub, case):
    message, code, text = INFER[case]
    assert refusal(stub.ModelInfer, message) == (code, text)
    # What is refused on a stream has the same text, and the stream goes on.
    if case != "too large":
        answers = list(stub.ModelStreamInfer(iter([message, add()])))
        assert [answer.error_message for answer in answers] == [text, ""]
        assert answers[0].infer_response.id == message.id
    stub.ModelInfer(add())


def refusal(call, message, **options):
    with pytest.raises(grpc.RpcError) as refused:
        call(message, **options)
    return refused.value.code().name, refused.value.details()


def test_a_message_that_is_too_large_once_unpacked(stub):
    message = add(a=(1, 2), raw=[b"\x00" * (LIMIT + 1), b""])
    text = f"the message is larger than {LIMIT} bytes; raise --grpc-max-message-size to allow it"
    for algorithm in (grpc.Compression.Gzip, grpc.Compression.Deflate):
        got = refusal(stub.ModelInfer, message, compression=algorithm)
        assert got == ("RESOURCE_EXHAUSTED", text)


def test_what_the_engine_cannot_run(stub):
    message = service_pb2.ModelInferRequest(model_name="gather", inputs=[raw_input("index", "INT64", [1, 1])])
    message.raw_input_contents.append((7).to_bytes(8, "little"))
    code, text = refusal(stub.ModelInfer, message)
    assert code == "INTERNAL" and "indices element out of data bounds" in text


def load(name="add", repository="", **parameters):
    message = service_pb2.RepositoryModelLoadRequest(repository_name=repository, model_name=name)
    for key, (kind, value) in parameters.items():
        setattr(message.parameters[key.replace("file_", "file:")], kind, value)
    return message


def unload(name="add", repository="", **parameters):
    message = service_pb2.RepositoryModelUnloadRequest(repository_name=repository, model_name=name)
    for key, (kind, value) in parameters.items():
        setattr(message.parameters[key], kind, value)
    return message


def trace_value(*values):
    return service_pb2.TraceSettingRequest.SettingValue(value=values)


def log_value(**value):
    return service_pb2.LogSettingsRequest.SettingValue(**value)


TRAVERSAL = "model name must not contain path traversal characters"
EMPTY_NAME = "Model name cannot be empty. Please enter a valid name to deploy."
NAMED = "'repository_name' specification is not supported"
OTHERS = {
    "metadata of no model": (
        "ModelMetadata",
        service_pb2.ModelMetadataRequest(name="m"),
        INVALID,
        "Request for unknown model: 'm' is not found",
    ),
    "metadata of no version": (
        "ModelMetadata",
        service_pb2.ModelMetadataRequest(name="add", version="9"),
        NOT_FOUND,
        "Request for unknown model: 'add' version 9 is not found",
    ),
    "config of no model": (
        "ModelConfig",
        service_pb2.ModelConfigRequest(name="m"),
        INVALID,
        "Request for unknown model: 'm' is not found",
    ),
    "config of no version": (
        "ModelConfig",
        service_pb2.ModelConfigRequest(name="add", version="9"),
        NOT_FOUND,
        "Request for unknown model: 'add' version 9 is not found",
    ),
    "ready of no model": (
        "ModelReady",
        service_pb2.ModelReadyRequest(name="m"),
        INVALID,
        "Request for unknown model: 'm' is not found",
    ),
    "ready of no version": (
        "ModelReady",
        service_pb2.ModelReadyRequest(name="add", version="x"),
        INVALID,
        "failed to get model version from specified version string 'x', version should be an integral value > 0",
    ),
    "statistics of no model": (
        "ModelStatistics",
        service_pb2.ModelStatisticsRequest(name="m"),
        INVALID,
        "Request for unknown model: 'm' is not found",
    ),
    "statistics of no version": (
        "ModelStatistics",
        service_pb2.ModelStatisticsRequest(name="add", version="9"),
        NOT_FOUND,
        "Request for unknown model: 'add' version 9 is not found",
    ),
    "index of a named repository": (
        "RepositoryIndex",
        service_pb2.RepositoryIndexRequest(repository_name="r"),
        UNIMPLEMENTED,
        NAMED,
    ),
    "load from a named repository": ("RepositoryModelLoad", load(repository="r"), UNIMPLEMENTED, NAMED),
    "unload from a named repository": ("RepositoryModelUnload", unload(repository="r"), UNIMPLEMENTED, NAMED),
    "load without a name": ("RepositoryModelLoad", load(name=""), INVALID, EMPTY_NAME),
    "unload without a name": ("RepositoryModelUnload", unload(name=""), INVALID, EMPTY_NAME),
    "load from elsewhere": ("RepositoryModelLoad", load("../x"), INVALID, f"invalid model name '../x', {TRAVERSAL}"),
    "unload of elsewhere": ("RepositoryModelUnload", unload("a/b"), INVALID, f"invalid model name 'a/b', {TRAVERSAL}"),
    "load with an unknown parameter": (
        "RepositoryModelLoad",
        load(mine=("bool_param", True)),
        INVALID,
        "unrecognized load parameter 'mine'.",
    ),
    "load with a configuration that is no text": (
        "RepositoryModelLoad",
        load(config=("int64_param", 1)),
        INVALID,
        "invalid value type for load parameter 'config', expected string_param.",
    ),
    "load with a file that is no bytes": (
        "RepositoryModelLoad",
        load(file_x=("string_param", "x")),
        INVALID,
        "invalid value type for load parameter 'file:x', expected bytes_param.",
    ),
    "load with a file alone": (
        "RepositoryModelLoad",
        load(file_x=("bytes_param", b"x")),
        INVALID,
        "Load parameter 'config' must be specified for model file override",
    ),
    "load with a file from elsewhere": (
        "RepositoryModelLoad",
        load(**{"config": ("string_param", "{}"), "file_../x": ("bytes_param", b"x")}),
        INVALID,
        "Invalid file parameter 'file:../x' with normalized path '../x' must stay within model directory.",
    ),
    "trace settings of nothing": (
        "TraceSetting",
        service_pb2.TraceSettingRequest(model_name="absent"),
        INVALID,
        "Request for unknown model : absent",
    ),
    "a trace rate of two": (
        "TraceSetting",
        service_pb2.TraceSettingRequest(settings={"trace_rate": trace_value("1", "2")}),
        INVALID,
        "expect only 1 value for 'trace_rate'",
    ),
    "a trace count out of range": (
        "TraceSetting",
        service_pb2.TraceSettingRequest(settings={"trace_count": trace_value("-2")}),
        INVALID,
        "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: -2",
    ),
    "another trace file": (
        "TraceSetting",
        service_pb2.TraceSettingRequest(settings={"trace_file": trace_value("f")}),
        UNIMPLEMENTED,
        "trace file location can not be updated through network protocol",
    ),
    "a log level that is no truth": (
        "LogSettings",
        service_pb2.LogSettingsRequest(settings={"log_info": log_value(uint32_param=1)}),
        INVALID,
        "expect boolean for 'log_info'",
    ),
    "a log level that is no number": (
        "LogSettings",
        service_pb2.LogSettingsRequest(settings={"log_verbose_level": log_value(bool_param=True)}),
        INVALID,
        "expect int32 for 'log_verbose_level'",
    ),
    "a log format without a value": (
        "LogSettings",
        service_pb2.LogSettingsRequest(settings={"log_format": log_value()}),
        INVALID,
        "expect string for 'log_format'",
    ),
    "unload with dependents that are no truth": (
        "RepositoryModelUnload",
        unload(unload_dependents=("string_param", "true")),
        INVALID,
        wrong_parameter("unload_dependents", "bool_param"),
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_calls_that_are_refused(stub, case):
    rpc, message, code, text = OTHERS[case]
    assert refusal(getattr(stub, rpc), message) == (code, text)
    assert stub.ModelReady(service_pb2.ModelReadyRequest(name="add")).ready


@pytest.mark.parametrize("kind", ["System", "Cuda"])
def test_shared_memory_that_is_off(stub, kind):
    rpc = f"{kind}SharedMemory"
    for verb in ("Register", "Unregister"):
        message = getattr(service_pb2, f"{rpc}{verb}Request")(name="region")
        assert refusal(getattr(stub, rpc + verb), message) == (UNIMPLEMENTED, SHARED_MEMORY_IS_OFF)
    assert not getattr(stub, f"{rpc}Status")(getattr(service_pb2, f"{rpc}StatusRequest")()).regions


def test_a_load_of_nothing(stub):
    code, text = refusal(stub.RepositoryModelLoad, load("absent"))
    assert code == "INTERNAL"
    assert text.startswith("failed to load 'absent', failed to poll from model repository")


def test_what_is_no_rpc(running):
    with grpc.insecure_channel(running.grpc) as channel:
        for path in ("/inference.GRPCInferenceService/ModelTrain", "/other.Service/Call"):
            code, _ = refusal(channel.unary_unary(path), b"")
            assert code == UNIMPLEMENTED, path


def test_what_is_no_message(running):
    with grpc.insecure_channel(running.grpc) as channel:
        code, text = refusal(channel.unary_unary("/inference.GRPCInferenceService/ModelInfer"), b"\xff" * 8)
        assert code == "INTERNAL" and "failed to decode Protobuf message" in text


def test_every_refusal_is_counted_once(running, stub):
    """By code, under empty labels where no model was found."""
    before = counts(running)
    refusal(stub.ModelInfer, add(model_name="m"))
    refusal(stub.ModelInfer, INFER["too large"][0])
    refusal(stub.ModelInfer, INFER["both contents"][0])
    refusal(stub.ModelInfer, INFER["too many rows"][0])
    stub.ModelInfer(add())
    expected = {
        ("", "model_not_found"): 1,
        ("", "body_too_large"): 1,
        ("add", "invalid_tensors"): 2,
        ("add", "ok"): 1,
    }
    after = counts(running)
    assert {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)} == expected


def counts(running):
    page = send(urllib.request.Request(running.metrics + "/metrics")).body.decode()
    pattern = r'airlock_requests_total\{code="(\w*)",model="(\w*)",version="\w*"\} (\d+)'
    return {(model, code): int(number) for code, model, number in re.findall(pattern, page)}
