"""Mixed load over every surface, half of it cancelled, leaves nothing behind: no request, no connection, no region of
shared memory, no file, no memory.

AIRLOCK_MIXED_LOAD_SECONDS says for how long; what CI runs is short. docs/measurements.md has the figures of a long run."""

import contextlib
import json
import os
import random
import re
import socket
import threading
import time
import urllib.request
from urllib.parse import urlsplit

import grpc
import numpy as np
import pytest
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tritonclient.grpc import service_pb2, service_pb2_grpc

from conftest import send, serving
from grpc_models import add_scaler_with_plugin
from test_grpc_streams import wait_until

SECONDS = float(os.environ.get("AIRLOCK_MIXED_LOAD_SECONDS", "6"))
# What a run may add to the memory that it took half way: a share, and what an allocator keeps.
GROWTH_MAX, SLACK_BYTES = 1.10, 24 << 20
# Half of the requests are cancelled, up to so long after they were sent.
CANCELLED, CANCEL_AFTER_MAX_S = 0.5, 0.008
VALUES = np.arange(64, dtype=np.int32).reshape(2, 32)
# Gauges that tell of the past and not of what is held now.
KEPT = ("airlock_plugin_instances", "airlock_sandbox_", "airlock_batches_run_inline", "nv_cpu_", "airlock_limit")

SAME = """backend: "identity" max_batch_size: 16
input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 } output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }
dynamic_batching { max_queue_delay_microseconds: 500 }
parameters { key: "execute_delay_ms" value { string_value: "2" } }
instance_group { count: 2 kind: KIND_CPU }
"""


class Caller:
    """Sends requests of one kind until it is told to stop; checks each answer that it waits for."""

    def __init__(self, server, seed, stop):
        self.server, self.random, self.stop = server, random.Random(seed), stop
        self.answered = self.cancelled = 0

    def run(self):
        with self.connection() as connection:
            while not self.stop.is_set():
                cancels = self.random.random() < CANCELLED
                self.call(connection, cancels)
                self.cancelled += cancels
                self.answered += not cancels

    def linger(self):
        """Until the moment of a cancellation."""
        self.stop.wait(self.random.uniform(0, CANCEL_AFTER_MAX_S))


class Http(Caller):
    """A request on a connection of its own, which is closed before the answer where it is cancelled."""

    @contextlib.contextmanager
    def connection(self):
        address = urlsplit(self.server.http)
        yield address.hostname, address.port

    def call(self, connection, cancels):
        with socket.create_connection(connection) as own:
            request = self.request()
            # Some leave in the middle of what they send.
            cut = self.random.randint(1, len(request)) if cancels and self.random.random() < 0.3 else len(request)
            own.sendall(request[:cut])
            if cancels:
                return self.linger()
            answer = b"".join(iter(lambda: own.recv(65536), b""))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), answer[:500]
            self.check(body)

    def post(self, path, body, headers=""):
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        return head.encode() + body


class HttpJson(Http):
    def request(self):
        tensor = {"name": "INPUT0", "shape": VALUES.shape, "datatype": "INT32", "data": VALUES.tolist()}
        return self.post("/v2/models/same/infer", json.dumps({"inputs": [tensor]}).encode())

    def check(self, body):
        assert json.loads(body)["outputs"][0]["data"] == VALUES.ravel().tolist()


class HttpBinary(Http):
    def request(self):
        tensor = triton_http.InferInput("INPUT0", VALUES.shape, "INT32")
        tensor.set_data_from_numpy(VALUES, binary_data=True)
        wanted = triton_http.InferRequestedOutput("OUTPUT0", binary_data=True)
        body, length = triton_http.InferenceServerClient.generate_request_body([tensor], outputs=[wanted])
        return self.post("/v2/models/same/infer", body, f"Inference-Header-Content-Length: {length}\r\n")

    def check(self, body):
        assert body.endswith(VALUES.tobytes())


class Predict(Http):
    def request(self):
        return self.post("/v1/models/scaler:predict", b'{"x": [1, 2, 3, 4]}', "Content-Type: application/json\r\n")

    def check(self, body):
        assert json.loads(body)["y"] == [20.0, 40.0, 60.0, 80.0]


class SharedMemory(Caller):
    """Registers a region, has its values copied within it, and unregisters it; where it is cancelled it does not look."""

    @contextlib.contextmanager
    def connection(self):
        self.name = f"mixed_{os.getpid()}_{id(self)}"
        region = shm.create_shared_memory_region(self.name, f"/{self.name}", 2 * VALUES.nbytes)
        shm.set_shared_memory_region(region, [VALUES])
        with triton_http.InferenceServerClient(urlsplit(self.server.http).netloc) as client:
            yield client, region
        shm.destroy_shared_memory_region(region)

    def call(self, connection, cancels):
        client, region = connection
        client.register_system_shared_memory(self.name, f"/{self.name}", 2 * VALUES.nbytes)
        tensor = triton_http.InferInput("INPUT0", VALUES.shape, "INT32")
        tensor.set_shared_memory(self.name, VALUES.nbytes)
        wanted = triton_http.InferRequestedOutput("OUTPUT0")
        wanted.set_shared_memory(self.name, VALUES.nbytes, offset=VALUES.nbytes)
        if cancels:
            # The region goes while a request that nobody waits for may still use it.
            body, _ = triton_http.InferenceServerClient.generate_request_body([tensor], outputs=[wanted])
            address = urlsplit(self.server.http)
            with socket.create_connection((address.hostname, address.port)) as own:
                head = f"POST /v2/models/same/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
                own.sendall(head.encode() + body)
                self.linger()
        else:
            client.infer("same", [tensor], outputs=[wanted])
            assert (shm.get_contents_as_numpy(region, np.int32, VALUES.shape, offset=VALUES.nbytes) == VALUES).all()
        client.unregister_system_shared_memory(self.name)


class Grpc(Caller):
    @contextlib.contextmanager
    def connection(self):
        with grpc.insecure_channel(self.server.grpc) as channel:
            yield service_pb2_grpc.GRPCInferenceServiceStub(channel)

    def message(self):
        message = service_pb2.ModelInferRequest(model_name="same", raw_input_contents=[VALUES.tobytes()])
        message.inputs.add(name="INPUT0", datatype="INT32", shape=VALUES.shape)
        return message


class Unary(Grpc):
    def call(self, stub, cancels):
        call = stub.ModelInfer.future(self.message())
        if cancels:
            self.linger()
            call.cancel()
        else:
            assert call.result().raw_output_contents[0] == VALUES.tobytes()


class Stream(Grpc):
    """A stream of a few requests, given up after some answers where it is cancelled."""

    def call(self, stub, cancels):
        count = self.random.randint(1, 8)
        call = stub.ModelStreamInfer(self.message() for _ in range(count))
        for _ in range(self.random.randint(0, count) if cancels else count):
            assert next(call).infer_response.raw_output_contents[0] == VALUES.tobytes()
        if cancels:
            self.linger()
            call.cancel()
        else:
            assert next(call, None) is None


@pytest.fixture
def loaded(tmp_path):
    repository = tmp_path / "models"
    (repository / "same/1").mkdir(parents=True)
    (repository / "same/config.pbtxt").write_text(SAME)
    add_scaler_with_plugin(repository, "scaler")
    with serving(tmp_path, repository, ["--allow-client-shm=true"]) as server:
        yield server


def gauges(server):
    """What every gauge shows that tells of what is held now. The look itself is a connection, and so is one that the
    client of the look has not closed yet."""
    text = send(urllib.request.Request(server.metrics + "/metrics")).body.decode()
    names = re.findall(r"^# TYPE (\S+) gauge$", text, re.MULTILINE)
    names = [name for name in names if not name.startswith(KEPT)]
    series = re.findall(r"^((\w+)(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {key: float(value) for key, name, value in series if name in names and 'port="metrics"' not in key}


def resident_bytes(server):
    fields = open(f"/proc/{server.process.pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+) kB", fields)[1]) << 10


def held_open(server):
    """Sockets and objects of shared memory that the server has open."""
    folder = f"/proc/{server.process.pid}/fd"
    held = 0
    for descriptor in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            held += os.readlink(f"{folder}/{descriptor}").startswith(("socket:", "/dev/shm/"))
    return held


def test_mixed_load_leaves_nothing_behind(loaded):
    kinds = [HttpJson, HttpBinary, Predict, SharedMemory, Unary, Stream, HttpJson, HttpBinary, Unary, Stream]
    at_rest, open_at_rest = gauges(loaded), held_open(loaded)
    stop = threading.Event()
    callers = [kind(loaded, seed, stop) for seed, kind in enumerate(kinds)]
    failures = []

    def run(caller):
        try:
            caller.run()
        except BaseException as failure:  # noqa: BLE001 - told below, from the test's own thread
            failures.append((type(caller).__name__, failure))
            stop.set()

    threads = [threading.Thread(target=run, args=[caller]) for caller in callers]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    stop.wait(SECONDS / 2)
    half_way = resident_bytes(loaded)
    stop.wait(SECONDS - (time.monotonic() - started))
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures
    answered, cancelled = (sum(getattr(caller, what) for caller in callers) for what in ("answered", "cancelled"))
    assert all(caller.answered and caller.cancelled for caller in callers)

    wait_until("every gauge to be as before", lambda: gauges(loaded) == at_rest)
    wait_until("every connection and region to be closed", lambda: held_open(loaded) <= open_at_rest)
    at_end = resident_bytes(loaded)
    print(f"{answered} answered, {cancelled} cancelled in {SECONDS:g} s; resident {half_way >> 20} MiB half way, "
          f"{at_end >> 20} MiB at the end")
    assert at_end <= half_way * GROWTH_MAX + SLACK_BYTES
