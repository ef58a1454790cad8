#!/usr/bin/env python3
"""Test vectors for plugins/fraud-rules, made by an independent implementation of the same contract.

    fraud_vectors.py RULES.py OUT.json

RULES.py is a Python module with `pre(body) -> (x, age)`, `post(y, age) -> answer` and the exception `Bad`. Every body
below is run through it; what is written is the body and either the input it leads to or that it is refused, and for
scores over the whole range the answer. The figures are seeded: the same RULES.py gives the same file. The environment's GOOD_BODIES asks for more random bodies.
"""
import importlib.util
import json
import os
import random
import struct
import sys
import types

import numpy

SEED = 20
GOOD_BODIES = int(os.environ.get("GOOD_BODIES", "60"))
SCORES = 250


def load_rules(path):
    # The rules import an engine that this script does not use.
    sys.modules.setdefault("onnxruntime", types.ModuleType("onnxruntime"))
    os.environ.setdefault("BENCH_MODEL", "")
    spec = importlib.util.spec_from_file_location("rules", path)
    rules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rules)
    return rules


def number(rng):
    """JSON text of a finite number, in one of the forms that numbers come in."""
    return rng.choice(
        [
            lambda: repr(round(rng.gauss(0, 1), 5)),
            lambda: repr(rng.gauss(0, 1)),
            lambda: str(rng.randint(-1000, 1000)),
            lambda: f"{rng.uniform(-9, 9):.3e}",
            lambda: str(rng.randint(2**53, 2**70)),
            lambda: repr(rng.uniform(-1, 1) * 10.0 ** rng.randint(-46, 37)),
            lambda: "-0.0",
            lambda: f"{rng.randint(1, 9)}E+2",
        ]
    )()


def age_text(rng):
    return rng.choice(
        [
            lambda: str(rng.randint(0, 120)),
            lambda: f"{rng.uniform(0, 120):.1f}",
            lambda: repr(rng.uniform(0, 120)),
            lambda: f"{rng.uniform(0, 1) * 10.0 ** rng.randint(-9, -1):.7g}",
            lambda: rng.choice(["0", "-0", "120", "1.2e2", "+25", ".5", "5.", "007", "1e-5", "0.0001", "99.99995"]),
        ]
    )()


def user_id(rng):
    length = rng.choice([1, 2, 10, 63, 64])
    return "".join(rng.choice("abc-_ 09\u00e9\u4e2d\U0001f600\"\\/") for _ in range(length))


def body_text(user, age, features):
    """The three fields, each already JSON text."""
    return f'{{"user_id": {user}, "age": {age}, "features": [{", ".join(features)}]}}'


def good_bodies(rng):
    for index in range(GOOD_BODIES):
        user, age = json.dumps(user_id(rng), ensure_ascii=index % 2 == 0), json.dumps(age_text(rng))
        yield body_text(user, age, [number(rng) for _ in range(128)])
    features = "[" + ",".join("1" for _ in range(128)) + "]"
    yield f'\n{{"features":{features},"us\\u0065r_id":"a","age":"40"}}\t'


def bad_bodies():
    """Bodies with what is wrong with them: pointers, or None where they are not JSON."""
    user, age, ones = '"u"', '"40"', ["1"] * 128
    yield "", None
    yield "{", None
    yield "not json", None
    yield body_text(user, age, ["NaN"] + ones[1:]), None
    yield body_text(user, age, ["Infinity"] + ones[1:]), None
    yield body_text(user, age, ["01"] + ones[1:]), None
    yield body_text(user, age, ones) + "x", None
    yield "\ufeff" + body_text(user, age, ones), None
    yield "null", [""]
    yield "[]", [""]
    yield f'["u", "40", [{",".join(ones)}]]', [""]
    yield "{}", ["/user_id", "/age", "/features"]
    yield '{"user_id": "u", "age": "40"}', ["/features"]
    yield body_text(user, age, ones)[:-1] + ', "more": 1}', ["/more"]
    yield body_text(user, age, ones)[:-1] + ', "a/b~": 1, "c": 2}', ["/a~1b~0", "/c"]
    for text in ['""', json.dumps("a" * 65), json.dumps("\u4e2d" * 65), "7", "null", '["u"]']:
        yield body_text(text, age, ones), ["/user_id"]
    for text in ["40", "null", '""', '"old"', '"-1"', '"-0.001"', '"120.001"', '"1e3"', '"nan"', '"inf"', '"0x10"', '"4 0"', '"1e999"']:
        yield body_text(user, text, ones), ["/age"]
    for count in (0, 1, 127, 129, 256):
        yield body_text(user, age, ["1"] * count), ["/features"]
    for text in ["null", '"one"', "[1]", "{}", "1e39", "-3.5e38", "1e999", "1" + "0" * 60]:
        yield body_text(user, age, ones[:3] + [text] + ones[4:]), ["/features/3"]
    yield body_text('""', '"old"', ["null"] * 2), ["/user_id", "/age", "/features", "/features/0", "/features/1"]
    yield '{"user_id": 1, "age": 2, "features": 3}', ["/user_id", "/age", "/features"]


def strict_bodies():
    """Bodies that Python's readers take and ours refuses on purpose: its answers are not asked for."""
    user, age, ones = '"u"', '"40"', ["1"] * 128
    yield body_text(user, age, ones)[:-1] + ', "age": "40"}', ["/age"]
    yield '{"age": "40", "age": "41"}', ["/age", "/user_id", "/features"]
    yield body_text(user, '" 40"', ones), ["/age"]
    yield body_text(user, '"4_0"', ones), ["/age"]
    yield body_text(user, '"\u0664\u0660"', ones), ["/age"]
    yield body_text('"\\ud800"', age, ones), ["/user_id"]
    yield body_text(user, age, ['"1.5"'] + ones[1:]), ["/features/0"]
    yield body_text(user, age, ones[:-1] + ["true"]), ["/features/127"]


def hexadecimal(x):
    return struct.pack(f"<{len(x)}f", *x).hex()


def refuses(rules, text):
    try:
        rules.pre(json.loads(text))
    except (rules.Bad, ValueError):
        return True
    return False


def scores(rng):
    yield from (0.0, 1.0, 0.4, 0.5, 0.6, 0.39999998, 0.59999996, 0.25, 0.75, 0.03125, 0.96875, 0.00005, 0.99995)
    for _ in range(SCORES):
        yield rng.choice([rng.random(), rng.randint(0, 10000) / 10000, rng.randint(0, 2**14) / 2**14])


def answers(rules, rng):
    for score in scores(rng):
        y = numpy.array([1 - score, score], dtype=numpy.float32)
        text = age_text(rng)
        yield {"y": hexadecimal(y), "age": text, "answer": rules.post(y, float(text))}


def main(rules_path, out_path):
    rules, rng = load_rules(rules_path), random.Random(SEED)
    good = []
    for text in good_bodies(rng):
        x, age = rules.pre(json.loads(text))
        good.append({"body": text, "input": hexadecimal(x), "age": struct.pack("<d", age).hex()})
    bad = [{"body": text, "pointers": pointers} for text, pointers in bad_bodies()]
    accepted = [entry["body"] for entry in bad if not refuses(rules, entry["body"])]
    if accepted:
        raise SystemExit(f"the rules accept what is listed as bad: {accepted}")
    strict = [{"body": text, "pointers": pointers} for text, pointers in strict_bodies()]
    vectors = {"good": good, "bad": bad + strict, "answers": list(answers(rules, rng))}
    with open(out_path, "w", encoding="utf-8") as out:
        json.dump(vectors, out, ensure_ascii=True, separators=(",", ":"))
        out.write("\n")
    print({kind: len(entries) for kind, entries in vectors.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
