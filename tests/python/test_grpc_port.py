"""The gRPC port itself: health, reflection, TLS, compression, what must be brought, old connections, and the end."""

import contextlib
import queue
import select
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import trustme
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tritonclient.grpc import service_pb2, service_pb2_grpc

from conftest import ANSWER_TIMEOUT_S, command, environment, send, serving
from grpc_models import add_model, raw_input, triton_input

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def repository(tmp_path):
    add_model(tmp_path / "repository", "fp32", "identity_fp32")
    return tmp_path / "repository"


def stub_of(channel):
    return service_pb2_grpc.GRPCInferenceServiceStub(channel)


def message(width=1):
    raw = b"\x00" * (4 * width)
    inputs = [raw_input("x", "FP32", [1, width])]
    return service_pb2.ModelInferRequest(model_name="fp32", inputs=inputs, raw_input_contents=[raw])


def test_health_follows_readiness_and_open_streams_end_with_the_server(tmp_path, repository):
    with serving(tmp_path, repository, ["--drain-secs", "2"]) as server, grpc.insecure_channel(server.grpc) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "inference.GRPCInferenceService", "any"):
            assert health.Check(health_pb2.HealthCheckRequest(service=service)).status == SERVING
        watch = health.Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == SERVING
        outgoing = queue.Queue()
        stream = stub_of(channel).ModelStreamInfer(iter(outgoing.get, None))
        outgoing.put(message())
        assert next(stream).error_message == ""

        server.process.send_signal(signal.SIGTERM)
        assert next(watch).status == NOT_SERVING
        # Readiness fails already, and everything is served still.
        assert not stub_of(channel).ServerReady(service_pb2.ServerReadyRequest()).ready
        outgoing.put(message())
        assert next(stream).error_message == ""
        # Then the stream ends, though its client keeps it open.
        with pytest.raises(grpc.RpcError) as ended:
            next(stream)
        text = "GRPC server is shutting down and has stopped accepting new requests."
        assert (ended.value.code(), ended.value.details()) == (grpc.StatusCode.UNAVAILABLE, text)
        outgoing.put(None)
        with pytest.raises((grpc.RpcError, StopIteration)):
            next(watch)
        assert server.process.wait(60) == 0


def test_reflection_describes_everything(tmp_path, repository):
    with serving(tmp_path, repository) as server, grpc.insecure_channel(server.grpc) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        services = set(database.get_services())
        assert services >= {"inference.GRPCInferenceService", "grpc.health.v1.Health"}
        pool = DescriptorPool(database)
        service = pool.FindServiceByName("inference.GRPCInferenceService")
        ours = {method.name: (method.input_type.full_name, method.output_type.full_name) for method in service.methods}
        theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
        assert ours == {
            method.name: (method.input_type.full_name, method.output_type.full_name) for method in theirs.methods
        }
        for descriptor in theirs.file.message_types_by_name.values():
            assert fields(pool.FindMessageTypeByName(descriptor.full_name)) == fields(descriptor)
        config = service_pb2.ModelConfigResponse().config.DESCRIPTOR
        assert fields(pool.FindMessageTypeByName(config.full_name)) == fields(config)


def fields(descriptor):
    """Names, numbers and types of a message and of those that it has within."""
    own = {(field.name, field.number, field.type, field.is_repeated) for field in descriptor.fields}
    return own, {nested.name: fields(nested) for nested in descriptor.nested_types}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.crt")
    for name, certificate in (("server", authority.issue_cert("localhost")), ("client", authority.issue_cert("c@x.org"))):
        certificate.private_key_pem.write_to_path(folder / f"{name}.key")
        for pem in certificate.cert_chain_pems:
            pem.write_to_path(folder / f"{name}.crt", append=True)
    trustme.CA().cert_pem.write_to_path(folder / "other.crt")
    return folder


def tls_flags(certificates, *further):
    return ["--grpc-server-cert", certificates / "server.crt", "--grpc-server-key", certificates / "server.key", *further]


def tls_client(server, certificates, root="ca", client=None):
    own = {"private_key": f"{certificates}/{client}.key", "certificate_chain": f"{certificates}/{client}.crt"}
    return triton.InferenceServerClient(
        server.grpc.replace("127.0.0.1", "localhost"),
        ssl=True,
        root_certificates=f"{certificates}/{root}.crt",
        **(own if client else {}),
    )


def assert_infers(client):
    x = np.array([[1.5]], dtype=np.float32)
    assert client.infer("fp32", [triton_input("x", x, "FP32")]).as_numpy("y").tolist() == [[1.5]]


def assert_unreachable(client):
    with pytest.raises(triton.InferenceServerException) as refused:
        client.is_server_live(client_timeout=5)
    assert refused.value.status() in ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED")


def test_tls(tmp_path, repository, certificates):
    flags = tls_flags(certificates, "--grpc-use-ssl=true")
    with serving(tmp_path, repository, flags) as server:
        with tls_client(server, certificates) as client:
            assert_infers(client)
        with tls_client(server, certificates, root="other") as stranger:
            assert_unreachable(stranger)
        with triton.InferenceServerClient(server.grpc) as plain:
            assert_unreachable(plain)


def test_mutual_tls(tmp_path, repository, certificates):
    flags = tls_flags(certificates, "--grpc-use-ssl-mutual=true", "--grpc-root-cert", certificates / "ca.crt")
    with serving(tmp_path, repository, flags) as server:
        with tls_client(server, certificates, client="client") as client:
            assert_infers(client)
        with tls_client(server, certificates) as unknown:
            assert_unreachable(unknown)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--grpc-use-ssl=true"], "gRPC is to be served over TLS, which needs --grpc-server-cert FILE"),
        (
            ["--grpc-use-ssl=true", "--grpc-server-cert", "ABSENT", "--grpc-server-key", "server.key"],
            "reading certificates from ABSENT: ",
        ),
        (
            ["--grpc-use-ssl=true", "--grpc-server-cert", "server.crt", "--grpc-server-key", "server.crt"],
            "reading a private key from server.crt: ",
        ),
        (
            ["--grpc-use-ssl=true", "--grpc-server-cert", "server.crt", "--grpc-server-key", "client.key"],
            "serving gRPC over TLS with server.crt: ",
        ),
        (
            ["--grpc-use-ssl-mutual=true", "--grpc-server-cert", "server.crt", "--grpc-server-key", "server.key"],
            "gRPC is to be served over TLS, which needs --grpc-root-cert FILE",
        ),
        (["--grpc-max-message-size=0"], "grpc_max_message_size is 0; it must be from 1 to 2147483647"),
        (["--grpc-restricted-protocol=helth:k=v"], "there is no API 'helth'"),
    ],
)
def test_wrong_settings_end_the_start_with_a_text(tmp_path, repository, certificates, flags, text):
    started = [str(word) for word in command(repository, tmp_path / "state", tmp_path / "ports.json")]
    ended = subprocess.run([*started, *flags], env=environment(), cwd=certificates, capture_output=True, timeout=60)
    assert ended.returncode == 1 and text in ended.stderr.decode(), ended.stderr.decode()


class Proxy:
    """Passes connections on and counts them and what the server sends."""

    def __init__(self, target):
        host, port = target.split(":")
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.connections, self.received = 0, 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self.pass_on, args=[client], daemon=True).start()

    def pass_on(self, client):
        with contextlib.suppress(OSError), client, socket.create_connection(self.target) as server:
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    if ready is server:
                        self.received += len(data)
                    (client if ready is server else server).sendall(data)

    def close(self):
        self.listener.close()


@pytest.mark.parametrize(("level", "is_compressed"), [("none", False), ("high", True)])
def test_answers_are_compressed_where_it_is_asked_for(tmp_path, repository, level, is_compressed):
    width = 500_000
    flags = ["--grpc-infer-response-compression-level", level]
    with serving(tmp_path, repository, flags) as server, contextlib.closing(Proxy(server.grpc)) as proxy:
        with grpc.insecure_channel(proxy.address) as channel:
            answer = stub_of(channel).ModelInfer(message(width))
            assert answer.raw_output_contents[0] == b"\x00" * (4 * width)
            streamed = list(stub_of(channel).ModelStreamInfer(iter([message(width)])))
            assert streamed[0].infer_response.raw_output_contents[0] == b"\x00" * (4 * width)
    assert (proxy.received < width) == is_compressed
    assert is_compressed or proxy.received > 2 * 4 * width


def test_old_connections_are_replaced_and_no_request_fails(tmp_path, repository):
    flags = ["--grpc-max-connection-age=100", "--grpc-max-connection-age-grace=5000"]
    with serving(tmp_path, repository, flags) as server, contextlib.closing(Proxy(server.grpc)) as proxy:
        with grpc.insecure_channel(proxy.address) as channel:
            deadline = time.monotonic() + ANSWER_TIMEOUT_S
            while proxy.connections < 4:
                stub_of(channel).ModelInfer(message(), wait_for_ready=True)
                assert time.monotonic() < deadline, "the connection is kept"


def test_silent_connections_are_asked_whether_they_live(tmp_path, repository):
    """A peer that answers no ping is left; one that does is kept."""
    flags = ["--grpc-keepalive-time=100", "--grpc-keepalive-timeout=100"]
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    with serving(tmp_path, repository, flags) as server:
        host, port = server.grpc.split(":")
        with grpc.insecure_channel(server.grpc) as channel, socket.create_connection((host, int(port))) as mute:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert next(watch).status == SERVING
            mute.settimeout(ANSWER_TIMEOUT_S)
            mute.sendall(preface)
            with contextlib.suppress(ConnectionResetError):
                while mute.recv(1 << 12):
                    pass
            assert watch.is_active()
            stub_of(channel).ModelInfer(message())


def test_what_is_restricted_must_be_brought(tmp_path, repository):
    flags = ["--grpc-restricted-protocol=model-repository,inference:admin=let me in"]
    key = "triton-grpc-protocol-admin"
    text = f"This protocol is restricted, expecting header '{key}'"
    with serving(tmp_path, repository, flags) as server, grpc.insecure_channel(server.grpc) as channel:
        stub = stub_of(channel)
        index = service_pb2.RepositoryIndexRequest()
        calls = [
            lambda **options: stub.ModelInfer(message(), **options),
            lambda **options: list(stub.ModelStreamInfer(iter([message()]), **options)),
            lambda **options: stub.RepositoryIndex(index, **options),
        ]
        for call in calls:
            for metadata in ([], [(key, "let me")], [("admin", "let me in")]):
                with pytest.raises(grpc.RpcError) as refused:
                    call(metadata=metadata)
                assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.UNAVAILABLE, text)
            call(metadata=[(key, "let me in")])
        assert stub.ServerReady(service_pb2.ServerReadyRequest()).ready


def test_a_port_that_is_not_wanted_is_not_opened(tmp_path, repository):
    with serving(tmp_path, repository, ["--allow-grpc=false"]) as server:
        assert server.grpc == ""


def test_limits_are_shown(tmp_path, repository):
    flags = ["--grpc-max-message-size=1000000", "--grpc-stream-requests=7", "--max-in-flight=9", "--grpc-keepalive-time=5000"]
    with serving(tmp_path, repository, flags) as server:
        page = send(urllib.request.Request(server.metrics + "/metrics")).body.decode()
        for name, value in (
            ("grpc_max_message_size_bytes", 1_000_000),
            ("grpc_stream_requests", 7),
            ("grpc_connection_streams", 9),
            ("grpc_keepalive_time_seconds", 5),
            ("grpc_keepalive_timeout_seconds", 20),
        ):
            assert f'airlock_limit{{name="{name}"}} {value}\n' in page
