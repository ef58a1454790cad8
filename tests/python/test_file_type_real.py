"""The sample file_type against the Python package whose model it serves, on files that nobody made for it: those of this
repository, of the Python installation and of the system, as far as they are there and may be read."""

import itertools
import sysconfig
from pathlib import Path

from magika import Magika

from conftest import ROOT

PREDICT = "/v1/models/file_type:predict"

FILES_MAX, FILES_PER_SUFFIX_MAX, FILE_BYTES_MAX = 300, 15, 1_000_000
# Fewer would show little.
FILES_MIN, LABELS_MIN = 60, 20
SCORE_TOLERANCE = 1e-3

# What is built or fetched lies below these, and our own corpus; of Python's folders the last one is listed by itself.
LEFT_OUT = {ROOT / ".git", ROOT / "target", ROOT / "plugins/target", ROOT / "tests/fixtures/file_type"}
LEFT_OUT_NAMES = {"site-packages", "dist-packages"}


def places():
    python = sysconfig.get_paths()
    yield ROOT
    yield from (Path(python[name]) for name in ("stdlib", "purelib", "include"))
    yield from (Path("/etc"), Path("/usr/share/doc"))


def files_below(folder):
    """In an order that is the same everywhere; links lead out of a folder and are not followed."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.is_symlink() or entry in LEFT_OUT or entry.name in LEFT_OUT_NAMES:
            continue
        if entry.is_dir():
            yield from files_below(entry)
        elif entry.is_file() and entry.stat().st_size <= FILE_BYTES_MAX:
            yield entry


def contents():
    """Some files of each suffix: first one of each, then the second, up to the most that is asked for."""
    by_suffix = {}
    for path in itertools.chain.from_iterable(map(files_below, places())):
        same = by_suffix.setdefault(path.suffix, {})
        if len(same) < FILES_PER_SUFFIX_MAX:
            try:
                same[path] = path.read_bytes()
            except OSError:
                continue
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*(same.items() for same in by_suffix.values())))
    return list(itertools.islice(filter(None, in_turn), FILES_MAX))


def test_answers_are_the_packages(server):
    magika = Magika()
    files, labels, wrong = contents(), set(), []
    for path, content in files:
        answer = server.post(PREDICT, content, content_type="application/octet-stream")
        assert answer.status == 200, (path, answer.body)
        ours, theirs = answer.json(), magika.identify_bytes(content)
        ours, theirs = (ours["label"], ours["score"]), (str(theirs.output.label), theirs.score)
        labels.add(theirs[0])
        if ours[0] != theirs[0] or abs(ours[1] - theirs[1]) > SCORE_TOLERANCE:
            wrong.append((str(path), ours, theirs))
    assert not wrong
    assert len(files) >= FILES_MIN and len(labels) >= LABELS_MIN, (len(files), sorted(labels))
