"""What the bundled model finds in the test sets of the eight corpora, as it comes.

    python benchmarks/bundled.py CORPORA [MODEL]

One line a corpus in results/out_of_the_box.jsonl: strict counts, and the level to compare with
(MetaBioNER's Table 5 and scispaCy's). The corpora's own training sentences were trained on. What
has a line already is not measured again; for another model, delete the file. docs/model-card.md
shows the lines.
"""

import json
import sys
import time
from pathlib import Path

import torch

import hardner
from hardner import corpora
from hardner.evaluate.exam import Exam
from hardner.evaluate.provenance import commit
from hardner.learn.material import relabelled

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
    done = LINES.read_text("utf-8") if LINES.exists() else ""
    for name, level in LEVELS.items():
        if f'"corpus": "{name}"' in done:
            continue
        began = time.perf_counter()
        corpus = corpora.load(name, root)
        label = HEADS[corpus.domain]
        head = model.tagger.domains.index(label)
        test = [relabelled(sentence, label) for sentence in corpus.test]
        ((found,),) = [
            list(s.values()) for s in Exam(model.tagger, test, head, device)(model.params)
        ]
        score = found.score
        seconds = round(time.perf_counter() - began, 1)
        line = {"corpus": name, "label": label, "tp": score.tp, "fp": score.fp, "fn": score.fn}
        line |= {"f1": score.f1, "level": level, "seconds": seconds, "commit": commit()}
        with LINES.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"| {name} | {label} | {score.f1:.3f} | {level:.2f} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
