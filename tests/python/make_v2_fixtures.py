"""Writes tests/fixtures/v2: v2 requests and answers as Python's json writes them, with their tensors as NumPy and
struct lay them out. The host's codec is tested against these files, so nothing here may come from the host.

    python tests/python/make_v2_fixtures.py            write the files
    python tests/python/make_v2_fixtures.py --check    fail where a file differs from what would be written

Needs NumPy, for its float16 and its shortest float32 digits.
"""

import json
import math
import random
import struct
import sys
from pathlib import Path

import numpy as np

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "v2"

INTEGERS = {
    "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q",
    "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q",
}  # fmt: skip


def bfloat16(value):
    """The upper half of the float32, rounded to nearest, ties to even."""
    (bits,) = struct.unpack("<I", np.float32(value).tobytes())
    if math.isnan(value):
        return struct.pack("<H", (bits >> 16) | 0x40)
    return struct.pack("<H", (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


def element(datatype, value):
    """One element's bytes, little-endian."""
    if datatype == "BOOL":
        return bytes([value])
    if datatype in INTEGERS:
        return struct.pack("<" + INTEGERS[datatype], value)
    if datatype == "FP16":
        return np.float16(value).tobytes()
    if datatype == "BF16":
        return bfloat16(value)
    if datatype == "FP32":
        return np.float32(value).tobytes()
    if datatype == "FP64":
        return struct.pack("<d", value)
    text = value.encode()
    return struct.pack("<I", len(text)) + text


def flat(data):
    for value in data:
        if isinstance(value, list):
            yield from flat(value)
        else:
            yield value


def tensor(name, datatype, shape, values):
    return {"name": name, "datatype": datatype, "shape": shape, "hex": b"".join(element(datatype, v) for v in values).hex()}


def nested(values, shape):
    if len(shape) < 2:
        return list(values)
    step = len(values) // shape[0]
    return [nested(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def samples(datatype, count, rng):
    """`count` values of a type, its corners first."""
    if datatype == "BOOL":
        return [rng.random() < 0.5 for _ in range(count)]
    if datatype in INTEGERS:
        bits = 8 * struct.calcsize(INTEGERS[datatype])
        low, high = (0, 2**bits - 1) if datatype.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return ([low, high, 0, 1] + [rng.randint(low, high) for _ in range(count)])[:count]
    if datatype == "BYTES":
        corners = ["", "plain", 'quote " and \\ and /', "line\nbreak\ttab\x00nul\x1f", "é 模型 😀"]
        return (corners * count)[:count]
    corners = {
        "FP16": [0.0, -0.0, 65504.0, 6e-8, 2.0**-25, 1.00048828125, 1.00048828125000022, 0.1],
        "BF16": [0.0, -0.0, 3.38e38, 1.00390625, 1.01171875, 1e-40, -1e-45, 0.1],
        "FP32": [0.0, -0.0, 3.4028234e38, 1e-45, 1.0000000596046448, 16777217.0, 0.1, -2.5],
        "FP64": [0.0, -0.0, 1.7976931348623157e308, 5e-324, 9007199254740993.0, 0.1, 1e23, -2.5],
    }[datatype]
    return (corners + [rng.gauss(0, 100) for _ in range(count)])[:count]


def request(name, inputs, dump=json.dumps, **members):
    """A request whose text is Python's, and what its inputs are."""
    objects, tensors = [], []
    for entry in inputs:
        objects.append(entry)
        tensors.append(tensor(entry["name"], entry["datatype"], entry["shape"], list(flat(entry["data"]))))
    return {"name": name, "body": dump({**members, "inputs": objects}), "id": members.get("id"), "inputs": tensors}


def requests():
    rng = random.Random(7)
    types = ["BOOL", *INTEGERS, "FP16", "BF16", "FP32", "FP64", "BYTES"]

    def entry(datatype, shape, name="x"):
        values = samples(datatype, math.prod(shape), rng)
        return {"name": name, "shape": shape, "datatype": datatype, "data": nested(values, shape)}

    for datatype in types:
        yield request(f"{datatype} nested", [entry(datatype, [3, 4])])
    yield request("every type at once", [entry(t, [8], name=t.lower()) for t in types], id="all")
    row = {"name": "x", "shape": [1, 128], "datatype": "FP32", "data": [rng.gauss(0, 1) for _ in range(128)]}
    yield request("a flat row of FP32", [row], id="42", parameters={"priority": 1})
    late = entry("INT64", [2, 2])
    yield request("data first", [{key: late[key] for key in ("data", "name", "datatype", "shape")}])
    yield request("indented", [entry("FP32", [2, 1, 2])], dump=lambda body: json.dumps(body, indent=2))
    yield request("text beyond ASCII as it is", [entry("BYTES", [5])], dump=lambda body: json.dumps(body, ensure_ascii=False))
    specials = [math.nan, math.inf, -math.inf, 1.5]
    for datatype in ("FP16", "BF16", "FP32", "FP64"):
        yield request(
            f"{datatype} without a JSON form", [{"name": "x", "shape": [4], "datatype": datatype, "data": specials}]
        )
    yield request("no rows", [{"name": "x", "shape": [0, 3], "datatype": "FP32", "data": []}])
    yield request("deep for one value", [{"name": "x", "shape": [1], "datatype": "UINT8", "data": [[[[[[7]]]]]]}])


def shown(datatype, value):
    """The value whose Python text is the text of the element: shortest float32 digits for the narrow types."""
    if datatype in ("FP16", "BF16", "FP32"):
        data = element(datatype, value)
        narrow = {"FP16": np.float16, "FP32": np.float32}.get(datatype)
        as_f32 = np.frombuffer(data, narrow)[0].astype(np.float32) if narrow else np.frombuffer(b"\0\0" + data, np.float32)[0]
        return float(np.format_float_scientific(as_f32, unique=True, trim="-"))
    return value


def answer(name, outputs, **members):
    """An answer's tensors, and its text: compact, in Triton's member order."""
    tensors = [tensor(o["name"], o["datatype"], o["shape"], o["data"]) for o in outputs]
    shown_outputs = [{**o, "data": [shown(o["datatype"], v) for v in o["data"]]} for o in outputs]
    body = {**members, "model_name": "m", "model_version": "3", "outputs": shown_outputs}
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return {"name": name, "id": members.get("id"), "outputs": tensors, "text": text}


def answers():
    rng = random.Random(11)

    def output(datatype, values, name="y", shape=None):
        return {"name": name, "datatype": datatype, "shape": shape or [len(values)], "data": values}

    plain = [0.0, -0.0, 1.0, 0.1, -2.5, 1 / 3, 1234.5678, 0.5, 65504.0] + [rng.gauss(0, 100) for _ in range(50)]
    for datatype in ("FP16", "BF16", "FP32", "FP64"):
        yield answer(f"{datatype} numbers", [output(datatype, plain)])
        yield answer(f"{datatype} without a JSON form", [output(datatype, [math.nan, math.inf, -math.inf])])
    for datatype in INTEGERS:
        yield answer(f"{datatype} numbers", [output(datatype, samples(datatype, 6, rng), shape=[2, 3])])
    yield answer("BOOL and an id", [output("BOOL", [True, False])], id='a "quoted" id')
    yield answer("BYTES", [output("BYTES", ["", "plain", 'quote " and \\ and /', "line\nbreak\ttab\x00nul\x1f", "é 模型 😀"])])
    yield answer("two outputs", [output("INT64", [1, 2], name="label"), output("FP32", [0.25], name="score", shape=[1, 1])])
    yield answer("no rows", [output("FP32", [], shape=[0, 3])])


def digits():
    """Extreme values, as sign, digits and power of ten, since writers differ in where they place the point."""
    rng = random.Random(13)
    for datatype, width in (("FP32", 4), ("FP64", 8)):
        for _ in range(200):
            data = rng.randbytes(width)
            value = np.frombuffer(data, {"FP32": np.float32, "FP64": np.float64}[datatype])[0]
            if np.isfinite(value):
                text = np.format_float_scientific(value, unique=True, trim="-", exp_digits=1)
                yield {"datatype": datatype, "hex": data.hex(), "decimal": text}


def main():
    check = sys.argv[1:] == ["--check"]
    FIXTURES.mkdir(parents=True, exist_ok=True)
    stale = []
    for stem, cases in (("requests", requests()), ("answers", answers()), ("digits", digits())):
        path = FIXTURES / f"{stem}.json"
        lines = ",\n".join(json.dumps(case) for case in cases)
        text = f"[\n{lines}\n]\n"
        if not check:
            path.write_text(text)
        elif path.read_text() != text:
            stale.append(path.name)
    if stale:
        sys.exit(f"stale: {', '.join(stale)}; run tests/python/make_v2_fixtures.py")


if __name__ == "__main__":
    main()
