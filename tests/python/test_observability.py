"""The access log, trace context, spans and the settings of traces and of the log, against the real server. Spans are read
by OpenTelemetry's own messages, settings are changed by Triton's own clients."""

import asyncio
import contextlib
import gzip
import http.server
import json
import queue
import re
import threading
import urllib.request

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from conftest import ROOT, send, serving
from grpc_models import add_scaler_with_plugin
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
BODY = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}]}).encode()
PATIENCE_S = 60


def write_models(folder):
    """One model, over and over: what is looked at here is what is said about requests."""
    for name in ("identity", "other"):
        version = folder / name / "1"
        version.mkdir(parents=True)
        version.joinpath("model.onnx").write_bytes((ROOT / "tests/fixtures/models/identity_fp32.onnx").read_bytes())
        version.parent.joinpath("config.pbtxt").write_text("max_batch_size: 8\n")


@contextlib.contextmanager
def observed(folder, *flags):
    write_models(folder / "models")
    with serving(folder, folder / "models", flags) as running:
        yield running


def infer(server, headers=None, model="identity", body=BODY):
    return server.post(f"/v2/models/{model}/infer", body, headers=headers)


def grpc_inputs():
    tensor = triton_grpc.InferInput("x", [2, 3], "FP32")
    tensor.set_data_from_numpy(np.ones((2, 3), np.float32))
    return [tensor]


def wait_for_lines(path, count):
    """Lines are written by a thread of their own: looks until there are as many."""
    pause = threading.Event()
    for _ in range(PATIENCE_S * 20):
        lines = [line for line in path.read_text().splitlines() if line.startswith('{"time":')]
        if len(lines) >= count:
            return [json.loads(line) for line in lines]
        pause.wait(0.05)
    pytest.fail(f"{path} has not {count} lines: {path.read_text()}")


def wait_for_metric(server, line):
    """Counts follow what they count: looks until the page has the line."""
    pause = threading.Event()
    for _ in range(PATIENCE_S * 20):
        text = send(urllib.request.Request(server.metrics + "/metrics")).body.decode()
        if line in text.splitlines():
            return
        pause.wait(0.05)
    pytest.fail(f"no {line} in:\n{text}")


def test_a_line_for_each_answer(tmp_path):
    log = tmp_path / "access.log"
    with observed(tmp_path, f"--access-log={log}") as server:
        given = infer(server, {"X-Request-Id": "from-a-header", "traceparent": f"00-{TRACE}-{PARENT}-01"})
        named = infer(server, {"X-Request-Id": "from-a-header"}, body=BODY.replace(b'{"inputs"', b'{"id": "own", "inputs"'))
        made = infer(server)
        wrong = infer(server, body=b"{}")
        unknown = infer(server, model="absent")
        text = json.dumps({"x": [[1, 2, 3]]}).encode()
        generated = server.post("/v2/models/identity/generate", text)
        columns = server.post("/v1/models/identity:predict", b'{"instances": [[1, 2, 3]]}')
        server.get("/v2/models/identity")
        with triton_grpc.InferenceServerClient(server.grpc) as client:
            client.infer("identity", grpc_inputs(), request_id="over-grpc")
            with pytest.raises(InferenceServerException):
                client.infer("absent", grpc_inputs())
            answers = queue.Queue()
            client.start_stream(lambda result, error: answers.put((result, error)))
            client.async_stream_infer("identity", grpc_inputs(), request_id="in-a-stream")
            client.async_stream_infer("identity", [], request_id="wrong-in-a-stream")
            assert [answers.get(timeout=PATIENCE_S)[1] is None for _ in range(2)] == [True, False]
            client.stop_stream()
        lines = wait_for_lines(log, 11)
    ids = [answer.headers["x-request-id"] for answer in (given, named, made, wrong, unknown, generated, columns)]
    assert ids[:2] == ["from-a-header", "own"] and len(set(ids)) == 7
    assert [line["request_id"] for line in lines[:7]] == ids
    assert [answer.status for answer in (given, wrong, unknown)] == [200, 400, 400]
    infer_route, rpc = "/v2/models/{model}/infer", "/inference.GRPCInferenceService/Model"
    told = [(line["surface"], line["route"], line["status"], line["outcome"], line.get("model")) for line in lines]
    assert told[:9] == [
        ("http", infer_route, 200, "ok", "identity"),
        ("http", infer_route, 200, "ok", "identity"),
        ("http", infer_route, 200, "ok", "identity"),
        ("http", infer_route, 400, "malformed_request", "identity"),
        ("http", infer_route, 400, "model_not_found", None),
        ("http", "/v2/models/{model}/generate", 200, "ok", "identity"),
        ("http", "/v1/models/{model}:predict", 200, "ok", "identity"),
        ("grpc", f"{rpc}Infer", 0, "ok", "identity"),
        ("grpc", f"{rpc}Infer", 3, "model_not_found", None),
    ]
    streamed = {line["request_id"]: line for line in lines[9:]}
    assert streamed["in-a-stream"]["outcome"] == "ok" and streamed["in-a-stream"]["route"] == f"{rpc}StreamInfer"
    assert streamed["wrong-in-a-stream"]["outcome"] == "invalid_tensors"
    first = lines[0]
    assert first["trace_id"] == TRACE and "trace_id" not in lines[2]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["time"])
    assert (first["version"], first["rows"], first["bytes_in"], first["bytes_out"]) == (1, 2, len(BODY), len(given.body))
    assert first["batch_rows"] >= 2 and "generation" not in first
    assert 0 <= first["queue_us"] + first["compute_us"] <= first["total_us"]
    assert lines[7]["bytes_in"] > 24 and lines[7]["bytes_out"] > 24


def test_a_line_for_a_plugins_answer(tmp_path):
    log = tmp_path / "access.log"
    add_scaler_with_plugin(tmp_path / "models", "scaler")
    with observed(tmp_path, f"--access-log={log}") as server:
        answer = server.post("/v1/models/scaler:predict", b'{"x": [1, 2, 3, 4]}', headers={"X-Request-Id": "p-1"})
        refused = server.post("/v1/models/scaler/versions/1:predict", b"no JSON")
        lines = wait_for_lines(log, 2)
    assert answer.status == 200 and answer.headers["x-request-id"] == "p-1", answer
    first, second = lines
    assert (first["request_id"], first["generation"], first["version"], first["rows"]) == ("p-1", 1, 1, 1)
    stages = ("preprocess_us", "queue_us", "compute_us", "postprocess_us")
    assert sum(first[stage] for stage in stages) <= first["total_us"]
    assert (second["route"], second["status"]) == ("/v1/models/{model}/versions/{version}:predict", refused.status)
    assert second["outcome"] == refused.json()["code"] and "compute_us" not in second and "preprocess_us" in second


def test_the_log_on_standard_output_and_off(tmp_path):
    for name, flag, count in (("printed", "--access-log=-", 1), ("off", "--access-log=off", 0)):
        folder = tmp_path / name
        folder.mkdir()
        with observed(folder, flag) as server:
            assert infer(server).headers["x-request-id"]
        lines = [line for line in (folder / "log").read_text().splitlines() if '"surface":"http"' in line]
        assert len(lines) == count, name


def test_a_log_that_cannot_be_written_costs_its_lines(tmp_path):
    with observed(tmp_path, "--access-log=/dev/full") as server:
        assert [infer(server).status for _ in range(5)] == [200] * 5
        wait_for_metric(server, "airlock_access_log_lines_dropped_total 5")


def test_the_trace_of_the_client_goes_on(tmp_path):
    with observed(tmp_path) as server:
        for flags in ("00", "01"):
            state = {"traceparent": f"00-{TRACE}-{PARENT}-{flags}", "tracestate": "vendor=1,other=2"}
            answer = infer(server, state)
            _, trace, span, own_flags = answer.headers["traceparent"].split("-")
            assert (trace, own_flags, answer.headers["tracestate"]) == (TRACE, flags, "vendor=1,other=2")
            assert re.fullmatch("[0-9a-f]{16}", span) and span != PARENT
        for malformed in ("", "00-xyz", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01"):
            answer = infer(server, {"traceparent": malformed, "tracestate": "vendor=1"})
            assert answer.status == 200 and not {"traceparent", "tracestate"} & set(answer.headers), malformed
        with grpc.insecure_channel(server.grpc) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            metadata = (("traceparent", f"00-{TRACE}-{PARENT}-01"), ("x-request-id", "g-1"))
            for name, ready in (("identity", True), ("absent", False)):
                call = stub.ModelInfer.with_call if ready else stub.ModelInfer.future
                message = service_pb2.ModelInferRequest(model_name=name)
                message.inputs.add(name="x", datatype="FP32", shape=[1, 1]).contents.fp32_contents.append(1)
                answered = call(message, metadata=metadata)
                answered = answered[1] if ready else answered
                told = dict(answered.initial_metadata()) | dict(answered.trailing_metadata())
                assert told["x-request-id"] == "g-1" and told["traceparent"].split("-")[1] == TRACE


class Collector(http.server.ThreadingHTTPServer):
    """Stands in for OpenTelemetry's collector: keeps the spans that are posted to it."""

    def __init__(self, status=200):
        self.spans, self.posts, self.status = queue.Queue(), queue.Queue(), status
        super().__init__(("127.0.0.1", 0), Post)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def take(self, count):
        return [self.spans.get(timeout=PATIENCE_S) for _ in range(count)]


class Post(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
        self.server.posts.put((self.path, self.headers["Content-Type"], request))
        if self.server.status == 200:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        self.server.spans.put(span)
        answer = trace_service_pb2.ExportTraceServiceResponse().SerializeToString()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def collecting(status=200):
    collector = Collector(status)
    try:
        yield collector
    finally:
        collector.shutdown()
        collector.server_close()


def trace_flags(collector, *further):
    url = f"opentelemetry,url=http://127.0.0.1:{collector.server_address[1]}/v1/traces"
    return [f"--trace-config={text}" for text in ("mode=opentelemetry", url, *further)]


def attributes(of):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in of.attributes}


def test_a_span_for_each_request_and_each_stage(tmp_path):
    prompt = ("rate=1", "opentelemetry,bsp_schedule_delay=10", "opentelemetry,resource=service.name=gateway")
    with collecting() as collector, observed(tmp_path, *trace_flags(collector, *prompt)) as server:
        answer = infer(server, {"X-Request-Id": "r-1", "traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "v=1"})
        own, waited, computed = collector.take(3)
        path, content_type, request = collector.posts.get(timeout=PATIENCE_S)
        begun = infer(server)
        root = collector.take(3)[0]
        with triton_grpc.InferenceServerClient(server.grpc) as client, pytest.raises(InferenceServerException):
            client.infer("absent", grpc_inputs())
        (failed,) = collector.take(1)
        unsampled = infer(server, {"traceparent": f"00-{TRACE}-{PARENT}-00"})
        infer(server, {"X-Request-Id": "after"})
        assert attributes(collector.take(3)[0])["airlock.request_id"] == "after", "what is not sampled is not sent"
        wait_for_metric(server, 'airlock_trace_spans_total{outcome="exported"} 10')
    assert (path, content_type) == ("/v1/traces", "application/x-protobuf")
    assert attributes(request.resource_spans[0].resource)["service.name"] == "gateway"
    assert {span.trace_id.hex() for span in (own, waited, computed)} == {TRACE}
    assert own.parent_span_id.hex() == PARENT and own.trace_state == "v=1"
    assert answer.headers["traceparent"] == f"00-{TRACE}-{own.span_id.hex()}-01"
    assert (own.name, own.kind) == ("POST /v2/models/{model}/infer", trace_pb2.Span.SPAN_KIND_SERVER)
    assert (waited.name, computed.name) == ("queue", "compute")
    assert waited.parent_span_id == computed.parent_span_id == own.span_id
    assert len({span.span_id for span in (own, waited, computed)}) == 3
    assert own.start_time_unix_nano <= waited.start_time_unix_nano <= waited.end_time_unix_nano
    assert waited.end_time_unix_nano == computed.start_time_unix_nano
    assert computed.end_time_unix_nano <= own.end_time_unix_nano
    assert attributes(own).items() >= {
        "http.request.method": "POST", "http.route": "/v2/models/{model}/infer", "http.response.status_code": 200,
        "airlock.request_id": "r-1", "airlock.outcome": "ok", "airlock.model": "identity", "airlock.version": 1,
        "airlock.rows": 2,
    }.items()  # fmt: skip
    assert root.parent_span_id == b"" and root.trace_id.hex() != TRACE
    assert begun.headers["traceparent"] == f"00-{root.trace_id.hex()}-{root.span_id.hex()}-01"
    assert failed.name == "inference.GRPCInferenceService/ModelInfer" and failed.status.code == trace_pb2.Status.STATUS_CODE_ERROR
    assert attributes(failed).items() >= {"rpc.grpc.status_code": 3, "airlock.outcome": "model_not_found"}.items()
    assert unsampled.headers["traceparent"].endswith("-00")


def test_spans_are_sent_at_the_stop(tmp_path):
    with collecting() as collector:
        with observed(tmp_path, *trace_flags(collector, "rate=1")) as server:
            infer(server, {"X-Request-Id": "last"})
        assert attributes(collector.take(3)[0])["airlock.request_id"] == "last"


def test_a_collector_that_refuses_costs_its_spans(tmp_path):
    flags = ("rate=1", "opentelemetry,bsp_schedule_delay=10")
    with collecting(status=503) as collector, observed(tmp_path, *trace_flags(collector, *flags)) as server:
        assert infer(server).status == 200
        collector.posts.get(timeout=PATIENCE_S)
        wait_for_metric(server, 'airlock_trace_spans_total{outcome="failed"} 3')
    assert (tmp_path / "log").read_text().count("traces do not reach the collector") == 1


TRACE_SETTINGS = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}
LOG_SETTINGS = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "json",
}


def plain_trace(settings):
    """Settings over gRPC as they are over HTTP."""
    values = {key: list(value.value) for key, value in settings.settings.items()}
    return {key: value if key == "trace_level" else value[0] for key, value in values.items()}


def plain_log(settings):
    return {key: getattr(value, value.WhichOneof("parameter_choice")) for key, value in settings.settings.items()}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("observed")
    with observed(folder, "--grpc-header-forward-pattern=^x-tenant|^priority$") as running:
        yield running


def clients(server):
    same = lambda settings: settings  # noqa: E731
    yield triton_http.InferenceServerClient(server.http.removeprefix("http://")), same, same
    yield triton_grpc.InferenceServerClient(server.grpc), plain_trace, plain_log


def test_trace_settings_by_tritons_clients(server):
    for client, trace, _ in clients(server):
        assert trace(client.get_trace_settings()) == trace(client.get_trace_settings("identity")) == TRACE_SETTINGS
        changed = trace(client.update_trace_settings("identity", {"trace_rate": "7", "trace_level": ["TIMESTAMPS", "TENSORS"]}))
        of_model = TRACE_SETTINGS | {"trace_rate": "7", "trace_level": ["TIMESTAMPS", "TENSORS"]}
        assert changed == trace(client.get_trace_settings("identity")) == of_model
        assert trace(client.get_trace_settings("other")) == trace(client.get_trace_settings()) == TRACE_SETTINGS
        of_all = trace(client.update_trace_settings(settings={"trace_rate": "3", "trace_count": "9"}))
        assert of_all == TRACE_SETTINGS | {"trace_rate": "3", "trace_count": "9"}
        assert trace(client.get_trace_settings("identity")) == of_model | {"trace_count": "9"}
        for text, model, settings in (
            ("trace file location can not be updated through network protocol", None, {"trace_file": "f"}),
            ("Unable to parse 'trace_rate', got: x", "identity", {"trace_rate": "x"}),
            ("Expect only one trace level 'OFF' is specified", None, {"trace_level": ["OFF", "TIMESTAMPS"]}),
            ("unknown trace setting 'colour'", None, {"colour": "red"}),
            ("Request for unknown model : absent", "absent", {"trace_rate": "1"}),
        ):
            with pytest.raises(InferenceServerException, match=re.escape(text)):
                client.update_trace_settings(model, settings)
        with pytest.raises(InferenceServerException, match="Request for unknown model : absent"):
            client.get_trace_settings("absent")
        client.update_trace_settings("identity", {"trace_rate": None, "trace_level": None})
        client.update_trace_settings(settings={"trace_rate": None, "trace_count": None})
        assert trace(client.get_trace_settings("identity")) == TRACE_SETTINGS


def test_log_settings_by_tritons_clients(server):
    for client, _, log in clients(server):
        assert log(client.get_log_settings()) == LOG_SETTINGS
        changed = log(client.update_log_settings({"log_verbose_level": 1, "log_format": "ISO8601"}))
        assert changed == log(client.get_log_settings()) == LOG_SETTINGS | {"log_verbose_level": 1, "log_format": "ISO8601"}
        for text, settings in (
            ("log file location can not be updated through network protocol", {"log_file": "f"}),
            ("invalid argument for --log_format, got: xml", {"log_format": "xml"}),
            ("unknown log setting 'colour'", {"colour": True}),
        ):
            with pytest.raises(InferenceServerException, match=re.escape(text)):
                client.update_log_settings({"log_info": False} | settings)
        back = {"log_verbose_level": 0, "log_format": "json"}
        assert log(client.update_log_settings(back)) == LOG_SETTINGS, "what was refused has changed nothing"


def test_settings_by_tritons_asyncio_clients(server):
    async def ask(module, address, trace, log):
        async with module.InferenceServerClient(address) as client:
            assert trace(await client.get_trace_settings("identity")) == TRACE_SETTINGS
            changed = trace(await client.update_trace_settings("identity", {"log_frequency": "5"}))
            assert changed == TRACE_SETTINGS | {"log_frequency": "5"}
            await client.update_trace_settings("identity", {"log_frequency": None})
            assert log(await client.get_log_settings()) == LOG_SETTINGS
            assert log(await client.update_log_settings({"log_warning": False})) == LOG_SETTINGS | {"log_warning": False}
            await client.update_log_settings({"log_warning": True})

    same = lambda settings: settings  # noqa: E731
    asyncio.run(ask(triton_http_aio, server.http.removeprefix("http://"), same, same))
    asyncio.run(ask(triton_grpc_aio, server.grpc, plain_trace, plain_log))


def test_values_of_the_wrong_kind(server):
    for path, body, text in (
        ("/v2/logging", b'{"log_info": 1}', "attempt to access JSON non-boolean as boolean"),
        ("/v2/logging", b'{"log_verbose_level": true}', "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ("/v2/logging", b'{"log_format": 1}', "attempt to access JSON non-string as string"),
        ("/v2/trace/setting", b'{"trace_rate": 1}', "attempt to access JSON non-string as string"),
        ("/v2/trace/setting", b'{"trace_level": "OFF"}', "attempt to access JSON non-array as array"),
        ("/v2/trace/setting", b"[", "failed to parse the request JSON buffer: "),
    ):
        answer = server.post(path, body)
        assert answer.status == 400 and answer.json()["error"].startswith(text), (body, answer)
    assert server.get("/v2/models/identity/versions/1/trace/setting").status == 404
    assert server.get("/v2/logging").json() == LOG_SETTINGS


def test_the_running_log_follows_its_settings(tmp_path):
    with observed(tmp_path, "--log-format=json") as server:
        log = tmp_path / "log"

        def warned():
            """A line of the level WARN: levels of traces that nobody takes."""
            before = len(log.read_text())
            for level in (["TIMESTAMPS"], None):
                answer = server.post("/v2/trace/setting", json.dumps({"trace_level": level}).encode())
                assert answer.status == 200
            pause = threading.Event()
            for _ in range(20):
                if text := log.read_text()[before:]:
                    return text
                pause.wait(0.05)
            return ""

        assert '"level":"WARN"' in warned()
        assert server.post("/v2/logging", b'{"log_format": "ISO8601"}').json()["log_format"] == "ISO8601"
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ W ", warned())
        server.post("/v2/logging", b'{"log_info": false, "log_warning": false}')
        assert warned() == ""
        server.post("/v2/logging", b'{"log_warning": true, "log_format": "default"}')
        assert re.match(r"W\d{4} \d\d:\d\d:\d\d\.\d{6} ", warned())


def test_metadata_become_parameters(server):
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        client.infer("identity", grpc_inputs(), headers={"x-tenant": "7"})
        refused = "Header 'priority' is reserved for Triton usage and cannot be forwarded."
        with pytest.raises(InferenceServerException, match=re.escape(refused)):
            client.infer("identity", grpc_inputs(), headers={"priority": "7"})
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put(error), headers={"priority": "7"})
        client.async_stream_infer("identity", grpc_inputs())
        assert refused in str(answers.get(timeout=PATIENCE_S))
        client.stop_stream()
