"""Commands that write, what they read, and what their output is compared by."""

import re
from dataclasses import dataclass
from pathlib import Path

import tiny
from adapt.adapted import DRUGS, known
from evaluate.test_protocol import trained
from fuzz.folders import TRAINING
from pretrain.sayings import write as write_sayings
from scale.made import lines, texts
from tag.small_models import predictor

from hardner.config import toml
from hardner.formats import Report, write
from hardner.meta.experiment import experiment
from hardner.model.describe import save_model
from hardner.types import Document

DOCUMENTS = 60


@dataclass(frozen=True)
class Command:
    """A command that writes."""

    name: str
    arguments: tuple[str, ...]
    again: tuple[str, ...] = ()
    """What is added to go on after a kill, instead of beginning anew."""
    growing: tuple[str, ...] = ()
    """How the names begin of what is written bit by bit, and may be a part until the end."""
    old: tuple[str, ...] = ()
    """Outputs that an earlier command has left and this one replaces."""
    early: str = ""
    """An output that stands, whole, some time before the end, where none stood before."""
    other: tuple[str, ...] = ()
    """The same command for another input, to run beside it."""
    to_device: tuple[str, ...] = ()
    """The same command, with a full device as the file that it writes."""
    needs_ray: bool = False


COMMANDS = (
    Command(
        "convert",
        ("convert", "in.jsonl", "out.tsv"),
        old=("out.tsv",),
        to_device=("convert", "in.jsonl", "/dev/full", "--to", "conll"),
        other=("convert", "other.jsonl", "out.tsv"),
    ),
    Command("convert to a folder", ("convert", "in.jsonl", "out/")),
    Command(
        "adapt",
        ("adapt", "drugs.tsv", "--model", "start", "--out", "new", "--force"),
        old=("new",),
        early="new",
        other=("adapt", "drugs.tsv", "--model", "start", "--out", "new", "--force", "--seed", "5"),
    ),
    Command(
        "tag",
        ("tag", "in.jsonl", "--model", "model", "--out", "out.jsonl"),
        again=("--resume",),
        growing=("out.jsonl.part",),
        old=("out.jsonl",),
        to_device=("tag", "in.jsonl", "--model", "model", "--out", "/dev/full"),
        other=("tag", "other.jsonl", "--model", "model", "--out", "out.jsonl"),
    ),
    Command(
        "tag a folder",
        ("tag", "in", "--model", "model", "--to", "conll", "--out", "out/"),
        again=("--resume",),
        growing=("out/.hardner-tag",),
    ),
    Command(
        "tag --engine ray",
        ("tag", "in", "--engine", "ray", "--model", "model", "--out", "shards"),
        growing=("shards/attempts/",),
        needs_ray=True,
    ),
    Command("train", ("train", "mine.toml", "--out", "run"), growing=("run/",)),
    Command(
        "evaluate",
        (
            *("evaluate", "known", "--root", str(tiny.ROOT), "--corpora", "Gene", "--shots", "3,5"),
            *("--samples", "2", "--device", "cpu", "--predictions"),
        ),
        growing=("results/",),
    ),
    Command(
        "pretrain",
        (
            *(
                "pretrain",
                "encoder",
                "text.txt",
                "--out",
                "pre",
                "--vocabulary",
                "120",
                "--size",
                "8",
            ),
            *("--layers", "1", "--heads", "1", "--inner", "8", "--steps", "6", "--every", "2"),
            *("--rows", "2", "--width", "16", "--device", "cpu"),
        ),
        growing=("pre/",),
    ),
)


def make_inputs(place: str) -> None:
    """What all commands read, in a new folder."""
    folder = Path(place)
    folder.mkdir()
    lines(folder / "in.jsonl", texts(DOCUMENTS))
    lines(folder / "other.jsonl", texts(DOCUMENTS + 20)[20:])
    (folder / "in").mkdir()
    for n in range(4):
        lines(folder / "in" / f"{n}.jsonl", texts(DOCUMENTS)[n::4])
    predictor("bilstm").save(folder / "model")
    known().save(folder / "start")
    save_model(folder / "known", *trained())
    write([Document("d", "", sentences=DRUGS)], folder / "drugs.tsv", report=Report())
    (folder / "mine.toml").write_text(toml(experiment(TRAINING).table()))
    write_sayings(folder / "text.txt", 40)


def comparable(name: str, content: bytes) -> bytes:
    """A file's content without how long things took."""
    if name.endswith((".jsonl", ".json")):
        content = re.sub(rb'"seconds": [0-9.e-]+', b'"seconds": 0', content)
        content = re.sub(rb'"pieces_per_second": [0-9]+', b'"pieces_per_second": 0', content)
        content = re.sub(rb'"log": [0-9]+', b'"log": 0', content)
        if name.endswith("state/config.json"):  # of what it says, times included
            content = re.sub(rb'"checksum": "[^"]*"', b'"checksum": ""', content)
        content = re.sub(rb'"worker": "[^"]*"', b'"worker": ""', content)
    return content
