"""The same command writes the same bytes, however the work is cut up."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.bench import Bench, snapshot
from crash.commands import COMMANDS
from crash.hunt import opened

from hardner.tag.predictor import BUNDLED_MODEL

TAG = ("tag", "in.jsonl", "--out", "out.jsonl")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    for extra in ("spacy", "pyarrow", "fastapi"):
        pytest.importorskip(extra, reason=f"{extra} is an extra")
    with opened(tmp_path_factory.mktemp("same")) as made:
        yield made


def written(bench: Bench, arguments: tuple[str, ...], name: str, **how: object) -> bytes:
    """What a command writes to a file, or to standard output where there is no name."""
    bench.reset()
    ended = bench.run(arguments, **how)
    assert ended.code == 0, ended.err
    return (bench.folder / name).read_bytes() if name else ended.out.encode()


@pytest.mark.parametrize("model", ["model", "start", str(BUNDLED_MODEL)])
def test_tagging(bench: Bench, model: str) -> None:
    if not Path(bench.inputs, model).is_dir():
        pytest.skip("no model comes with this package")
    one = written(bench, (*TAG, "--model", model), "out.jsonl", threads=1)
    assert one.count(b'"start"') > 5
    assert written(bench, (*TAG, "--model", model), "out.jsonl", threads=2) == one
    for size in ("1", "7", "64"):
        assert written(bench, (*TAG, "--model", model, "--batch-size", size), "out.jsonl") == one
    source = str(bench.inputs / "in.jsonl")
    assert (
        written(bench, ("tag", "-", "--model", model, "--to", "jsonl"), "", **{"in": source}) == one
    )


def test_the_order_of_documents(bench: Bench) -> None:
    lines = (bench.inputs / "in.jsonl").read_text().splitlines()
    mixed = random.Random(1).sample(lines, len(lines))
    (bench.inputs / "mixed.jsonl").write_text("".join(f"{line}\n" for line in mixed))
    found = written(bench, ("tag", "mixed.jsonl", "--out", "out.jsonl"), "out.jsonl")
    straight = written(bench, TAG, "out.jsonl")
    assert sorted(found.splitlines()) == sorted(straight.splitlines())
    assert [json.loads(line)["id"] for line in found.splitlines()] == [
        json.loads(line)["id"] for line in mixed
    ]


def test_adapting(bench: Bench) -> None:
    blocks = (bench.inputs / "drugs.tsv").read_text().strip("\n").split("\n\n")
    mixed = random.Random(1).sample(blocks, len(blocks))
    (bench.inputs / "mixed.tsv").write_text("\n\n".join(mixed) + "\n")
    one = adapted(bench, threads=1)
    assert adapted(bench, threads=1) == one
    assert adapted(bench, threads=2) == one
    assert adapted(bench, "mixed.tsv") == one
    assert adapted(bench, "drugs.tsv", "--seed", "2") != one


def adapted(
    bench: Bench, source: str = "drugs.tsv", *options: str, threads: int = 1
) -> tuple[bytes, bytes]:
    """The new model."""
    bench.reset()
    arguments = ("adapt", source, "--model", "start", "--out", "new", *options)
    ended = bench.run(arguments, threads=threads)
    assert ended.code == 0, ended.err
    weights, config = (bench.folder / "new" / f for f in ("weights.safetensors", "config.json"))
    return weights.read_bytes(), config.read_bytes()


@pytest.mark.parametrize("name", ["train", "pretrain", "evaluate"])
def test_learning_with_the_same_number_of_threads(bench: Bench, name: str) -> None:
    (command,) = (command for command in COMMANDS if command.name == name)
    found = []
    for _ in range(2):
        bench.reset()
        assert bench.run(command.arguments, threads=2).code == 0
        found.append(snapshot(bench.folder))
    assert found[0] == found[1]
