"""Statistics and metrics add up to what the clients saw, and Prometheus's own tool reads them.

The traffic is drawn by chance from a seed that a failure names, over every surface, with every way to be refused. Each
client counts what it sent and what it got; afterwards every counter must be that sum, to the last request and byte."""

import collections
import contextlib
import json
import random
import re
import shutil
import socket
import subprocess
import threading
import urllib.request

import grpc
import numpy as np
import pytest
import tritonclient.http as triton_http
from tritonclient.grpc import service_pb2, service_pb2_grpc

from conftest import send, serving
from grpc_models import add_scaler_with_plugin
from test_grpc_streams import wait_until

CLIENTS = 8
STEPS = 60
SEEDS = [1, 20, 3_000]
INFER = "/v2/models/{model}/infer"
PREDICT = "/v1/models/{segment}"
UNARY = "inference.GRPCInferenceService/ModelInfer"
STREAM = "inference.GRPCInferenceService/ModelStreamInfer"
FLAGS = ["--metrics-config=histogram_latencies=true", "--metrics-config=summary_latencies=true"]

SAME = """backend: "identity" max_batch_size: 4
input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 } output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }
dynamic_batching { default_queue_policy { default_timeout_microseconds: 6000 max_queue_size: 3 } }
parameters { key: "execute_delay_ms" value { string_value: "4" } }
metric_tags { key: "team" value: "fraud" }
model_metrics { metric_control {
    metric_identifier { family: "nv_inference_queue_duration_histogram_us" }
    histogram_options { buckets: [ 1000, 3000, 1e9 ] } } }
"""
SLOW = """backend: "identity"
input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 } output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }
parameters { key: "execute_delay_ms" value { string_value: "6000" } }
"""


def scrape(server):
    return send(urllib.request.Request(server.metrics + "/metrics")).body.decode()


def metric(server, name, /, **labels):
    """The sum of the series that have all of these labels. Routes have braces in them."""
    total = 0
    for series, value in re.findall(rf"^{name}(\{{.*\}})? (\S+)$", scrape(server), re.MULTILINE):
        if all(f'{key}="{wanted}"' in series for key, wanted in labels.items()):
            total += float(value)
    return total


def write_models(repository):
    for name, config in (("same", SAME), ("slow", SLOW)):
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(config)
    add_scaler_with_plugin(repository, "scaler")


def infer_body(name, rows):
    tensor = {"name": name, "shape": [rows, 2], "datatype": "INT32", "data": [7] * (2 * rows)}
    return json.dumps({"inputs": [tensor]}).encode()


class Client:
    """Sends what its generator draws and counts what it sees."""

    def __init__(self, server, stub, seed):
        self.server, self.stub, self.random = server, stub, random.Random(seed)
        # Requests by what counts them, rows that were answered, and bytes by route and direction.
        self.seen = collections.Counter()

    def run(self):
        steps = [self.json, self.binary, self.unary, self.stream, self.predict, self.unknown]
        for _ in range(STEPS):
            self.random.choice(steps)()

    def draw(self):
        """Rows and the input's name, which is wrong now and then."""
        return self.random.randint(1, 3), "WRONG" if self.random.random() < 0.1 else "INPUT0"

    def ended(self, model, code, rows=0):
        self.seen["request", model, code] += 1
        self.seen["rows", model] += rows if code == "ok" else 0

    def http(self, route, path, body, headers=None, reads_body=True):
        answer = self.server.post(path, body, headers=headers)
        self.seen["http", route, str(answer.status)] += 1
        self.seen["received", route] += len(body) if reads_body else 0
        self.seen["sent", route] += len(answer.body)
        return "ok" if answer.status == 200 else answer.json()["code"]

    def json(self):
        rows, name = self.draw()
        self.ended("same", self.http(INFER, "/v2/models/same/infer", infer_body(name, rows)), rows)

    def binary(self):
        rows, name = self.draw()
        tensor = triton_http.InferInput(name, [rows, 2], "INT32")
        tensor.set_data_from_numpy(np.full((rows, 2), 7, dtype=np.int32))
        body, json_length = triton_http.InferenceServerClient.generate_request_body([tensor])
        headers = {"Inference-Header-Content-Length": str(json_length)}
        self.ended("same", self.http(INFER, "/v2/models/same/infer", bytes(body), headers), rows)

    def message(self):
        rows, name = self.draw()
        tensor = service_pb2.ModelInferRequest.InferInputTensor(name=name, datatype="INT32", shape=[rows, 2])
        return rows, service_pb2.ModelInferRequest(
            model_name="same", inputs=[tensor], raw_input_contents=[np.full((rows, 2), 7, dtype=np.int32).tobytes()]
        )

    def unary(self):
        rows, message = self.message()
        self.seen["grpc received"] += 5 + message.ByteSize()
        try:
            self.seen["grpc sent"] += 5 + self.stub.ModelInfer(message).ByteSize()
            status, code = "OK", "ok"
        except grpc.RpcError as error:
            status, code = error.code().name, dict(error.trailing_metadata())["airlock-code"]
        self.seen["grpc", UNARY, status] += 1
        self.ended("same", code, rows)

    def stream(self):
        sent = [self.message() for _ in range(self.random.randint(1, 5))]
        answers = list(self.stub.ModelStreamInfer(iter([message for _, message in sent])))
        self.seen["grpc", STREAM, "OK"] += 1
        for (rows, _), answer in zip(sent, answers, strict=True):
            self.ended("same", stream_code(answer.error_message), rows)

    def predict(self):
        body = json.dumps({"x": [1, 2, 3, 4][: self.random.choice([4, 4, 3])]}).encode()
        self.ended("scaler", self.http(PREDICT, "/v1/models/scaler:predict", body), 1)

    def unknown(self):
        self.ended("", self.http(INFER, "/v2/models/absent/infer", b"{}", reads_body=False))


def stream_code(text):
    texts = {"": "ok", "Exceeds maximum queue size": "queue_full", "Request timeout expired": "queue_timeout"}
    return next((code for known, code in texts.items() if text.endswith(known) and (known or not text)), "invalid_tensors")


@contextlib.contextmanager
def connected(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.mark.parametrize("seed", SEEDS)
def test_counters_add_up_to_what_the_clients_saw(tmp_path, seed):
    write_models(tmp_path / "repository")
    with serving(tmp_path, tmp_path / "repository", FLAGS) as server, connected(server) as stub:
        clients = [Client(server, stub, seed + number) for number in range(CLIENTS)]
        failures = []
        threads = [threading.Thread(target=run, args=(client, failures)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        seen = sum((client.seen for client in clients), collections.Counter())
        for code in ("ok", "queue_full", "queue_timeout", "invalid_tensors"):
            assert seen["request", "same", code] > 0, (code, seen)
        # What is sent last is counted when its bytes are on their way.
        calls = seen["grpc", UNARY, "OK"]
        wait_until("the last call's count", lambda: metric(server, "airlock_grpc_responses_total", method=UNARY, code="OK") == calls)
        wait_until("nothing in flight", lambda: metric(server, "airlock_requests_in_flight") == 0)
        check_requests(server, seen)
        check_statistics(server, seen)
        check_traffic(server, seen)


def run(client, failures):
    try:
        client.run()
    except Exception as error:
        failures.append(error)


def check_requests(server, seen):
    for key, count in seen.items():
        if key[0] == "request":
            _, model, code = key
            assert metric(server, "airlock_requests_total", model=model, code=code) == count, key
    total = sum(count for key, count in seen.items() if key[0] == "request")
    assert metric(server, "airlock_requests_total") == total, "and nothing else is counted"
    full, expired, invalid = (
        seen["request", "same", code] for code in ("queue_full", "queue_timeout", "invalid_tensors")
    )
    labels = {"model": "same", "version": "1", "_team": "fraud"}
    answered = seen["request", "same", "ok"]
    for name in ("nv_inference_request_success", "nv_inference_request_summary_us_count"):
        assert metric(server, name, **labels) == answered, name
    for phase in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        assert metric(server, f"nv_inference_{phase}_summary_us_count", **labels) == answered, phase
        assert metric(server, f"nv_inference_{phase}_duration_histogram_us_count", **labels) == answered, phase
        summed = metric(server, f"nv_inference_{phase}_summary_us_sum", **labels)
        assert summed == metric(server, f"nv_inference_{phase}_duration_us", **labels), phase
    assert metric(server, "nv_inference_first_response_histogram_ms_count", **labels) == answered
    assert metric(server, "nv_inference_queue_duration_histogram_us_bucket", le="1000000000", **labels) == answered
    reasons = {"REJECTED": full + expired, "OTHER": invalid, "BACKEND": 0, "CANCELED": 0}
    for reason, count in reasons.items():
        assert metric(server, "nv_inference_request_failure", reason=reason, **labels) == count, reason
    drops = {reason: metric(server, "airlock_queue_drops_total", model="same", reason=reason) for reason in ("queue_full", "expired")}
    assert drops == {"queue_full": full, "expired": expired}
    for name in ("request_preprocess_seconds", "request_predict_seconds", "request_postprocess_seconds"):
        assert metric(server, f"{name}_count", model_name="scaler") == seen["request", "scaler", "ok"], name


def check_statistics(server, seen):
    stats = {model["name"]: model for model in server.get("/v2/models/stats").json()["model_stats"]}
    for name in ("same", "scaler"):
        of_model, answered, rows = stats[name], seen["request", name, "ok"], seen["rows", name]
        phases = of_model["inference_stats"]
        assert (phases["success"]["count"], of_model["inference_count"]) == (answered, rows), name
        batches = {batch["batch_size"]: batch["compute_infer"]["count"] for batch in of_model["batch_stats"]}
        executions = sum(batches.values())
        assert of_model["execution_count"] == executions == metric(server, "nv_inference_exec_count", model=name)
        assert sum(size * count for size, count in batches.items()) == rows == metric(server, "nv_inference_count", model=name)
        assert metric(server, "airlock_batch_rows_sum", model=name) == rows
        assert metric(server, "airlock_batch_rows_count", model=name) == executions
        for bound in (1, 2, 4):
            within = sum(count for size, count in batches.items() if size <= bound)
            assert metric(server, "airlock_batch_rows_bucket", model=name, le=str(bound)) == within, (name, bound)
    refused = sum(count for key, count in seen.items() if key[:2] == ("request", "same") and key[2] != "ok")
    assert stats["same"]["inference_stats"]["fail"]["count"] == refused


def check_traffic(server, seen):
    for key, count in seen.items():
        match key:
            case ("http", route, status):
                assert metric(server, "airlock_http_responses_total", route=route, code=status) == count, key
            case ("grpc", method, code):
                assert metric(server, "airlock_grpc_responses_total", method=method, code=code) == count, key
            case ("received", route):
                assert metric(server, "airlock_http_request_bytes_total", route=route) == count, key
            case ("sent", route):
                assert metric(server, "airlock_http_response_bytes_total", route=route) == count, key
    for route in (INFER, PREDICT):
        total = sum(count for key, count in seen.items() if key[:2] == ("http", route))
        assert metric(server, "airlock_http_responses_total", route=route) == total, "and nothing else is counted"
    # Every message has five bytes of gRPC's before it.
    assert metric(server, "airlock_grpc_request_bytes_total", method=UNARY) == seen["grpc received"]
    assert metric(server, "airlock_grpc_response_bytes_total", method=UNARY) == seen["grpc sent"]


def slow_request(server):
    """A connection with a request for the slow model on it."""
    host, port = server.http.removeprefix("http://").split(":")
    tensor = {"name": "INPUT0", "shape": [1], "datatype": "INT32", "data": [7]}
    body = json.dumps({"inputs": [tensor]}).encode()
    connection = socket.create_connection((host, int(port)))
    head = f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection, body


def test_clients_that_leave_and_deadlines_that_pass_are_counted_as_what_they_are(tmp_path):
    write_models(tmp_path / "repository")
    with serving(tmp_path, tmp_path / "repository", FLAGS) as server:
        running, body = slow_request(server)
        flight = {"surface": "http"}
        wait_until("the first to run", lambda: metric(server, "airlock_requests_in_flight", **flight) == 1)
        left = [slow_request(server)[0] for _ in range(5)]
        wait_until("the others to wait", lambda: metric(server, "nv_inference_pending_request_count", model="slow") == 5)
        for connection in left:
            connection.close()
        canceled = {"model": "slow", "reason": "CANCELED"}
        wait_until("five that left", lambda: metric(server, "nv_inference_request_failure", **canceled) == 5)
        late = server.post("/v2/models/slow/infer", body, headers={"X-Request-Timeout-Ms": "50"})
        assert (late.status, late.json()["code"]) == (503, "queue_timeout")
        assert metric(server, "nv_inference_request_failure", model="slow", reason="REJECTED") == 1
        assert running.recv(12) == b"HTTP/1.1 200"
        running.close()
        wait_until("nothing in flight", lambda: metric(server, "airlock_requests_in_flight") == 0)
        answers = {code: metric(server, "airlock_http_responses_total", route=INFER, code=code) for code in ("200", "499", "503")}
        assert answers == {"200": 1, "499": 5, "503": 1}
        codes = {code: metric(server, "airlock_requests_total", model="slow", code=code) for code in ("ok", "cancelled", "queue_timeout")}
        assert codes == {"ok": 1, "cancelled": 5, "queue_timeout": 1}
        drops = {reason: metric(server, "airlock_queue_drops_total", model="slow", reason=reason) for reason in ("abandoned", "expired")}
        assert drops == {"abandoned": 5, "expired": 1}
        for name in ("nv_inference_count", "nv_inference_exec_count", "airlock_batch_rows_sum"):
            assert metric(server, name, model="slow") == 1, f"{name}: who left has not run"


def test_a_reload_with_other_tags_shows_these_alone(tmp_path):
    write_models(tmp_path / "repository")
    config = tmp_path / "repository/same/config.pbtxt"
    with serving(tmp_path, tmp_path / "repository", [*FLAGS, "--settle-ms=20", "--rescan-ms=200"]) as server:
        success = "nv_inference_request_success"
        assert server.post("/v2/models/same/infer", infer_body("INPUT0", 1)).status == 200
        assert metric(server, success, model="same", _team="fraud") == 1
        config.write_text(SAME.replace('"fraud"', '"credit"'))
        wait_until("the new tag", lambda: '_team="credit"' in scrape(server))
        assert '_team="fraud"' not in scrape(server)
        count = len(re.findall(rf"^{success}\{{.*model=\"same\"", scrape(server), re.MULTILINE))
        assert count == 1, "one series of each name"
        config.write_text(SAME.replace('key: "team"', 'key: "no-label"'))
        wait_until("the refusal", lambda: metric(server, "airlock_swaps_total", model="same", outcome="failed_to_build") >= 1)
        assert '_team="credit"' in scrape(server), "what serves keeps its own"


def test_prometheus_finds_nothing_to_say_of_our_series(tmp_path):
    promtool = shutil.which("promtool")
    assert promtool, "promtool is needed (Debian: apt-get install prometheus)"
    write_models(tmp_path / "repository")
    with serving(tmp_path, tmp_path / "repository", FLAGS) as server, connected(server) as stub:
        client = Client(server, stub, 1)
        for step in (client.json, client.binary, client.unary, client.stream, client.predict, client.unknown):
            step()
        server.get("/nowhere")
        page = scrape(server)
    checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False, text=True)
    said = checked.stdout + checked.stderr
    # 1 is a page that cannot be read; 3 is one of which there is something to say, as of Triton's names.
    assert checked.returncode in (0, 3), said
    ours = [line for line in said.splitlines() if not line.startswith("nv_")]
    assert not ours, said
