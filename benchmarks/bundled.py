"""What the bundled model finds in the test sets of the eight corpora, as it comes.

    python benchmarks/bundled.py CORPORA [MODEL]

Two lines a corpus in results/out_of_the_box.jsonl, one of the head as it is and one of the head
that follows the corpus's own guidelines (`hardner model follow`): strict counts, and the level to
compare with (MetaBioNER's Table 5 and scispaCy's). The corpora's own training sentences were
trained on. What has a line already is not measured again; for another model, delete the file.
docs/model-card.md shows the lines.
"""

import json
import sys
import time
from pathlib import Path

import torch

import hardner
from hardner import corpora
from hardner.evaluate.results import code_commit
from hardner.evaluate.score import Scorer
from hardner.meta.source_data import relabelled
from hardner.tag.guidelines import follow_guidelines

HEADS = {"Disease": "Disease", "Drug": "Chemical", "Gene": "Gene", "Species": "Species"}
LEVELS = {
    "NCBI-disease": 0.84,
    "BC5CDR-disease": 0.82,
    "BC5CDR-chem": 0.91,
    "BC2GM": 0.80,
    "JNLPBA": 0.75,
    "LINNAEUS": 0.85,
    "S800": 0.76,
    "BC4CHEMD": 0.88,
}
LINES = Path(__file__).parents[1] / "results" / "out_of_the_box.jsonl"


def main() -> None:
    root = Path(sys.argv[1])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = hardner.load(sys.argv[2] if len(sys.argv) > 2 else None, device=device)
    LINES.parent.mkdir(exist_ok=True)
    lines = LINES.read_text("utf-8").splitlines() if LINES.exists() else []
    done = {(line["corpus"], line["guideline"]) for line in map(json.loads, lines)}
    for name, level in LEVELS.items():
        guidelines = ("",) if len(sys.argv) > 2 else ("", name)  # the bundled model's alone
        left = [guideline for guideline in guidelines if (name, guideline) not in done]
        if not left:
            continue
        corpus = corpora.load_corpus(name, root)
        label = HEADS[corpus.domain]
        test = [relabelled(sentence, label) for sentence in corpus.test]
        for guideline in left:
            began = time.perf_counter()
            own = follow_guidelines(model, [guideline]) if guideline else model
            score = Scorer(test)(own, label)[label].score
            seconds = round(time.perf_counter() - began, 1)
            line = {"corpus": name, "label": label, "guideline": guideline}
            line |= {"tp": score.tp, "fp": score.fp, "fn": score.fn, "f1": score.f1}
            line |= {"level": level, "seconds": seconds, "commit": code_commit()}
            with LINES.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"| {name} | {label} | {guideline} | {score.f1:.3f} | {level:.2f} |", flush=True)


if __name__ == "__main__":
    main()
