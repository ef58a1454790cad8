"""ModelStreamInfer, cancellation and deadlines.

Triton's own switch for tests makes requests wait: with TRITONSERVER_DELAY_SCHEDULER a version runs nothing before so many
requests have waited for it once, so what is in the queue stays there until the test says otherwise."""

import asyncio
import queue
import re
import time
import urllib.request
from pathlib import Path

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from conftest import ANSWER_TIMEOUT_S, send, serving
from grpc_models import add_model, assert_same_bits, raw_input, triton_input

HELD = 4
LIMITS = """max_batch_size: 8 dynamic_batching { default_queue_policy {
    default_timeout_microseconds: 60000000 allow_timeout_override: true max_queue_size: 2 } }"""


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    repository = tmp_path_factory.mktemp("repository")
    add_model(repository, "fp32", "identity_fp32")
    add_model(repository, "int64", "identity_int64")
    with serving(tmp_path_factory.mktemp("airlock"), repository) as server:
        yield server


@pytest.fixture
def holding(tmp_path):
    """A server whose models run nothing before HELD requests wait for them."""
    repository = tmp_path / "repository"
    add_model(repository, "fp32", "identity_fp32", "max_batch_size: 8")
    add_model(repository, "limited", "identity_fp32", LIMITS)
    with serving(tmp_path, repository, variables={"TRITONSERVER_DELAY_SCHEDULER": str(HELD)}) as server:
        yield server


@pytest.fixture
def stub(request):
    server = request.getfixturevalue("holding" if "holding" in request.fixturenames else "running")
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def message(number, model="fp32", width=1, **fields):
    data_type, dtype = ("INT64", np.int64) if model == "int64" else ("FP32", np.float32)
    raw = np.full((1, width), number, dtype=dtype).tobytes()
    return service_pb2.ModelInferRequest(
        model_name=model, id=str(number), inputs=[raw_input("x", data_type, [1, width])], raw_input_contents=[raw], **fields
    )


def metric(server, name, /, **labels):
    page = send(urllib.request.Request(server.metrics + "/metrics")).body.decode()
    total = 0
    for series, value in re.findall(rf"^{name}(\{{[^}}]*\}})? (\S+)$", page, re.MULTILINE):
        if all(f'{key}="{wanted}"' in series for key, wanted in labels.items()):
            total += float(value)
    return total


def wait_until(what, holds):
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < deadline:
        if holds():
            return
    pytest.fail(f"waited in vain for {what}")


def wait_for_queue(server, size, model="fp32"):
    wait_until(f"{size} waiting", lambda: metric(server, "airlock_queue_requests", model=model) == size)


def assert_nothing_is_held(server):
    wait_until("no request in flight", lambda: metric(server, "airlock_requests_in_flight") == 0)
    wait_until("no request waiting", lambda: metric(server, "airlock_queue_requests") == 0)


def test_answers_come_in_the_order_of_the_requests(stub):
    models = ["fp32", "int64"]
    requests = [message(number, models[number % 2], width=1 + number % 50) for number in range(300)]
    answers = list(stub.ModelStreamInfer(iter(requests)))
    assert len(answers) == len(requests)
    for request, answer in zip(requests, answers, strict=True):
        response = answer.infer_response
        assert (answer.error_message, response.id, response.model_name) == ("", request.id, request.model_name)
        assert response.raw_output_contents[0] == request.raw_input_contents[0]
        assert response.parameters["triton_final_response"].bool_param is True


def test_a_refused_request_is_answered_with_its_text_and_the_stream_goes_on(stub):
    answers = list(stub.ModelStreamInfer(iter([message(1), message(2, "absent"), message(3)])))
    texts = [answer.error_message for answer in answers]
    assert texts == ["", "Request for unknown model: 'absent' is not found", ""]
    assert [answer.infer_response.id for answer in answers] == ["1", "2", "3"]
    assert all(answer.infer_response.parameters["triton_final_response"].bool_param for answer in answers)


def test_where_it_is_asked_for_the_first_refusal_ends_the_stream(stub):
    metadata = [("triton_grpc_error", "true")]
    call = stub.ModelStreamInfer(iter([message(1), message(2, "absent"), message(3)]), metadata=metadata)
    assert next(call).infer_response.id == "1"
    with pytest.raises(grpc.RpcError) as ended:
        next(call)
    assert ended.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert ended.value.details() == "Request for unknown model: 'absent' is not found"


def test_a_stream_of_nothing_ends_well(stub):
    assert list(stub.ModelStreamInfer(iter([]))) == []


def test_a_stream_stays_open_between_requests(stub):
    outgoing = queue.Queue()
    call = stub.ModelStreamInfer(iter(outgoing.get, None))
    for number in range(5):
        outgoing.put(message(number))
        assert next(call).infer_response.id == str(number)
    outgoing.put(None)
    assert list(call) == [] and call.code() == grpc.StatusCode.OK


def test_tritons_clients_stream(running):
    arrays = [np.full((1, 3), number, dtype=np.float32) for number in range(20)]
    answers = queue.Queue()
    with triton.InferenceServerClient(running.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for number, array in enumerate(arrays):
            inputs = [triton_input("x", array, "FP32")]
            client.async_stream_infer("fp32", inputs, request_id=str(number), enable_empty_final_response=True)
        for array in arrays:
            result, error = answers.get(timeout=ANSWER_TIMEOUT_S)
            assert error is None
            assert_same_bits(result.as_numpy("y"), array)
        client.stop_stream()

    async def ask():
        async def requests():
            for array in arrays:
                yield {"model_name": "fp32", "inputs": [triton_input("x", array, "FP32")]}

        async with triton_aio.InferenceServerClient(running.grpc) as client:
            number = 0
            async for result, error in client.stream_infer(requests()):
                assert error is None
                assert_same_bits(result.as_numpy("y"), arrays[number])
                number += 1
            assert number == len(arrays)

    asyncio.run(ask())


def test_the_requests_of_one_stream_share_a_batch(stub, holding):
    answers = list(stub.ModelStreamInfer(message(number) for number in range(HELD)))
    assert [answer.infer_response.id for answer in answers] == ["0", "1", "2", "3"]
    assert metric(holding, "airlock_batch_rows_count", model="fp32") == 1
    assert metric(holding, "airlock_batch_rows_sum", model="fp32") == HELD


def test_a_client_that_cancels_leaves_the_queue(stub, holding):
    call = stub.ModelInfer.future(message(1))
    wait_for_queue(holding, 1)
    call.cancel()
    assert_nothing_is_held(holding)
    assert metric(holding, "airlock_requests_total", model="fp32", code="cancelled") == 1
    # Had it stayed, three more would have been enough for a run.
    calls = [stub.ModelInfer.future(message(number)) for number in range(3)]
    wait_for_queue(holding, 3)
    calls.append(stub.ModelInfer.future(message(3)))
    assert [call.result(ANSWER_TIMEOUT_S).id for call in calls] == ["0", "1", "2", "3"]
    assert metric(holding, "airlock_batch_rows_sum", model="fp32") == 4


def test_a_stream_that_is_cancelled_leaves_nothing_behind(stub, holding):
    outgoing = queue.Queue()
    call = stub.ModelStreamInfer(iter(outgoing.get, None))
    for number in range(3):
        outgoing.put(message(number))
    wait_for_queue(holding, 3)
    call.cancel()
    assert_nothing_is_held(holding)
    assert metric(holding, "airlock_requests_total", model="fp32", code="cancelled") == 3
    outgoing.put(None)


def test_deadlines_reach_the_queue(stub, holding):
    with pytest.raises(grpc.RpcError) as late:
        stub.ModelInfer(message(1), timeout=0.2)
    assert late.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert_nothing_is_held(holding)
    with pytest.raises(grpc.RpcError) as late:
        list(stub.ModelStreamInfer(iter([message(1)]), timeout=0.2))
    assert late.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert_nothing_is_held(holding)
    assert metric(holding, "airlock_batch_rows_count") == 0


def refusal(call, *arguments, **options):
    with pytest.raises(grpc.RpcError) as refused:
        call(*arguments, **options)
    return refused.value


def test_a_requests_own_timeout_ends_its_wait(stub, holding):
    waiting = message(1, "limited")
    waiting.parameters["timeout"].int64_param = 1_000
    refused = refusal(stub.ModelInfer, waiting)
    assert (refused.code(), refused.details()) == (grpc.StatusCode.UNAVAILABLE, "Request timeout expired")
    assert metric(holding, "airlock_requests_total", model="limited", code="queue_timeout") == 1


def test_a_full_queue_refuses(stub, holding):
    calls = [stub.ModelInfer.future(message(number, "limited")) for number in range(2)]
    wait_for_queue(holding, 2, "limited")
    refused = refusal(stub.ModelInfer, message(2, "limited"))
    assert (refused.code(), refused.details()) == (grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size")
    metadata = dict(refused.trailing_metadata())
    assert (metadata["airlock-code"], metadata["grpc-retry-pushback-ms"]) == ("queue_full", "1000")
    for call in calls:
        call.cancel()
    assert_nothing_is_held(holding)


def test_no_more_than_the_server_may_hold(tmp_path):
    repository = tmp_path / "repository"
    add_model(repository, "fp32", "identity_fp32", "max_batch_size: 8")
    variables = {"TRITONSERVER_DELAY_SCHEDULER": "2"}
    text = "the server holds 1 requests already; raise --max-in-flight or send fewer at once"
    with (
        serving(tmp_path, repository, ["--max-in-flight", "1"], variables) as server,
        grpc.insecure_channel(server.grpc) as channel,
        grpc.insecure_channel(server.grpc, [("grpc.use_local_subchannel_pool", 1)]) as other,
    ):
        held = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(message(1))
        wait_for_queue(server, 1)
        stub = service_pb2_grpc.GRPCInferenceServiceStub(other)
        refused = refusal(stub.ModelInfer, message(2))
        assert (refused.code(), refused.details()) == (grpc.StatusCode.UNAVAILABLE, text)
        assert [answer.error_message for answer in stub.ModelStreamInfer(iter([message(3)]))] == [text]
        assert metric(server, "airlock_requests_total", code="overloaded") == 2
        held.cancel()
        assert_nothing_is_held(server)


def test_a_stream_works_on_no_more_than_it_may(tmp_path):
    repository = tmp_path / "repository"
    add_model(repository, "fp32", "identity_fp32", "max_batch_size: 8")
    variables = {"TRITONSERVER_DELAY_SCHEDULER": "3"}
    with (
        serving(tmp_path, repository, ["--grpc-stream-requests", "2"], variables) as server,
        grpc.insecure_channel(server.grpc) as channel,
    ):
        assert metric(server, "airlock_limit", name="grpc_stream_requests") == 2
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        call = stub.ModelStreamInfer(message(number) for number in range(4))
        wait_for_queue(server, 2)
        # The third of the queue comes from elsewhere; what the stream has more waits until there is room again.
        assert metric(server, "airlock_requests_in_flight") == 2
        assert stub.ModelInfer(message(9)).id == "9"
        assert [answer.infer_response.id for answer in call] == ["0", "1", "2", "3"]
        assert metric(server, "airlock_batch_rows_sum", model="fp32") == 5


def serving_threads(pid):
    """Clock ticks that each serving thread has run."""
    ticks = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, fields = (task / "comm").read_text().strip(), (task / "stat").read_text().rpartition(")")[2].split()
        if name == "serve":
            ticks[task.name] = int(fields[11]) + int(fields[12])
    return ticks


def test_the_streams_of_one_connection_use_every_serving_thread(tmp_path):
    repository = tmp_path / "repository"
    add_model(repository, "fp32", "identity_fp32")
    with (
        serving(tmp_path, repository, ["--serving-threads", "2"]) as server,
        grpc.insecure_channel(server.grpc, [("grpc.max_receive_message_length", -1)]) as channel,
    ):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        large = message(1, width=500_000)
        before = serving_threads(server.process.pid)
        assert len(before) == 2

        def all_have_worked():
            for call in [stub.ModelInfer.future(large) for _ in range(16)]:
                call.result(ANSWER_TIMEOUT_S)
            now = serving_threads(server.process.pid)
            return all(now[thread] >= before[thread] + 5 for thread in before)

        wait_until("both threads to have worked", all_have_worked)
