"""Every command in the documents runs: the requests are sent to the real server, the others are known by name to be run
by CI, so a command that is added or renamed fails here until it is."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

# Not ours to read: what is built or fetched, and files that tests look at.
LEFT_OUT = {".git", ".cache", "target", "state", "fixtures"}

# Run elsewhere: where, and why that is enough.
RUN_ELSEWHERE = {
    "cargo xtask test": "this run",
    "cargo xtask serve": "the greeting's own tests, and every test that starts the server with the same flags",
    "cargo xtask plugins": "the stage before the tests",
    "cargo xtask plugins --install": "it writes over what is committed; the end-to-end test of the samples uses a copy",
    "cargo xtask setup": "a stage before the tests",
    "cargo xtask deps": "a stage before the tests",
    "cargo xtask test NAME": "this run without a filter",
    "cargo test": "the stage `plugin tests`",
    "cargo test --manifest-path plugins/Cargo.toml": "the stage `plugin tests`",
    "cargo xtask soak swap --for 60s": "its short form among the end-to-end tests",
    "cargo xtask soak swap --for 1h": "its short form among the end-to-end tests; it takes an hour",
    "cargo xtask bench swap": "its parts among the end-to-end tests; it prints figures and asserts none",
    "cargo xtask bench isolation": "as bench swap",
    "cargo xtask bench predict": "as bench swap",
    "cargo xtask bench reload --rounds 9 --seconds 3": "as bench swap",
    "target/release/airlock serve --model-repository=model_repository --model-control-mode=explicit "
    "--load-model=fraud_v3": "it serves until it is stopped; the end-to-end tests of the modes start it so",
    "curl -s -X POST http://127.0.0.1:8000/v2/repository/models/fraud_v3/load": "the end-to-end tests of the modes",
    "cargo run --release -p batching --example driver_cost": "it prints figures and asserts none; the lints compile it",
    "cargo run --release -p plugin --example call_cost": "it prints figures and asserts none; the lints compile it",
}

# A reader's own file, and one of the same kind.
STANDS_FOR = {"@photo.png": f"@{ROOT}/tests/fixtures/file_type/image.png"}


def documents():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".md"))


def commands(document):
    """What stands in blocks that are fenced as `sh`, or indented, and cargo's commands in running text."""
    text = document.read_text()
    fence = r"^ *```{}\n(.*?)```"
    blocks = re.findall(fence.format("sh"), text, re.DOTALL | re.MULTILINE)
    without_fences = re.sub(fence.format("[a-z]*"), "", text, flags=re.DOTALL | re.MULTILINE)
    blocks += re.findall(r"\n\n((?: {4}[^\n]+\n)+)", without_fences)
    blocks += re.findall(r"`(cargo [^`]+)`", without_fences)
    for block in blocks:
        for line in block.replace("\\\n", " ").strip().splitlines():
            yield " ".join(re.sub(r"\s#.*", "", line).split())


def all_commands():
    return [(str(document.relative_to(ROOT)), command) for document in documents() for command in commands(document)]


@pytest.mark.parametrize("document, command", all_commands())
def test_command_runs(document, command, server, tmp_path):
    if command in RUN_ELSEWHERE:
        return
    words = shlex.split(command)
    if words[0] == "curl":
        words = [STANDS_FOR.get(word, word) for word in words]
        shown = run([re.sub(r"^(http://)?(127\.0\.0\.1|localhost):8000", server.http, word) for word in words])
        assert "error" not in json.loads(shown), shown
    elif words[0] == "cp":
        source, target = (ROOT / word for word in words[1:])
        assert source.read_bytes()[:4] == b"\0asm" and target.read_bytes()[:4] == b"\0asm"
    elif words[0] == "target/release/airlock":
        # On a copy: the command may record new answers.
        subprocess.run(["cp", "-r", ROOT / "model_repository", tmp_path], check=True)
        words = [str(tmp_path / word) if word == "model_repository" else word for word in words]
        assert "0 errors" in run(words)
    else:
        pytest.fail(f"{document} has a command that nothing runs: {command}")


def run(words):
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300).stdout


def test_documents_with_commands_are_found():
    with_commands = {document for document, _ in all_commands()}
    expected = {"README.md", "CONTRIBUTING.md", "plugins/README.md", "model_repository/file_type/README.md"}
    assert expected <= with_commands, with_commands
    assert set(RUN_ELSEWHERE) <= {command for _, command in all_commands()}, "a command that no document has any more"


def test_links_lead_somewhere():
    for document in documents():
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            assert target.startswith("http") or (document.parent / target).exists(), f"{document} links to {target}"
