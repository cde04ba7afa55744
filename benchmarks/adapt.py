"""How long `hardner adapt` takes, until a first model and in all, and how much memory.

    python benchmarks/adapt.py [--root CORPORA]

The whole command, its start and cross-validation included, without a test file: with the twenty
example sentences; with --root also with 1,000 unlabelled sentences of BioNLP13CG beside them, with
100 sentences of it and one type, and with 200 and ten types. Run it while the machine has nothing
else to do; CPU seconds say more where it has. Appends to benchmarks/results.jsonl.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from record import record

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        for number, (name, given) in enumerate(cases(args.root, Path(made))):
            out, first = Path(made) / f"model{number}", None
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "hardner", "adapt", *given, "--out", str(out)]
            began = time.perf_counter()
            with subprocess.Popen(command, cwd=ROOT) as process:
                while process.poll() is None:
                    if first is None and out.exists():
                        first = time.perf_counter() - began
                    time.sleep(0.05)
            seconds = time.perf_counter() - began
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = sum(
                getattr(used, what) - getattr(before, what) for what in ("ru_utime", "ru_stime")
            )
            case = f"{name}, bundled model"
            record("adapt", case, DEVICE, seconds, None, "", "s")
            record("adapt", f"{case}, first model", DEVICE, first or seconds, None, "", "s")
            record("adapt", f"{case}, CPU", DEVICE, cpu, None, "", "s of CPU")
            memory = used.ru_maxrss / 1024  # of the largest so far
            record("adapt", f"{case}, memory", DEVICE, memory, None, "", "MB")


if __name__ == "__main__":
    main()
