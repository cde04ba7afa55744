"""The CoNLL reader against a bare loop over the same lines: time and memory.

    python benchmarks/reading.py ../shared/corpora

Reads the three files of BC4CHEMD, as they lie and decompressed, and appends to
benchmarks/results.jsonl. Fails where the reader takes, on the files as they lie, more than three
times the loop's time, or more than 100 MB above the interpreter.
"""

import lzma
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from record import record

from hardner.formats.conll import read_sentences

ROUNDS = 7
MOST_TIME, MOST_MEMORY = 3.0, 100.0
DEVICE = "cpu, 1 thread"
PEER = "for line: line.split"


def main(root: Path) -> int:
    packed = [root / "BC4CHEMD" / f"{split}.tsv.xz" for split in ("train", "devel", "test")]
    with tempfile.TemporaryDirectory() as folder:
        plain = [Path(folder, path.stem) for path in packed]
        for source, target in zip(packed, plain, strict=True):
            target.write_bytes(lzma.decompress(source.read_bytes()))
        for case, paths in (("BC4CHEMD, plain", plain), ("BC4CHEMD, .xz", packed)):
            ours, bare = alternate([lambda p=paths: read(p), lambda p=paths: loop(p)])
            record("reading", case, DEVICE, ours, bare, PEER, "s")
    used = [megabytes(code, packed) for code in (STREAM, LOOP)]
    record("reading", "BC4CHEMD, .xz, memory", DEVICE, *used, PEER, "MB")
    return int(ours / bare > MOST_TIME or used[0] > MOST_MEMORY)


def read(paths: Sequence[Path]) -> None:
    for path in paths:
        for _ in read_sentences(path):
            pass


def loop(paths: Sequence[Path]) -> None:
    for path in paths:
        opened = lzma.open if path.suffix == ".xz" else open
        with opened(path, "rt", encoding="utf-8") as file:
            for line in file:
                line.split("\t")


def alternate(runs: Sequence[Callable[[], None]]) -> list[float]:
    """Median seconds of each, one after the other in every round."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, taken in zip(runs, times, strict=True):
            begun = time.perf_counter()
            run()
            taken.append(time.perf_counter() - begun)
    return [median(taken) for taken in times]


MEASURE = r"""
import re, sys
{imports}
peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024
before = peak()
for path in sys.argv[1:]:
    {body}
print(peak() - before)
"""
STREAM = MEASURE.format(
    imports="from hardner.formats.conll import read_sentences",
    body="for _ in read_sentences(path): pass",
)
LOOP = MEASURE.format(
    imports="import lzma",
    body="for line in lzma.open(path, 'rt', encoding='utf-8'): line.split()",
)


def megabytes(code: str, paths: Sequence[Path]) -> float:
    """The most memory that a process of its own takes above what it started with (on Linux)."""
    command = [sys.executable, "-c", code, *map(str, paths)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
