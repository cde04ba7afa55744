"""A real Ray cluster of two nodes: the local engine's output, whoever is killed on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import tiny
from evaluate.test_protocol import trained
from scale.made import QUICK, content, ids, lines, model, receipts, tagging, texts

from hardner.evaluate.results import read_results
from hardner.model.describe import save_model

pytest.importorskip("ray", reason="Ray is an extra (hardner[ray])")

COUNT, SHARD = 20_000, 500
PATIENCE = 120.0


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, str(Path(__file__).with_name("cluster.py"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=QUICK, text=True, **pipes) as cluster:
        assert cluster.stdout is not None
        found = cluster.stdout.readline().strip()
        assert found, "the cluster did not start"
        yield found
        cluster.communicate()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("job")
    found = texts(COUNT)
    inputs = folder / "in"
    inputs.mkdir()
    lines(inputs / "a.jsonl", found[:12_300])
    lines(inputs / "b.ndjson", found[12_300:], first=12_300)
    return {"given": [inputs], "model": model(folder / "model"), "shard": SHARD}


@pytest.fixture(scope="module")
def local(job: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the local engine makes, against which all is held."""
    out = tmp_path_factory.mktemp("local") / "out"
    finished(tagging(**job, out=out))
    assert sum(ids(out).values()) == COUNT
    return content(out)


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)


def finished(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (0, "")


def test_a_worker_is_killed_half_way(
    job: dict[str, object], local: dict[str, bytes], address: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = tagging(**job, out=out, engine="ray", address=address)
    until(lambda: len(receipts(out)) >= len(local) // 3, process)
    killed = str(receipts(out)[0]["worker"])
    os.kill(int(killed.rpartition(":")[2]), signal.SIGKILL)
    finished(process)
    assert content(out) == local
    assert ids(out) == {f"d{n}": 1 for n in range(COUNT)}
    workers = [str(receipt["worker"]) for receipt in receipts(out)]
    assert len(set(workers)) > 2, "somebody took the place of the dead"
    assert workers.count(killed) < len(local)
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["documents"], manifest["bad"]) == (COUNT, 0)
    assert not list(out.rglob("*.tmp"))


def test_the_driver_is_killed_half_way(
    job: dict[str, object], local: dict[str, bytes], address: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = tagging(**job, out=out, engine="ray", address=address)
    until(lambda: len(receipts(out)) >= len(local) // 3, process)
    process.kill()
    process.communicate()
    before = {path: path.stat().st_mtime_ns for path in (out / "receipts").glob("part-*.json")}
    assert len(before) < len(local)
    assert not (out / "manifest.json").exists()
    finished(tagging(**job, out=out, engine="ray", address=address))
    assert content(out) == local
    assert ids(out) == {f"d{n}": 1 for n in range(COUNT)}
    assert before == {path: path.stat().st_mtime_ns for path in before}, "nothing is done twice"


def hardner(*arguments: object) -> tuple[int, str]:
    """The command in a process of its own: its exit code and what it said."""
    command = [sys.executable, "-m", "hardner", *map(str, arguments)]
    done = subprocess.run(
        command, env=QUICK, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_the_command_and_a_bad_document(
    job: dict[str, object], address: str, tmp_path: Path
) -> None:
    source, out = lines(tmp_path / "in.jsonl", texts(40)), tmp_path / "out"
    source.write_text(source.read_text() + "{not JSON\n")
    options = ("--model", job["model"], "--engine", "ray", "--address", address, "--out", out)
    code, said = hardner("tag", source, *options, "--to", "parquet")
    assert code == 0, said
    assert f"warning: 1 bad documents: {out / 'bad.jsonl'}" in said
    assert said.splitlines()[-1].startswith("40 documents, ")
    assert "in.jsonl:41: not JSON" in json.loads((out / "bad.jsonl").read_text())["error"]
    code, said = hardner("tag", source, *options, "--to", "parquet", "--min-score", 0.5)
    assert (code, said.count("\n")) == (1, 1)
    assert "was begun with other settings (min_score 0.0, now 0.5)" in said


def test_evaluate_spreads_the_cells(address: str, tmp_path: Path) -> None:
    save_model(tmp_path / "mine", *trained())
    results = {}
    for engine in ("local", "ray"):
        out = tmp_path / engine
        where = () if engine == "local" else ("--engine", "ray", "--address", address)
        options = ("--root", tiny.ROOT, "--corpora", "Disease,Drug", "--shots", "3,5")
        more = ("--samples", 2, "--name", "D-Shift", "--predictions", "--out", out)
        code, said = hardner("evaluate", tmp_path / "mine", *options, *more, *where)
        assert code == 0, said
        assert said.count("D-Shift, Drug, 5 shots: F1 ") == 1
        found = [{**asdict(r), "seconds": 0} for r in read_results(out / "few_shot.jsonl")]
        results[engine] = sorted(found, key=lambda r: (r["corpus"], r["shots"], r["sample"]))
    assert len(results["ray"]) == 8
    assert results["ray"] == results["local"]
    assert not list((tmp_path / "ray" / "cells").iterdir())
    for name in ("samples.json", "configs.json"):
        assert (tmp_path / "ray" / name).read_text() == (tmp_path / "local" / name).read_text()
    names = [sorted(p.name for p in (tmp_path / e / "predictions").iterdir()) for e in results]
    assert names[0] == names[1]
    before = (tmp_path / "ray" / "few_shot.jsonl").read_bytes()
    assert hardner("evaluate", tmp_path / "mine", *options, *more)[0] == 0, "done is done"
    assert (tmp_path / "ray" / "few_shot.jsonl").read_bytes() == before
