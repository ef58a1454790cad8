"""Starts the real server, on free ports, and says where it listens: once per run with the sample repository, and with
others where a test asks for it.

Tests are run by `cargo xtask test`, which builds the server and sets AIRLOCK_BIN, AIRLOCK_ROOT and ORT_DYLIB_PATH. Here
is no Airlock code but the binary: what is compared with it comes from other hands.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("AIRLOCK_ROOT") or Path(__file__).resolve().parents[2])
ANSWER_TIMEOUT_S = 60
# Looks at a starting server, 0.1 s apart: loading and compiling take seconds, on a busy machine many.
START_LOOKS_MAX = 3000


@dataclasses.dataclass(frozen=True)
class Answer:
    """An HTTP answer, refusals included."""

    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


@dataclasses.dataclass(frozen=True)
class Server:
    """A running server's base addresses, and the one way in which the tests call it."""

    http: str
    metrics: str
    model_repository: Path

    def get(self, path):
        return send(urllib.request.Request(self.http + path))

    def post(self, path, body, content_type="application/json", headers=None):
        headers = {"Content-Type": content_type, **(headers or {})}
        return send(urllib.request.Request(self.http + path, data=body, headers=headers))


def send(request):
    # Loopback only: a proxy from the environment is never asked.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=ANSWER_TIMEOUT_S) as answer:
            return Answer(answer.status, lower_keys(answer.headers), answer.read())
    except urllib.error.HTTPError as refusal:
        with refusal:
            return Answer(refusal.code, lower_keys(refusal.headers), refusal.read())


def lower_keys(headers):
    return {name.lower(): value for name, value in headers.items()}


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("airlock"), ROOT / "model_repository") as running:
        yield running


@pytest.fixture(scope="session")
def v2_server(tmp_path_factory):
    """Serves the models of v2_repository."""
    import v2_repository

    folder = tmp_path_factory.mktemp("v2")
    v2_repository.write(folder / "models")
    with serving(folder, folder / "models", ["--http-header-forward-pattern=^x-tenant|^priority$"]) as running:
        yield running


@contextlib.contextmanager
def serving(folder, repository, further_flags=()):
    """A server of this repository that writes into `folder` and is ready; it must end well."""
    log_path, port_file = folder / "log", folder / "ports.json"
    with open(log_path, "wb") as log:
        process = subprocess.Popen(
            [*command(repository, folder / "state", port_file), *further_flags],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        ports = wait_until_ready(process, port_file, log_path)
        yield Server(base(ports["http"]), base(ports["metrics"]), repository)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    assert process.returncode == 0, f"airlock ended with {process.returncode}:\n{tail(log_path)}"


def command(repository, state_dir, port_file):
    binary = os.environ.get("AIRLOCK_BIN") or ROOT / "target/release/airlock"
    flags = {"--model-repository": repository, "--state-dir": state_dir, "--port-file": port_file}
    flags |= {flag: 0 for flag in ("--http-port", "--grpc-port", "--metrics-port", "--admin-port")}
    if library := os.environ.get("ORT_DYLIB_PATH"):
        flags["--onnxruntime"] = library
    return [binary, "serve", *(str(word) for flag in flags.items() for word in flag)]


def environment():
    """This process's, without the variables that the server would take for its settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AIRLOCK_")}


def wait_until_ready(process, port_file, log_path):
    for _ in range(START_LOOKS_MAX):
        ports = read_ports(port_file)
        if ports and is_ready(base(ports["http"])):
            return ports
        try:
            process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"airlock ended with {process.returncode} before it was ready:\n{tail(log_path)}", pytrace=False)
    pytest.fail(f"airlock is not ready after {START_LOOKS_MAX} looks:\n{tail(log_path)}", pytrace=False)


def read_ports(port_file):
    """None until the file is there and whole."""
    try:
        return json.loads(port_file.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def is_ready(address):
    try:
        return send(urllib.request.Request(address + "/v2/health/ready")).status == 200
    except OSError:
        return False


def base(port):
    return f"http://127.0.0.1:{port}"


def tail(log_path):
    return "\n".join(log_path.read_text(errors="replace").splitlines()[-40:])
