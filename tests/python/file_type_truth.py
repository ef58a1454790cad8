#!/usr/bin/env python3
"""What Magika's own Python package says of each file of a corpus.

    file_type_truth.py CORPUS_DIR OUT.json

Needs `magika==1.0.3`. Per file: the label with what belongs to it, the model's own label and score, why they differ,
and a checksum of the features the model was shown (absent where it was not asked). Scores have 3 decimals.
"""
import hashlib
import json
import pathlib
import struct
import sys

import magika
from magika.types import Seekable

WANTED_VERSION = "1.0.3"


def features(identifier, path):
    """The SHA-256 of the model's input as little-endian 32-bit numbers."""
    with open(path, "rb") as stream:
        _, found = identifier._get_result_or_features_from_seekable(Seekable(stream))
    if found is None:
        return None
    tokens = [*found.beg, *found.end]
    return hashlib.sha256(struct.pack(f"<{len(tokens)}i", *tokens)).hexdigest()


def truth(identifier, path):
    result = identifier.identify_path(path)
    prediction = result.prediction
    output = prediction.output
    found = {
        "label": str(output.label),
        "score": round(prediction.score, 3),
        "mime_type": output.mime_type,
        "group": output.group,
        "description": output.description,
        "extensions": output.extensions,
        "is_text": output.is_text,
        "model_label": str(prediction.dl.label),
        "overwrite_reason": str(prediction.overwrite_reason),
    }
    checksum = features(identifier, path)
    return found | ({"features_sha256": checksum} if checksum else {})


def main(corpus, out):
    identifier = magika.Magika()
    version = identifier.get_module_version()
    if version != WANTED_VERSION:
        raise SystemExit(f"magika {version} is installed, {WANTED_VERSION} is needed")
    paths = sorted(path for path in pathlib.Path(corpus).iterdir() if path.is_file() and path.name != pathlib.Path(out).name)
    expected = {path.name: truth(identifier, path) for path in paths}
    pathlib.Path(out).write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(expected)} files, {len({entry['label'] for entry in expected.values()})} labels")


if __name__ == "__main__":
    main(*sys.argv[1:])
