"""Damaged inputs of every kind: documents, or one line that says what is wrong."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fuzz.campaign import run, smallest
from fuzz.judge import CLEAN, DEFECT, LARGE, MEMORY, REFUSED, SLOW, input_of, judge, laid_out
from fuzz.kinds import Kind, contents
from fuzz.mutate import Files
from fuzz.registry import all_kinds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are set as Linux does")
INPUTS, SEED = 3000, 7
CASES = Path(__file__).with_name("cases")
"""By kind, inputs that were neither read nor refused by one line: a file or a folder each."""


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> list[Kind]:
    for extra in ("spacy", "pyarrow", "transformers"):
        pytest.importorskip(extra, reason=f"{extra} is an extra")
    return all_kinds(tmp_path_factory.mktemp("seeds"))


def test_seeds_are_taken_in(kinds: list[Kind], tmp_path: Path) -> None:
    for kind in kinds:
        for seed in kind.seeds:
            kind.take(laid_out(seed, tmp_path / "input"))


@pytest.mark.parametrize("case", sorted(CASES.glob("*/*")), ids=lambda path: path.name)
def test_what_was_once_a_defect(kinds: list[Kind], case: Path, tmp_path: Path) -> None:
    (kind,) = (kind for kind in kinds if kind.name == case.parent.name)
    files = contents(case) if case.is_dir() else {case.name: case.read_bytes()}
    verdict = judge(kind.take, files, tmp_path / "input")
    assert verdict.kind in (CLEAN, REFUSED), verdict


def test_damaged_inputs(kinds: list[Kind]) -> None:
    each = INPUTS / sum(kind.share for kind in kinds)
    found = []
    for kind in kinds:
        tally = run(kind, round(each * kind.share), SEED, workers=1)
        assert tally.counts[REFUSED] > 0, kind.name
        found += [f"{kind.name}: {v.kind}: {v.what} ({v.number})" for v in tally.odd.values()]
    assert not found, "\n".join(found)


# The judge itself: on readers that fail in each of the ways there are.
def _take_in(path: Path) -> None:
    content = path.read_bytes()
    match content[:1]:
        case b"d":
            json.loads("{")
        case b"m":
            bytearray(2 * MEMORY)
        case b"t":
            while True:
                pass


def test_every_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.judge.SECONDS", 0.2)
    words = (b"clean", b"defect", b"memory", b"time")
    kind = Kind("made", [{"x": word} for word in words], _take_in)
    monkeypatch.setattr("fuzz.judge.damaged", _undamaged)
    tally = run(kind, 20, SEED, workers=2)
    assert tally.inputs == 20
    assert all(tally.counts[verdict] for verdict in (CLEAN, DEFECT, LARGE, SLOW))
    assert {what.partition(",")[0] for (v, what) in tally.odd if v == DEFECT} == {"JSONDecodeError"}


def test_judging_leaves_the_limits_of_this_process(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_CPU)
    assert judge(_take_in, {"x": b"clean"}, tmp_path / "input").kind == CLEAN
    assert resource.getrlimit(resource.RLIMIT_CPU) == before


def _undamaged(rng: Any, files: Files, seeds: Any) -> Files:
    return files


def test_inputs_follow_from_their_numbers(kinds: list[Kind]) -> None:
    for kind in kinds:
        assert input_of(kind, SEED, 5) == input_of(kind, SEED, 5)
    assert len({str(input_of(kinds[0], SEED, n)) for n in range(50)}) > 40


def test_a_defect_is_cut_down_to_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(path: Path) -> None:
        assert b"!" not in path.read_bytes()

    kind = Kind("made", [{"x": b"a long text ! with a mark in it"}], take)
    monkeypatch.setattr("fuzz.judge.damaged", _undamaged)
    ((_, worst),) = run(kind, 1, SEED, workers=1).odd.items()
    assert smallest(kind, SEED, worst) == {"x": b"!"}
