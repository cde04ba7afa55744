"""How long `hardner adapt` takes, until a first model and in all, how much memory, and spaCy.

    python benchmarks/adapt.py [--root CORPORA] [--only CASE]

The whole command, its start and cross-validation included, without a test file: with the twenty
example sentences; with --root also with 1,000 unlabelled sentences of BioNLP13CG beside them, with
100 sentences of it and one type, and with 200 and ten types. Beside each, spaCy learns from the
same labelled sentences (`spacy_learn.py`), without saying what to expect of it. Run it while the
machine has nothing else to do; CPU seconds say more where it has. Appends to
benchmarks/results.jsonl.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import spacy_learn
from record import record
from spacy.tokens import DocBin
from spacy_learn import labelled_doc

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from hardner.adapt.examples import read_labelled
from hardner.corpora import Corpora
from hardner.episodes import few_shot
from hardner.formats import write
from hardner.types import Document

ROOT = Path(__file__).parents[1]
DEVICE = "cpu, 2 cores"
CORPUS, TYPE = "BioNLP13CG", "Cell"
UNLABELLED = 1000


def cases(root: str | None, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """What is adapted to: names and arguments."""
    devices = str(ROOT / "examples" / "devices-train.jsonl")
    yield "20 sentences", [devices]
    if root is None:
        return
    train = Corpora.under(root).load(CORPUS).train
    text = folder / "text.txt"
    text.write_text("\n".join(" ".join(s.tokens) for s in train[:UNLABELLED]) + "\n", "utf-8")
    yield "20 sentences, 1,000 unlabelled", [devices, "--unlabelled", str(text)]
    labels = [span.label for sentence in train for span in sentence.spans]
    frequent = sorted(set(labels), key=lambda label: -labels.count(label))[:10]
    for name, count, kept in (("100 sentences", 100, [TYPE]), ("10 types, 200", 200, frequent)):
        some = [train[row] for row in few_shot(CORPUS, train, count, 0)]
        own = [replace(s, spans=tuple(x for x in s.spans if x.label in kept)) for s in some]
        path = folder / f"{count}.tsv"
        write([Document("d", "", sentences=tuple(own))], path)
        yield name, [str(path)]


class Used(NamedTuple):
    """What a command took."""

    seconds: float
    first: float
    """Seconds until its output was there."""
    cpu: float
    memory: float
    """MB, at most, as Linux has it: what `wait4` says may be that of the process before `exec`."""


def used(command: list[str], out: Path) -> Used:
    """Run a command."""
    began, first, memory = time.perf_counter(), None, 0.0
    process = subprocess.Popen(command, cwd=ROOT)
    while True:
        pid, status, spent = os.wait4(process.pid, os.WNOHANG)
        if first is None and out.exists():
            first = time.perf_counter() - began
        if pid:
            break
        told = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        memory = int(told[1]) / 1024 if told else memory  # none once it has ended
        time.sleep(0.02)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{command} failed")
    cpu = spent.ru_utime + spent.ru_stime
    return Used(seconds, first or seconds, cpu, memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root")
    parser.add_argument("--only", action="append", help="a case; by default all")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        for number, (name, given) in enumerate(cases(args.root, Path(made))):
            if args.only and name not in args.only:
                continue
            out, peer, docs = (Path(made) / f"{what}{number}" for what in ("model", "peer", "docs"))
            ours = used([sys.executable, "-m", "hardner", "adapt", *given, "--out", str(out)], out)
            held = DocBin(docs=[labelled_doc(s.tokens, s.spans) for s in read_labelled(given[0])])
            held.to_disk(docs)
            script = str(Path(spacy_learn.__file__))
            theirs = used([sys.executable, script, str(docs), str(peer)], peer)
            case = f"{name}, bundled model"
            for what, unit, own, other in (
                ("", "s", ours.seconds, theirs.seconds),
                (", first model", "s", ours.first, theirs.seconds),
                (", CPU", "s of CPU", ours.cpu, theirs.cpu),
                (", memory", "MB", ours.memory, theirs.memory),
            ):
                record("adapt", f"{case}{what}", DEVICE, own, other, "spaCy", unit)


if __name__ == "__main__":
    main()
