"""The models that the tests of the v2 protocol call, and their truth: ONNX Runtime called directly."""

import functools
import shutil

import ml_dtypes
import numpy as np
import onnxruntime
from conftest import ROOT

FIXTURES = ROOT / "tests/fixtures/models"

NUMPY_TYPES = {
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
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}
TYPES = [*NUMPY_TYPES, "BF16"]

UNBATCHED = """
max_batch_size: 0
input [ {{ name: "x" data_type: TYPE_{config} dims: [ -1, -1 ] }} ]
output [ {{ name: "y" data_type: TYPE_{config} dims: [ -1, -1 ] }} ]
"""
LABELLED = """
max_batch_size: 8
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] label_filename: "labels.txt" } ]
"""


def configurations():
    """By model: the file that it is made of, and its configuration."""
    for data_type in TYPES:
        stem = f"identity_{data_type.lower()}"
        config = "STRING" if data_type == "BYTES" else data_type
        yield f"rows_{data_type.lower()}", stem, "max_batch_size: 8\n"
        yield f"whole_{data_type.lower()}", stem, UNBATCHED.format(config=config)
    for stem in ("identity_all_types", "scalar", "positive", "passthrough", "gather"):
        yield stem, stem, "max_batch_size: 0\n"
    for stem in ("add", "fraud_mlp", "classifier_strings"):
        yield stem, stem, "max_batch_size: 8\n"
    yield "labelled", "identity_fp32", LABELLED
    yield "text", "strings", STRING_IN_STRING_OUT


STRING_IN_STRING_OUT = """
max_batch_size: 8
input [ { name: "x" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_STRING dims: [ 1 ] } ]
"""


def write(folder):
    for name, stem, config in configurations():
        version = folder / name / "1"
        version.mkdir(parents=True)
        shutil.copy(FIXTURES / f"{stem}.onnx", version / "model.onnx")
        (version.parent / "config.pbtxt").write_text(config)
    (folder / "labelled/labels.txt").write_text("zero\none\ntwo\n")


@functools.cache
def session(stem):
    return onnxruntime.InferenceSession(FIXTURES / f"{stem}.onnx", providers=["CPUExecutionProvider"])


def truth(stem, inputs, outputs=None):
    """What ONNX Runtime answers: arrays by the names of the outputs."""
    runner = session(stem)
    names = outputs or [output.name for output in runner.get_outputs()]
    return dict(zip(names, runner.run(names, inputs)))


def samples(data_type, shape, seed=0):
    """Values of a type in this shape, its corners first."""
    count = int(np.prod(shape))
    rng = np.random.default_rng(seed)
    if data_type == "BYTES":
        words = np.array(["", "plain", "é 模型 😀", "nul\0inside", 'quote " \\ line\n'] * count, dtype=np.object_)
        return words[:count].reshape(shape)
    if data_type == "BF16":
        return (rng.integers(-100, 100, count) / 4).astype(ml_dtypes.bfloat16).reshape(shape)
    kind = NUMPY_TYPES[data_type]
    if data_type == "BOOL":
        values = rng.integers(0, 2, count)
    elif data_type.startswith("FP"):
        info = np.finfo(kind)
        corners = [np.nan, np.inf, -np.inf, info.max, info.min, info.smallest_subnormal, -0.0, 0.1]
        values = np.concatenate([np.array(corners, dtype=kind), rng.normal(size=count).astype(kind)])[:count]
    else:
        info = np.iinfo(kind)
        values = np.concatenate([np.array([info.min, info.max], dtype=kind), rng.integers(0, 100, count).astype(kind)])[:count]
    return values.astype(kind).reshape(shape)
