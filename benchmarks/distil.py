"""What is left of a model in its distilled form, how fast that is, and what it costs.

    python benchmarks/distil.py CORPORA TEXT [--work DIR]

`hardner adapt` learns two types of BioNLP13CG from 60 training sentences, and `hardner distil`
makes a small model of that from TEXT, by its defaults for a CPU. The small model is scored against
what its teacher finds in devel sentences and in those of TEXT behind what was read, and both on the
devel sentences' labels. Speed is by the seconds of one core. Both models lie in DIR afterwards, and
are not made again; lines go into benchmarks/results.jsonl.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from record import record

from hardner.cli.distil import text_sentences
from hardner.corpora import Corpora
from hardner.episodes import few_shot
from hardner.evaluate.score import score
from hardner.formats import Report, write
from hardner.tag.predictor import Predictor
from hardner.types import Document, Sentence

CORPUS, LABELS = "BioNLP13CG", ("Cancer", "Multi-tissue_structure")
SHOTS = 60
READ = 16_000
"""Sentences of TEXT that the command reads."""
FURTHER = 4_000
"""Those behind them that the small model is scored on."""
DEVICE = "cpu, 1 thread"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", help="Folder of the corpora.")
    parser.add_argument("text", type=Path)
    parser.add_argument("--work", type=Path, help="Where models are kept; default: nowhere.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as aside:
        folder = args.work or Path(aside)
        folder.mkdir(parents=True, exist_ok=True)
        corpus = Corpora.under(args.root).load(CORPUS)
        rows = few_shot(CORPUS, corpus.train, SHOTS, 0)
        given = [only(corpus.train[row]) for row in rows]
        write([Document("d", "", sentences=given)], folder / "given.tsv", report=Report())
        teacher, student = folder / "teacher", folder / "student"
        call("adapt", folder / "given.tsv", "--out", teacher)
        seconds = call("distil", teacher, args.text, "--out", student)
        measure(teacher, student, args.text, [only(s) for s in corpus.devel])
        if seconds is not None:
            record("distil", f"from {READ:,} sentences", DEVICE, seconds, None, "", "s of CPU")


def only(sentence: Sentence) -> Sentence:
    """A sentence with the mentions of the two types alone."""
    return replace(sentence, spans=tuple(s for s in sentence.spans if s.label in LABELS))


def call(*words: object) -> float | None:
    """Run a command unless its output is there; the seconds of CPU that it took."""
    *_, out = words
    if Path(str(out)).is_dir():
        return None
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = [sys.executable, "-m", "hardner", *map(str, words), "--device", "cpu"]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def measure(teacher: Path, student: Path, text: Path, devel: Sequence[Sentence]) -> None:
    torch.set_num_threads(1)
    further = list(islice(text_sentences([text], None, READ + FURTHER), READ, None))
    models = [Predictor.load(folder) for folder in (teacher, student)]
    found, pace = [], []
    for model in models:
        model.spans(further[:50])
        began = time.process_time()
        found.append([[span for span, _ in row] for row in model.spans(further)])
        pace.append(sum(map(len, further)) / (time.process_time() - began))
    gold = [s.spans for s in devel]
    own = [[[span for span, _ in row] for row in model.spans(devel)] for model in models]
    for where, pair in (("devel sentences of the corpus", own), ("sentences of other text", found)):
        mentions, count = sum(map(len, pair[0])), len(pair[0])
        case = f"F1 against the teacher: {mentions} mentions in {count:,} {where}"
        record("distil", case, DEVICE, round(score(*pair).f1, 4), None, "", "of 1")
    case = f"F1 on the labels of these {len(devel):,} devel sentences, {', '.join(LABELS)}"
    f1 = [round(score(gold, spans).f1, 4) for spans in own]
    record("distil", case, DEVICE, f1[1], f1[0], "the teacher", "of 1")
    record("distil", "tagging", DEVICE, round(pace[1]), round(pace[0]), "the teacher", "words/s")


if __name__ == "__main__":
    main()
