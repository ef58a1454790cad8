"""The sample file_type against the Python package whose model it serves: the same label for every file of the corpus,
and for a few that are made here at the edges of what the model is asked at all."""

import json
from pathlib import Path

import pytest
from magika import Magika

CORPUS = Path(__file__).resolve().parents[1] / "fixtures" / "file_type"
EXPECTED = {name: truth["label"] for name, truth in json.loads((CORPUS / "expected.json").read_text()).items()}
PREDICT = "/v1/models/file_type:predict"

# Too short for the model, blank, and longer than what it looks at.
EDGES = {
    "empty": b"",
    "one byte": b"x",
    "7 bytes": b"#!/bin/",
    "8 bytes": b"#!/bin/s",
    "not UTF-8": b"\xff\xfe\x00\x01",
    "blank": b" \n" * 600,
    "leading blanks": b"\n" * 900 + b"import os\nprint(os.environ)\n" * 40,
    "trailing blanks": b"#include <stdio.h>\nint main(void) { return 0; }\n" + b" " * 5000,
    "long": b"<html><body>" + b"<p>text</p>" * 20000 + b"</body></html>",
    "zeros": bytes(4096),
}


@pytest.fixture(scope="module")
def magika():
    return Magika()


def label(server, content):
    answer = server.post(PREDICT, content, content_type="application/octet-stream")
    assert answer.status == 200, answer.body
    return answer.json()["label"]


def test_the_corpus_is_there():
    assert len(EXPECTED) >= 60
    assert len(set(EXPECTED.values())) >= 20


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_labels_are_the_packages(server, magika, name):
    content = (CORPUS / name).read_bytes()
    theirs = str(magika.identify_bytes(content).output.label)
    assert (label(server, content), theirs) == (EXPECTED[name], EXPECTED[name])


@pytest.mark.parametrize("name", sorted(EDGES))
def test_labels_at_the_edges_are_the_packages(server, magika, name):
    assert label(server, EDGES[name]) == str(magika.identify_bytes(EDGES[name]).output.label)
