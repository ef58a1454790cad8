"""A full hash of all files finds what no stat shows, and reads what has not changed without any effect.

A file in memory (tmpfs) that is mapped and has been written to once can be written to again and keeps its size, its inode
and both of its times: the kernel sets these at the first write to a page, and cleans no page afterwards."""

import mmap
import os
import shutil
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

from conftest import ANSWER_TIMEOUT_S, ROOT, send, serving

FIXTURES = ROOT / "tests/fixtures/models"
COMPONENTS = Path(os.environ.get("AIRLOCK_PLUGINS") or ROOT / "plugins/target/components")
FLAGS = ["--rehash-secs", "1", "--rescan-ms", "20", "--settle-ms", "20"]


class Mapped:
    """A file that is written to through memory."""

    def __init__(self, path):
        self.path = path
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        self.map[:] = self.map[:]
        self.stat = self.look()

    def look(self):
        stat = self.path.stat()
        return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns

    def write(self, content):
        assert len(content) == len(self.map)
        self.map[:] = content
        assert self.look() == self.stat, "the change shows in what the scan compares, so this would test nothing"


@pytest.fixture
def in_memory():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def manifest(scale):
    return f"[config]\ntag = 't'\nscale = {scale:.1f}\n".encode()


def add_model(repository, name):
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    shutil.copy(FIXTURES / "scaler_v1.onnx", folder / "1/model.onnx")
    shutil.copy(COMPONENTS / "score-scaler.wasm", folder / "plugin.wasm")
    (folder / "plugin.toml").write_bytes(manifest(10))
    return folder


def loaded_and_published(server, model):
    """Versions that the engine has loaded and changes that have been published, so far."""
    lines = send(urllib.request.Request(server.metrics + "/metrics")).body.decode().splitlines()
    series = [
        f'airlock_engine_loads_total{{model="{model}"}} ',
        f'airlock_swaps_total{{model="{model}",outcome="published"}} ',
    ]
    return [int(line.removeprefix(name)) for name in series for line in lines if line.startswith(name)]


def wait_for(server, model, scale, factor):
    """Asks until the model answers with this scale of its plugin and this factor of its weights."""
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < deadline:
        answer = server.post(f"/v1/models/{model}:predict", b'{"x": [1, 2, 3, 4]}')
        assert answer.status == 200, answer.body
        if (answer.json()["scale"], answer.json()["y"][0]) == (scale, scale * factor):
            return
    pytest.fail(f"model {model} has not come to answer with {scale} x {factor}: {answer.body}")


def test_what_no_stat_shows_is_found_and_what_is_as_it_was_stays(in_memory, tmp_path):
    for name in ("still", "moved"):
        add_model(in_memory, name)
    plugin, weights = Mapped(in_memory / "moved/plugin.toml"), Mapped(in_memory / "moved/1/model.onnx")
    with serving(tmp_path, in_memory, FLAGS) as server:
        wait_for(server, "moved", 10, 2)
        assert loaded_and_published(server, "moved") == [1, 2], "version and plugin"
        plugin.write(manifest(20))
        wait_for(server, "moved", 20, 2)
        assert loaded_and_published(server, "moved") == [1, 3], "a plugin swap loads nothing"
        weights.write((FIXTURES / "scaler_v2.onnx").read_bytes())
        wait_for(server, "moved", 20, 3)
        assert loaded_and_published(server, "moved") == [2, 4]
        # By now all files have been read twice at least.
        assert loaded_and_published(server, "still") == [1, 2], "the same content is no swap"
        metrics = send(urllib.request.Request(server.metrics + "/metrics")).body.decode()
        assert 'outcome="failed_to_build"' not in metrics, "nothing is refused for having been read again"
