"""Classifiers whose scores are exported as maps: what the server answers against ONNX Runtime's own maps."""

import json
import shutil

import numpy as np
import onnxruntime
import pytest
from conftest import ROOT, serving

MODELS = ROOT / "tests/fixtures/models"
ROWS = 7

# By model: columns of its input, and its labels in the order of its classes. ONNX Runtime's maps do not keep that order.
CLASSIFIERS = {
    "classifier_strings": (4, ["spam", "ham", "eggs and ham"]),
    "classifier_integers": (2, [-3, 0, 70000]),
}


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifiers")
    for name in CLASSIFIERS:
        version = folder / "models" / name / "1"
        version.mkdir(parents=True)
        shutil.copy(MODELS / f"{name}.onnx", version / "model.onnx")
        # More rows than the default batch size allows are sent at once.
        (version.parent / "config.pbtxt").write_text("max_batch_size: 8\n")
    with serving(folder, folder / "models") as running:
        yield running


def rows(columns):
    return np.random.default_rng(7).normal(size=(ROWS, columns)).astype(np.float32)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_scores_are_those_of_the_maps(classifiers, name):
    columns, labels = CLASSIFIERS[name]
    features = rows(columns)
    session = onnxruntime.InferenceSession(MODELS / f"{name}.onnx", providers=["CPUExecutionProvider"])
    expected_labels, maps = session.run(["output_label", "output_probability"], {"X": features})
    assert set(maps[0]) == set(labels), "the test knows the model's labels"

    outputs = infer(classifiers, name, features)
    assert outputs["output_label"]["data"] == expected_labels.tolist()
    scores = outputs["output_probability"]
    assert (scores["datatype"], scores["shape"]) == ("FP32", [ROWS, len(labels)])
    expected = [[scores_by_label[label] for label in labels] for scores_by_label in maps]
    np.testing.assert_allclose(np.reshape(scores["data"], (ROWS, -1)), expected, rtol=1e-6)


def test_the_metadata_shows_a_tensor_of_scores(classifiers):
    answer = classifiers.get("/v2/models/classifier_strings")
    outputs = {output["name"]: output for output in answer.json()["outputs"]}
    assert outputs["output_probability"] == {"name": "output_probability", "datatype": "FP32", "shape": [-1, 3]}


def infer(server, name, features):
    tensor = {"name": "X", "datatype": "FP32", "shape": list(features.shape), "data": features.flatten().tolist()}
    answer = server.post(f"/v2/models/{name}/infer", json.dumps({"inputs": [tensor]}).encode())
    assert answer.status == 200, answer.body
    return {output["name"]: output for output in answer.json()["outputs"]}
