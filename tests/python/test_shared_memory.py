"""System shared memory as Triton's own clients use it, all four of them, with results that onnxruntime gives when called
directly, and what becomes of the server while a client meddles with what it shares."""

import asyncio
import concurrent.futures
import inspect
import os
import queue
import re
import urllib.request
import uuid

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http_client
import tritonclient.http.aio as http_aio
import tritonclient.utils.shared_memory as shm
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from conftest import send, serving
from grpc_models import TYPES, add_model, add_scaler_with_plugin, truth, values

REQUEST_MB = 1


class Calls:
    """One of Triton's clients: every method returns what it answers, whichever way it is called."""

    def __init__(self, kind, server):
        self.is_http = kind.startswith("http")
        self.types = http_client if self.is_http else grpc_client
        address = server.http.removeprefix("http://") if self.is_http else server.grpc
        modules = {"http": http_client, "http.aio": http_aio, "grpc": grpc_client, "grpc.aio": grpc_aio}
        self.loop = asyncio.new_event_loop()
        self.client = self.settled(lambda: modules[kind].InferenceServerClient(address))

    def settled(self, call):
        """The asyncio clients are made and called within a loop."""

        async def run():
            answer = call()
            return await answer if inspect.isawaitable(answer) else answer

        if isinstance(getattr(self, "client", None), (http_client.InferenceServerClient, grpc_client.InferenceServerClient)):
            return call()
        return self.loop.run_until_complete(run())

    def __getattr__(self, name):
        return lambda *values, **named: self.settled(lambda: getattr(self.client, name)(*values, **named))

    def status(self, name=""):
        """By name: key, offset and size, as numbers."""
        if self.is_http:
            lines = self.get_system_shared_memory_status(name)
        else:
            lines = self.get_system_shared_memory_status(name, as_json=True).get("regions", {}).values()
        return {line["name"]: (line["key"], int(line.get("offset", 0)), int(line["byte_size"])) for line in lines}

    def shared_input(self, name, shape, data_type, region, byte_size, offset=0):
        tensor = self.types.InferInput(name, list(shape), data_type)
        tensor.set_shared_memory(region, byte_size, offset)
        return tensor

    def shared_output(self, name, region, byte_size, offset=0):
        wanted = self.types.InferRequestedOutput(name, **({"binary_data": False} if self.is_http else {}))
        wanted.set_shared_memory(region, byte_size, offset)
        return wanted

    def described(self, result, name):
        """What an answer says of an output: type, shape, and whether it brings values."""
        output = result.get_output(name)
        if self.is_http:
            return output["datatype"], tuple(output["shape"]), "data" in output or "parameters" in output
        response = result.get_response()
        index = [entry.name for entry in response.outputs].index(name)
        assert len(response.raw_output_contents) == len(response.outputs)
        return output.datatype, tuple(output.shape), bool(response.raw_output_contents[index]) or bool(output.parameters)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    for name in TYPES:
        add_model(repository, f"identity_{name.lower()}", f"identity_{name.lower()}")
    add_model(repository, "add", "add", "max_batch_size: 8")
    add_model(repository, "two_outputs", "fraud_mlp")
    add_scaler_with_plugin(repository, "scaler")
    flags = ["--allow-client-shm=true", f"--shared-memory-request-mb={REQUEST_MB}"]
    with serving(tmp_path_factory.mktemp("airlock"), repository, flags) as server:
        yield server


@pytest.fixture(params=["http", "http.aio", "grpc", "grpc.aio"])
def calls(request, running):
    calls = Calls(request.param, running)
    yield calls
    calls.unregister_system_shared_memory()
    # What a test leaves behind would be somebody else's leak.
    assert open_regions(running) == (0, 0)
    calls.close()
    calls.loop.close()


@pytest.fixture
def share():
    """Makes objects of shared memory that are gone afterwards."""
    handles = []

    def create(byte_size):
        key = f"airlock-{uuid.uuid4().hex}"
        handles.append(shm.create_shared_memory_region(key, key, byte_size))
        return key, handles[-1]

    yield create
    for handle in handles:
        shm.destroy_shared_memory_region(handle)
    assert not shm.mapped_shared_memory_regions()


def open_regions(server):
    page = server_metrics(server)
    return tuple(int(page[f"airlock_shared_memory_{what}"]) for what in ("regions", "bytes"))


def server_metrics(server):
    lines = send(urllib.request.Request(server.metrics + "/metrics")).body.decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def raw(array, data_type):
    if data_type != "BYTES":
        return array.tobytes()
    return serialize_byte_tensor(array).item() if array.size else b""


def put(handle, content, offset=0):
    handle._mpsm_handle.buf[offset : offset + len(content)] = content


def held(handle, byte_size, offset=0):
    return bytes(handle._mpsm_handle.buf[offset : offset + byte_size])


@pytest.mark.parametrize("data_type", TYPES)
def test_every_type_goes_in_and_out_of_a_region(calls, share, data_type):
    array = values(data_type, (3, 5))
    content = raw(array, data_type)
    size = len(content)
    key, handle = share(2 * size + 16)
    calls.register_system_shared_memory("both", key, 2 * size + 16)
    put(handle, b"\xaa" * (2 * size + 16))
    put(handle, content, 4)
    name = f"identity_{data_type.lower()}"
    result = calls.infer(
        name,
        [calls.shared_input("x", (3, 5), data_type, "both", size, 4)],
        outputs=[calls.shared_output("y", "both", size + 8, size + 8)],
    )
    assert calls.described(result, "y") == (data_type, (3, 5), False)
    if data_type in ("BYTES", "BF16"):
        expected = content
    else:
        expected = raw(truth(name, {"x": array})["y"], data_type)
    assert held(handle, size, size + 8) == expected
    assert held(handle, 4) == b"\xaa" * 4 and held(handle, 4, size + 4) == b"\xaa" * 4, "nothing beside it is touched"
    assert held(handle, 8, 2 * size + 8) == b"\xaa" * 8, "nor what the output does not fill"


def test_the_clients_own_way_there_and_back(calls, share):
    a, b = (np.arange(8, dtype=np.float32).reshape(4, 2) * factor for factor in (1, -0.25))
    key, handle = share(64)
    out_key, out_handle = share(32)
    shm.set_shared_memory_region(handle, [a, b])
    calls.register_system_shared_memory("in", key, 64)
    calls.register_system_shared_memory("out", out_key, 32)
    inputs = [calls.shared_input("a", (4, 2), "FP32", "in", 32), calls.shared_input("b", (4, 2), "FP32", "in", 32, 32)]
    calls.infer("add", inputs, outputs=[calls.shared_output("sum", "out", 32)])
    got = shm.get_contents_as_numpy(out_handle, np.float32, [4, 2])
    np.testing.assert_array_equal(got, truth("add", {"a": a, "b": b})["sum"])
    del got


def test_one_tensor_in_a_region_and_the_others_in_the_message(calls, share):
    a, b = (np.full((1, 2), number, dtype=np.float32) for number in (2, 3))
    key, handle = share(8)
    put(handle, b.tobytes())
    calls.register_system_shared_memory("b", key, 8)
    beside = calls.types.InferInput("a", [1, 2], "FP32")
    beside.set_data_from_numpy(a)
    # The values that come with the message belong to the input that has none in a region, whatever their order.
    for inputs in ([calls.shared_input("b", (1, 2), "FP32", "b", 8), beside], [beside, calls.shared_input("b", (1, 2), "FP32", "b", 8)]):
        result = calls.infer("add", inputs)
        np.testing.assert_array_equal(result.as_numpy("sum"), truth("add", {"a": a, "b": b})["sum"])


def test_several_outputs_in_one_region_and_one_in_the_answer(calls, share):
    features = np.random.default_rng(3).normal(size=(2, 8)).astype(np.float32)
    expected = truth("fraud_mlp", {"features": features})
    first, second = list(expected)[:2]
    sizes = [expected[name].nbytes for name in (first, second)]
    key, handle = share(features.nbytes + sum(sizes))
    put(handle, features.tobytes())
    calls.register_system_shared_memory("all", key, features.nbytes + sum(sizes))
    x = calls.shared_input("features", (2, 8), "FP32", "all", features.nbytes)
    # Over its own input, too: what was read is a copy.
    parts = [calls.shared_output(first, "all", sizes[0], sizes[1]), calls.shared_output(second, "all", sizes[1])]
    calls.infer("two_outputs", [x], outputs=parts)
    for name, offset in ((first, sizes[1]), (second, 0)):
        got = np.frombuffer(held(handle, expected[name].nbytes, offset), expected[name].dtype)
        np.testing.assert_allclose(got, expected[name].ravel(), rtol=1e-5, atol=1e-7)
    put(handle, features.tobytes())
    result = calls.infer(
        "two_outputs", [x], outputs=[calls.types.InferRequestedOutput(first), calls.shared_output(second, "all", sizes[1])]
    )
    np.testing.assert_allclose(result.as_numpy(first), expected[first], rtol=1e-5, atol=1e-7)
    assert calls.described(result, second)[2] is False


def test_empty_tensors(calls, share):
    key, handle = share(8)
    put(handle, b"\xaa" * 8)
    calls.register_system_shared_memory("r", key, 8)
    x = calls.shared_input("x", (2, 0), "FP32", "r", 0)
    result = calls.infer("identity_fp32", [x], outputs=[calls.shared_output("y", "r", 8)])
    assert calls.described(result, "y") == ("FP32", (2, 0), False)
    assert held(handle, 8) == b"\xaa" * 8


def test_status_follows_what_is_registered(calls, share, running):
    (key, _), (other_key, _) = share(64), share(32)
    assert calls.status() == {}
    calls.register_system_shared_memory("one & all", key, 64)
    calls.register_system_shared_memory("part", "/" + other_key, 16, offset=8)
    one, part = (key, 0, 64), ("/" + other_key, 8, 16)
    assert calls.status() == {"one & all": one, "part": part}
    assert calls.status("part") == {"part": part} and calls.status("one & all") == {"one & all": one}
    assert open_regions(running) == (2, 80)
    calls.unregister_system_shared_memory("part")
    calls.unregister_system_shared_memory("part")
    assert calls.status() == {"one & all": one} and open_regions(running) == (1, 64)
    calls.unregister_system_shared_memory()
    assert calls.status() == {}


def refusal(call):
    with pytest.raises(InferenceServerException) as refused:
        call()
    return refused.value.status(), refused.value.message()


STATUSES = {
    "not found": ("404", "StatusCode.NOT_FOUND"),
    "exists": ("400", "StatusCode.ALREADY_EXISTS"),
    "invalid": ("400", "StatusCode.INVALID_ARGUMENT"),
    "too large": ("413", "StatusCode.RESOURCE_EXHAUSTED"),
    "off": ("501", "StatusCode.UNIMPLEMENTED"),
}


def check_refusal(calls, call, kind, text):
    status, told = refusal(call)
    assert (status, told) == (STATUSES[kind][0 if calls.is_http else 1], text)


def test_what_is_no_region(calls, share):
    key, _ = share(64)
    calls.register_system_shared_memory("r", key, 64)
    absent = f"airlock-{uuid.uuid4().hex}"
    outside = "failed to register shared memory region 's': invalid args"
    reserved = "triton_python_backend_shm_region_1"
    for name, wanted, size, offset, kind, text in [
        ("r", key, 64, 0, "exists", "shared memory region 'r' already in manager"),
        ("s", absent, 8, 0, "invalid",
         f"Unable to open shared memory region: '{absent}' (No such file or directory (os error 2))"),
        ("s", "/../../etc/hostname", 1, 0, "invalid",
         "Unable to open shared memory region: '/../../etc/hostname' (a key has no slash but at its start)"),
        ("s", key, 65, 0, "invalid", f"{outside} (offset 0 and byte_size 65 in an object of 64 bytes)"),
        ("s", key, 1, 64, "invalid", f"{outside} (offset 64 and byte_size 1 in an object of 64 bytes)"),
        ("s", key, 8, 2**64 - 4, "invalid", f"{outside} (offset {2**64 - 4} and byte_size 8 in an object of 64 bytes)"),
        ("s", key, 0, 0, "invalid", f"{outside} (byte_size is 0)"),
        ("s", reserved, 8, 0, "invalid", f"cannot register shared memory region 's' with key '{reserved}' as the key contains "
         "the reserved prefix 'triton_python_backend_shm_region_'"),
    ]:  # fmt: skip
        check_refusal(calls, lambda: calls.register_system_shared_memory(name, wanted, size, offset), kind, text)
    text = "Unable to find system shared memory region: 's'"
    check_refusal(calls, lambda: calls.get_system_shared_memory_status("s"), "not found", text)
    assert list(calls.status()) == ["r"]


def test_what_is_no_part_of_a_region(calls, share):
    key, handle = share(64)
    put(handle, b"\xaa" * 64)
    calls.register_system_shared_memory("r", key, 64)
    x = lambda *part: calls.shared_input("x", (1, 2), "FP32", *part)  # noqa: E731
    y = lambda *part: calls.shared_output("y", *part)  # noqa: E731
    fits = x("r", 8, 0)
    bounds = "Invalid offset + byte size for shared memory region: 'r'"
    for given, wanted, kind, text in [
        (x("s", 8, 0), None, "not found", "Unable to find shared memory region: 's'"),
        (x("r", 8, 64), None, "invalid", "Invalid offset for shared memory region: 'r' (offset 64 in 64 bytes)"),
        (x("r", 8, 60), None, "invalid", f"{bounds} (offset 60 and 8 bytes in 64)"),
        (x("r", 4, 0), None, "invalid", "[request id: <id_unknown>] input byte size mismatch for input 'x' for model "
         "'identity_fp32'. Expected 8, got 4"),
        (x("r", 16, 0), None, "invalid", "[request id: <id_unknown>] input byte size mismatch for input 'x' for model "
         "'identity_fp32'. Expected 8, got 16"),
        (fits, y("s", 8, 0), "not found", "Unable to find shared memory region: 's'"),
        (fits, y("r", 8, 64), "invalid", "Invalid offset for shared memory region: 'r' (offset 64 in 64 bytes)"),
        (fits, y("r", 65, 0), "invalid", f"{bounds} (offset 0 and 65 bytes in 64)"),
        (fits, y("r", 7, 32), "invalid", "shared memory size specified with the request for output 'y' (7 bytes) should be "
         "at least 8 bytes to hold the results"),
    ]:  # fmt: skip
        outputs = None if wanted is None else [wanted]
        check_refusal(calls, lambda: calls.infer("identity_fp32", [given], outputs=outputs), kind, text)
    assert held(handle, 64) == b"\xaa" * 64, "what is refused writes nothing"
    calls.infer("identity_fp32", [fits], outputs=[y("r", 8, 32)])


def test_an_output_that_does_not_fit_keeps_the_others_back(calls, share):
    features = np.zeros((1, 8), dtype=np.float32)
    first, second = list(truth("fraud_mlp", {"features": features}))[:2]
    key, handle = share(64)
    put(handle, b"\xaa" * 64)
    put(handle, features.tobytes())
    calls.register_system_shared_memory("r", key, 64)
    x = calls.shared_input("features", (1, 8), "FP32", "r", 32)
    parts = [calls.shared_output(first, "r", 16, 32), calls.shared_output(second, "r", 1, 48)]
    status, text = refusal(lambda: calls.infer("two_outputs", [x], outputs=parts))
    assert "should be at least" in text and status == STATUSES["invalid"][0 if calls.is_http else 1]
    assert held(handle, 32, 32) == b"\xaa" * 32


def test_strings_whose_lengths_are_wrong(calls, share):
    key, handle = share(16)
    put(handle, b"\x09\0\0\0abc")
    calls.register_system_shared_memory("r", key, 16)
    text = (
        "[request id: <id_unknown>] incomplete string data for inference input 'x' for model 'identity_bytes', expecting string "
        "of length 9 but only 3 bytes available. Please make sure the string is in one buffer."
    )
    given = calls.shared_input("x", (1, 1), "BYTES", "r", 7)
    check_refusal(calls, lambda: calls.infer("identity_bytes", [given]), "invalid", text)


def test_a_request_takes_no_more_than_it_may(calls, share):
    size = (REQUEST_MB << 20) + 4
    key, _ = share(size)
    calls.register_system_shared_memory("r", key, size)
    given = lambda size: calls.shared_input("x", (1, size // 4), "FP32", "r", size)  # noqa: E731
    text = (
        f"the request's inputs take more than {REQUEST_MB << 20} bytes out of shared memory; raise --shared-memory-request-mb to "
        "allow it"
    )
    check_refusal(calls, lambda: calls.infer("identity_fp32", [given(size)]), "too large", text)
    calls.infer("identity_fp32", [given(size - 4)])


def test_classes_do_not_go_into_a_region(calls, share):
    key, _ = share(64)
    calls.register_system_shared_memory("r", key, 64)
    named = {"binary_data": False} if calls.is_http else {}
    wanted = calls.types.InferRequestedOutput("y", class_count=1, **named)
    # The client's own check is what Triton refuses, too.
    with pytest.raises(InferenceServerException, match="shared memory can't be set on classification output"):
        wanted.set_shared_memory("r", 64)


def test_an_object_that_is_cut_short_or_replaced_while_it_is_registered(calls, share):
    key, handle = share(4096)
    path = f"/dev/shm/{key}"
    array = np.array([[1, 2]], dtype=np.float32)
    put(handle, array.tobytes(), 2048)
    calls.register_system_shared_memory("r", key, 4096)
    given = calls.shared_input("x", (1, 2), "FP32", "r", 8, 2048)
    wanted = calls.shared_output("y", "r", 8, 4000)
    calls.infer("identity_fp32", [given], outputs=[wanted])
    os.truncate(path, 0)
    text = f"shared memory region 'r' cannot be used: its object '{key}' is shorter than when it was registered"
    beside = calls.types.InferInput("x", [1, 2], "FP32")
    beside.set_data_from_numpy(array)
    for _ in range(3):
        check_refusal(calls, lambda: calls.infer("identity_fp32", [given]), "invalid", text)
        check_refusal(calls, lambda: calls.infer("identity_fp32", [beside], outputs=[wanted]), "invalid", text)
    assert os.stat(path).st_size == 0, "an output does not bring it back"
    assert calls.is_server_live() and calls.is_server_ready()
    np.testing.assert_array_equal(calls.infer("identity_fp32", [beside]).as_numpy("y"), array)
    os.truncate(path, 4096)
    put(handle, array.tobytes(), 2048)
    calls.infer("identity_fp32", [given], outputs=[wanted])
    assert held(handle, 8, 4000) == array.tobytes()
    # Another object under its name is not what was registered.
    os.rename(path, path + "-away")
    with open(path, "wb") as replaced:
        replaced.write(b"\xff" * 4096)
    result = calls.infer("identity_fp32", [given])
    np.testing.assert_array_equal(result.as_numpy("y"), array)
    os.rename(path + "-away", path)


def test_bytes_that_change_under_way_hurt_nobody(calls, share):
    """A string's length that grows after it was looked at: what was checked is a copy."""
    sound, broken = b"\x04\0\0\0abcd", b"\xff\xff\xff\x7fabcd"
    key, handle = share(8)
    put(handle, sound)
    calls.register_system_shared_memory("r", key, 8)
    given = calls.shared_input("x", (1, 1), "BYTES", "r", 8)
    done = False

    def meddle():
        while not done:
            put(handle, broken)
            put(handle, sound)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        meddling = pool.submit(meddle)
        try:
            for _ in range(100):
                try:
                    assert calls.infer("identity_bytes", [given]).as_numpy("y").tolist() == [[b"abcd"]]
                except InferenceServerException as refused:
                    assert "string" in refused.message()
        finally:
            done = True
        meddling.result()
    put(handle, sound)
    calls.infer("identity_bytes", [given])


def test_many_requests_at_once(running, share):
    key, handle = share(64 * 16)
    calls = Calls("grpc.aio", running)
    calls.register_system_shared_memory("r", key, 64 * 16)
    for i in range(64):
        put(handle, np.array([i, -i], dtype=np.float32).tobytes(), 16 * i)

    async def ask():
        asked = [
            calls.client.infer(
                "identity_fp32",
                [calls.shared_input("x", (1, 2), "FP32", "r", 8, 16 * i)],
                outputs=[calls.shared_output("y", "r", 8, 16 * i + 8)],
            )
            for i in range(64)
        ]
        await asyncio.gather(*asked)

    calls.loop.run_until_complete(ask())
    for i in range(64):
        assert held(handle, 8, 16 * i + 8) == np.array([i, -i], dtype=np.float32).tobytes()
    calls.unregister_system_shared_memory("r")
    assert open_regions(running) == (0, 0)
    calls.close()
    calls.loop.close()


def test_streams(running, share):
    key, handle = share(16)
    put(handle, np.array([5, 6], dtype=np.float32).tobytes())
    calls = Calls("grpc", running)
    calls.register_system_shared_memory("r", key, 16)
    answers = queue.Queue()
    calls.client.start_stream(lambda result, error: answers.put((result, error)))
    given = calls.shared_input("x", (1, 2), "FP32", "r", 8)
    ask = lambda *part: calls.client.async_stream_infer(  # noqa: E731
        "identity_fp32", [given], outputs=[calls.shared_output("y", *part)]
    )
    ask("r", 8, 8)
    result, error = answers.get(timeout=60)
    assert error is None and calls.described(result, "y") == ("FP32", (1, 2), False)
    assert held(handle, 8, 8) == held(handle, 8)
    ask("absent", 8, 0)
    _, error = answers.get(timeout=60)
    assert "Unable to find shared memory region: 'absent'" in str(error)
    ask("r", 8, 0)
    assert answers.get(timeout=60)[1] is None, "the stream goes on"
    calls.client.stop_stream()
    calls.unregister_system_shared_memory()
    calls.close()
    calls.loop.close()


def test_plugins_have_no_part_in_it(running, share):
    key, handle = share(64)
    body = b'{"x": [1, 2, 3, 4]}'
    put(handle, len(body).to_bytes(4, "little") + body)
    calls = Calls("grpc", running)
    calls.register_system_shared_memory("r", key, 64)
    message = service_pb2.ModelInferRequest(model_name="scaler")
    tensor = message.inputs.add(name="body", datatype="BYTES", shape=[1])
    region = {"shared_memory_region": "r", "shared_memory_byte_size": len(body) + 4}

    def name_region(entry):
        entry.parameters["shared_memory_region"].string_param = region["shared_memory_region"]
        entry.parameters["shared_memory_byte_size"].int64_param = region["shared_memory_byte_size"]

    with grpc.insecure_channel(running.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

        def check_refused():
            with pytest.raises(grpc.RpcError) as refused:
                stub.ModelInfer(message)
            assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert refused.value.details().startswith("a plugin reads and writes no shared memory")

        name_region(tensor)
        check_refused()
        message.raw_input_contents.append(held(handle, len(body) + 4))
        check_refused()
        tensor.parameters.clear()
        name_region(message.outputs.add(name="body"))
        check_refused()
        del message.outputs[:]
        assert stub.ModelInfer(message).outputs[0].name == "body"
    # Over HTTP what names a region is the plugin's own matter: it gets these bytes and no others.
    named = b'{"inputs": [{"name": "x", "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 16}}]}'
    answer = running.post("/v1/models/scaler:predict", named)
    assert answer.status == 422 and b"abc" not in answer.body
    # The model itself has its tensors in regions, plugin or none.
    features = np.array([[1, 2, 3, 4]], dtype=np.float32)
    put(handle, features.tobytes())
    metadata = calls.get_model_metadata("scaler").inputs[0]
    given = calls.shared_input(metadata.name, (1, 4), "FP32", "r", 16)
    expected = truth("scaler_v1", {metadata.name: features})
    result = calls.infer("scaler", [given])
    for name, array in expected.items():
        np.testing.assert_allclose(result.as_numpy(name), array, rtol=1e-6)
    calls.unregister_system_shared_memory()
    calls.close()
    calls.loop.close()


def test_cuda_shared_memory_is_refused(calls, share):
    key, _ = share(8)
    calls.register_system_shared_memory("r", key, 8)
    status = calls.get_cuda_shared_memory_status()
    assert status == [] if calls.is_http else not status.regions
    text = "failed to register CUDA shared memory region: 'c', GPUs not supported"
    check_refusal(calls, lambda: calls.register_cuda_shared_memory("c", b"aGFuZGxl", 0, 8), "invalid", text)
    text = "Unable to find cuda shared memory region: 'c'"
    check_refusal(calls, lambda: calls.get_cuda_shared_memory_status("c"), "not found", text)
    text = "The region named 'r' is registered as system shared memory, not CUDA shared memory"
    check_refusal(calls, lambda: calls.get_cuda_shared_memory_status("r"), "not found", text)
    calls.unregister_cuda_shared_memory("r")
    calls.unregister_cuda_shared_memory()
    assert list(calls.status()) == ["r"]


def test_the_extension_is_named(calls):
    metadata = calls.get_server_metadata()
    extensions = metadata["extensions"] if calls.is_http else metadata.extensions
    assert "system_shared_memory" in extensions and "cuda_shared_memory" not in extensions


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_off_unless_it_is_asked_for(tmp_path_factory, share, kind):
    repository = tmp_path_factory.mktemp("repository")
    add_model(repository, "identity_fp32", "identity_fp32")
    key, _ = share(8)
    text = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
    with serving(tmp_path_factory.mktemp("airlock"), repository) as server:
        calls = Calls(kind, server)
        beside = calls.types.InferInput("x", [1, 2], "FP32")
        beside.set_data_from_numpy(np.zeros((1, 2), dtype=np.float32))
        for call in (
            lambda: calls.register_system_shared_memory("r", key, 8),
            lambda: calls.unregister_system_shared_memory("r"),
            lambda: calls.unregister_system_shared_memory(),
            lambda: calls.register_cuda_shared_memory("r", b"aGFuZGxl", 0, 8),
            lambda: calls.unregister_cuda_shared_memory("r"),
            lambda: calls.infer("identity_fp32", [calls.shared_input("x", (1, 2), "FP32", "r", 8)]),
            lambda: calls.infer("identity_fp32", [beside], outputs=[calls.shared_output("y", "r", 8)]),
        ):
            check_refusal(calls, call, "off", text)
        assert calls.status() == {}
        metadata = calls.get_server_metadata()
        assert "system_shared_memory" not in (metadata["extensions"] if calls.is_http else metadata.extensions)
        assert calls.infer("identity_fp32", [beside]).as_numpy("y").tolist() == [[0, 0]]
        calls.close()
        calls.loop.close()


def test_restricted_and_bounded(tmp_path_factory, share):
    repository = tmp_path_factory.mktemp("repository")
    add_model(repository, "identity_fp32", "identity_fp32")
    flags = ["--allow-client-shm=true", "--shared-memory-regions=1", "--shared-memory-mb=1"]
    flags += ["--http-restricted-api=shared-memory:x-key=let-me-in"]
    flags += ["--grpc-restricted-protocol=shared-memory:key=let-me-in"]
    (key, _), (large, _) = share(8), share((1 << 20) + 1)
    with serving(tmp_path_factory.mktemp("airlock"), repository, flags) as server:
        for kind, header, told in [
            ("http", {"x-key": "let-me-in"}, "This API is restricted, expecting header 'x-key'"),
            ("grpc", {"triton-grpc-protocol-key": "let-me-in"},
             "This protocol is restricted, expecting header 'triton-grpc-protocol-key'"),
        ]:  # fmt: skip
            calls = Calls(kind, server)
            for call in (
                lambda: calls.register_system_shared_memory("r", key, 8),
                lambda: calls.unregister_system_shared_memory(),
                lambda: calls.get_system_shared_memory_status(),
                lambda: calls.get_cuda_shared_memory_status(),
            ):
                assert refusal(call)[1] == told
            register = lambda *place: calls.register_system_shared_memory(*place, headers=header)  # noqa: E731
            assert re.match(r"failed to register .*raise --shared-memory-mb$", refusal(lambda: register("r", large, (1 << 20) + 1))[1])
            register("r", key, 8)
            full = "1 shared memory regions are registered; unregister one, or raise --shared-memory-regions"
            assert refusal(lambda: register("s", key, 8))[1] == full
            calls.unregister_system_shared_memory("r", headers=header)
            calls.close()
            calls.loop.close()
        limits = server_metrics(server)
        names = {"regions": 1, "bytes": 1 << 20, "request_bytes": 64 << 20}
        for name, value in names.items():
            assert float(limits[f'airlock_limit{{name="shared_memory_{name}"}}']) == value
        assert open_regions(server) == (0, 0)
