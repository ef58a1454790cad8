"""The sample fraud_v3 against its contract, implemented here a second time over onnxruntime called directly.

A request is `{"user_id", "age", "features"}`: 1 to 64 characters, the decimal text of a number from 0 to 120, and 128
finite numbers. The model gets the features with the first replaced by (age - 40) / 20; output__0[1] is the score, below
0.4 low risk, below 0.6 medium, from there on high. All bodies are seeded: every run sends the same.
"""

import json
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
import pytest

PREDICT = "/v1/models/fraud_v3:predict"
GOOD, BAD = 200, 100
FEATURES = 128
# The same weights run in batches of other sizes may differ in the last bits.
SCORE_TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def session(server):
    """onnxruntime with the version that the server says it serves."""
    version = server.get("/v2/models/fraud_v3").json()["versions"][-1]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    path = server.model_repository / "fraud_v3" / version / "model.onnx"
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def good_request(rng):
    age = rng.choice([str(rng.randint(0, 120)), f"{rng.uniform(0, 120):.1f}", "0", "120", "0.5", "1e1"])
    user_id = "".join(rng.choice("abcxyz-_ \u00e9\u4e2d\U0001f600") for _ in range(rng.choice([1, 8, 63, 64])))
    features = [rng.choice([round(rng.gauss(0, 1), 5), rng.gauss(0, 1), rng.randint(-3, 3)]) for _ in range(FEATURES)]
    return {"user_id": user_id, "age": age, "features": features}


def changed(request, **fields):
    return json.dumps(request | fields).encode()


def without(request, field):
    return json.dumps({name: value for name, value in request.items() if name != field}).encode()


def with_feature(request, index, value):
    features = list(request["features"])
    features[index] = value
    return changed(request, features=features)


# What is wrong, the body made from a good request, the status and the field that the answer must name.
BROKEN = [
    ("cut short", lambda r: json.dumps(r).encode()[:-1], 400, None),
    ("not JSON", lambda r: b"user_id=u&age=40", 400, None),
    ("empty", lambda r: b"", 400, None),
    ("two values", lambda r: json.dumps(r).encode() + b"{}", 400, None),
    ("NaN", lambda r: with_feature(r, 3, float("nan")), 400, None),
    ("an array", lambda r: b"[" + json.dumps(r).encode() + b"]", 422, ""),
    ("no user_id", lambda r: without(r, "user_id"), 422, "/user_id"),
    ("no age", lambda r: without(r, "age"), 422, "/age"),
    ("no features", lambda r: without(r, "features"), 422, "/features"),
    ("another field", lambda r: changed(r, more=1), 422, "/more"),
    ("empty user_id", lambda r: changed(r, user_id=""), 422, "/user_id"),
    ("long user_id", lambda r: changed(r, user_id="\u4e2d" * 65), 422, "/user_id"),
    ("user_id a number", lambda r: changed(r, user_id=7), 422, "/user_id"),
    ("age a number", lambda r: changed(r, age=40), 422, "/age"),
    ("age a word", lambda r: changed(r, age="old"), 422, "/age"),
    ("age below 0", lambda r: changed(r, age="-0.5"), 422, "/age"),
    ("age above 120", lambda r: changed(r, age="120.5"), 422, "/age"),
    ("age not a number", lambda r: changed(r, age="nan"), 422, "/age"),
    ("a feature less", lambda r: changed(r, features=r["features"][:-1]), 422, "/features"),
    ("a feature more", lambda r: changed(r, features=r["features"] + [0]), 422, "/features"),
    ("features null", lambda r: changed(r, features=None), 422, "/features"),
    ("a feature a text", lambda r: with_feature(r, 5, "1"), 422, "/features/5"),
    ("a feature null", lambda r: with_feature(r, 127, None), 422, "/features/127"),
    ("a feature beyond float32", lambda r: with_feature(r, 0, 1e39), 422, "/features/0"),
    ("a feature a list", lambda r: with_feature(r, 9, [1.0]), 422, "/features/9"),
]


def score_of(session, request):
    row = np.array([request["features"]], dtype=np.float64).astype(np.float32)
    row[0, 0] = (float(request["age"]) - 40) / 20
    return float(session.run(["output__0"], {"input__0": row})[0][0, 1])


def answer_for(score, age):
    risk_level = "low" if score < 0.4 else "medium" if score < 0.6 else "high"
    confidence = round(max(score, 1 - score), 4)
    return {"risk_level": risk_level, "confidence": confidence, "explain": f"score {score:.4f}; age {age:g}"}


def acceptable(session, request):
    score, age = score_of(session, request), float(request["age"])
    return [answer_for(score + nudge, age) for nudge in (0, -SCORE_TOLERANCE, SCORE_TOLERANCE)]


def mistake_in_good(answer, expected):
    if answer.status != 200:
        return f"{answer.status} {answer.body[:200]}"
    if not answer.headers["content-type"].startswith("application/json"):
        return f"content type {answer.headers['content-type']}"
    return None if answer.json() in expected else f"{answer.json()}, expected {expected[0]}"


def mistake_in_refusal(answer, status, pointer):
    if answer.status != status:
        return f"{answer.status}, expected {status}: {answer.body[:200]}"
    problem = answer.json()
    if not problem.get("error") or not problem.get("code"):
        return f"no error or code: {problem}"
    if pointer is not None and pointer not in [entry["pointer"] for entry in problem["errors"]]:
        return f"{pointer!r} is not named: {problem['errors']}"
    return None


def test_answers_are_those_of_the_contract(server, session):
    rng = random.Random(1)
    requests = [good_request(rng) for _ in range(GOOD)]
    requests += [good_request(rng) for _ in range(BAD)]
    cases = []
    for index, request in enumerate(requests):
        if index < GOOD:
            expected = acceptable(session, request)
            cases.append((json.dumps(request).encode(), lambda answer, e=expected: mistake_in_good(answer, e)))
        else:
            name, break_it, status, pointer = BROKEN[index % len(BROKEN)]
            judge = lambda answer, n=name, s=status, p=pointer: (m := mistake_in_refusal(answer, s, p)) and f"{n}: {m}"
            cases.append((break_it(request), judge))
    # Good and bad mixed and many at once, so that requests share batches.
    rng.shuffle(cases)
    with ThreadPoolExecutor(max_workers=16) as pool:
        answers = list(pool.map(lambda case: server.post(PREDICT, case[0]), cases))
    mistakes = [mistake for (_, judge), answer in zip(cases, answers, strict=True) if (mistake := judge(answer))]
    assert not mistakes, f"{len(mistakes)} of {len(cases)}:\n" + "\n".join(mistakes[:10])


def test_the_bodies_reach_every_risk_level(session):
    rng = random.Random(1)
    levels = {acceptable(session, good_request(rng))[0]["risk_level"] for _ in range(GOOD)}
    assert levels == {"low", "medium", "high"}


@pytest.mark.parametrize("rows", [1, 3, 8, 32])
def test_v2_infer_is_onnxruntime(server, session, rows):
    tensor = np.random.default_rng(rows).standard_normal((rows, FEATURES)).astype(np.float32)
    request = {"id": "7", "inputs": [v2_input(tensor)], "outputs": [{"name": "output__0"}]}
    answer = server.post("/v2/models/fraud_v3/infer", json.dumps(request).encode())
    assert answer.status == 200, answer.body
    answer = answer.json()
    assert (answer["model_name"], answer["id"]) == ("fraud_v3", "7")
    (output,) = answer["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("output__0", "FP32", [rows, 2])
    expected = session.run(["output__0"], {"input__0": tensor})[0]
    np.testing.assert_allclose(np.array(output["data"]).reshape(rows, 2), expected, rtol=0, atol=SCORE_TOLERANCE)


def v2_input(tensor):
    return {"name": "input__0", "datatype": "FP32", "shape": list(tensor.shape), "data": tensor.ravel().tolist()}


def test_v2_refusals_leave_it_serving(server):
    good = v2_input(np.zeros((1, FEATURES), dtype=np.float32))
    refusals = [
        {"inputs": [good | {"shape": [1, 127], "data": good["data"][:127]}]},
        {"inputs": [good | {"datatype": "FP64"}]},
        {"inputs": [good | {"name": "input__1"}]},
        {"inputs": [good | {"data": good["data"][:-1]}]},
        {"inputs": []},
        {"inputs": [good], "outputs": [{"name": "output__9"}]},
    ]
    for request in refusals:
        answer = server.post("/v2/models/fraud_v3/infer", json.dumps(request).encode())
        assert answer.status == 400, (request, answer)
        assert answer.json()["error"], answer
    answer = server.post("/v2/models/fraud_v3/infer", json.dumps({"inputs": [good]}).encode())
    assert answer.status == 200, answer.body


def test_metadata_is_the_models_own(server, session):
    metadata = server.get("/v2/models/fraud_v3").json()
    assert metadata["name"] == "fraud_v3"
    for tensors, values in ((metadata["inputs"], session.get_inputs()), (metadata["outputs"], session.get_outputs())):
        assert [tensor["name"] for tensor in tensors] == [value.name for value in values]
        assert all(tensor["datatype"] == "FP32" for tensor in tensors)
        assert [tensor["shape"][1:] for tensor in tensors] == [value.shape[1:] for value in values]
