"""A repository of the models that the gRPC tests call, values for them, and onnxruntime's answers as the truth."""

import os
import shutil

import ml_dtypes
import numpy as np
import onnxruntime
import tritonclient.grpc as triton

from conftest import ROOT

FIXTURES = ROOT / "tests/fixtures/models"
COMPONENTS = ROOT / "plugins/target/components"

# v2 names of the data types, with NumPy's.
TYPES = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}

# The list of InferTensorContents that has a type's values; FP16 and BF16 have none.
CONTENTS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def add_model(repository, name, fixture, config=None):
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    shutil.copy(FIXTURES / f"{fixture}.onnx", folder / "1/model.onnx")
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
    return folder


def add_scaler_with_plugin(repository, name):
    """One FP32 input and a plugin that takes `{"x": [4 numbers]}` and scales them by 10."""
    folder = add_model(repository, name, "scaler_v1")
    components = os.environ.get("AIRLOCK_PLUGINS") or COMPONENTS
    shutil.copy(f"{components}/score-scaler.wasm", folder / "plugin.wasm")
    (folder / "plugin.toml").write_text("[config]\ntag = 't'\nscale = 10.0\n")


def values(data_type, shape):
    """The same values on every run, with the extremes of the type among them."""
    count = int(np.prod(shape, dtype=np.int64))
    dtype = TYPES[data_type]
    if data_type == "BYTES":
        words = [b"", b"a", b"\x00\xff\x00", "中文".encode(), b"x" * 1000]
        flat = np.array([words[i % len(words)] for i in range(count)], dtype=np.object_)
    elif data_type == "BOOL":
        flat = np.array([i % 3 == 0 for i in range(count)], dtype=np.bool_)
    elif np.issubdtype(dtype, np.integer):
        bounds = np.iinfo(dtype)
        flat = np.array([[bounds.min, bounds.max, 0, 1, 7][i % 5] for i in range(count)], dtype=dtype)
    else:
        numbers = [0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"), 65504.0]
        flat = np.array([numbers[i % len(numbers)] for i in range(count)], dtype=np.float64).astype(dtype)
    return flat.reshape(shape)


def session(fixture):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    path = str(FIXTURES / f"{fixture}.onnx")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def truth(fixture, inputs):
    """onnxruntime's outputs by name. BF16 goes in and out as the bits of uint16, which is how it says it to NumPy."""
    run = session(fixture)
    given = {name: ort_value(array) for name, array in inputs.items()}
    names = [output.name for output in run.get_outputs()]
    answers = run.run_with_ort_values(names, given)
    return {name: answer.numpy() for name, answer in zip(names, answers, strict=True)}


def ort_value(array):
    if array.dtype == np.object_:
        decoded = np.array([element.decode("latin-1") for element in array.ravel()], dtype=np.object_)
        return onnxruntime.OrtValue.ortvalue_from_numpy(decoded.reshape(array.shape))
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))


def triton_input(name, array, data_type):
    tensor = triton.InferInput(name, list(array.shape), data_type)
    tensor.set_data_from_numpy(array)
    return tensor


def raw_input(name, data_type, shape, raw=None):
    """An entry of a message, for requests that tritonclient would not make."""
    from tritonclient.grpc import service_pb2

    tensor = service_pb2.ModelInferRequest.InferInputTensor(name=name, datatype=data_type, shape=shape)
    if raw is not None:
        tensor.contents.CopyFrom(raw)
    return tensor


def assert_same_bits(got, expected):
    assert got.shape == expected.shape and got.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes()
