"""Every command in the documents runs: the requests are sent to the real server, the others are known by name to be run
by CI, so a command that is added or renamed fails here until it is."""

import json
import re
import shlex
import subprocess

import pytest

from conftest import ROOT

DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]

# Run elsewhere: where, and why that is enough.
RUN_ELSEWHERE = {
    "cargo xtask test": "this run",
    "cargo xtask serve": "the greeting's own tests, and every test that starts the server with the same flags",
    "cargo xtask plugins": "the stage before the tests",
    "cargo xtask soak swap --for 60s": "its short form among the end-to-end tests",
    "cargo xtask bench swap": "its parts among the end-to-end tests; it prints figures and asserts none",
    "cargo xtask bench isolation": "as bench swap",
}


def commands(document):
    for block in re.findall(r"```sh\n(.*?)```", (ROOT / document).read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").strip().splitlines():
            yield " ".join(line.split())


def all_commands():
    return [(document, command) for document in DOCUMENTS for command in commands(document)]


@pytest.mark.parametrize("document, command", all_commands())
def test_command_runs(document, command, server, tmp_path):
    if command in RUN_ELSEWHERE:
        return
    words = shlex.split(command)
    if words[0] == "curl":
        shown = run([word.replace("http://127.0.0.1:8000", server.http) for word in words])
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


def test_links_lead_somewhere():
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / document).read_text()):
            assert target.startswith("http") or (ROOT / target).exists(), f"{document} links to {target}"
