"""How far the F1 that `hardner adapt` says to expect can be trusted.

    python benchmarks/forecast.py CORPORA 'runs/types-{domain}/model'

A model that has not seen a domain is adapted to twenty sentences of each of its corpora, as a user
would adapt it on a CPU; what it expects is then compared with the strict F1 on devel sentences,
all of them and those with a mention, which is what the twenty are like. A line each in
results/forecast.jsonl; docs/limitations.md sums them up.
"""

import json
import sys
from pathlib import Path

from hardner import corpora
from hardner.adapt.workflow import adapt_predictor
from hardner.catalogue import BENCHMARK
from hardner.episodes import few_shot
from hardner.evaluate.results import code_commit
from hardner.evaluate.score import ErrorCounts, Scorer
from hardner.tag.predictor import Predictor
from hardner.types import Sentence

SHOTS, SAMPLES = 20, 2
DEVEL = 500
"""Sentences, at most."""
LINES = Path(__file__).parents[1] / "results" / "forecast.jsonl"


def f1(predictor: Predictor, sentences: list[Sentence]) -> float:
    return sum(Scorer(sentences)(predictor).values(), ErrorCounts()).score.f1


def main() -> None:
    root, models = Path(sys.argv[1]), sys.argv[2]
    LINES.parent.mkdir(exist_ok=True)
    LINES.unlink(missing_ok=True)
    for name in BENCHMARK:
        corpus = corpora.load_corpus(name, root)
        start = Predictor.load(models.format(domain=corpus.domain.lower()))
        devel = list(corpus.devel[:: max(1, len(corpus.devel) // DEVEL)][:DEVEL])
        for sample in range(SAMPLES):
            given = [corpus.train[row] for row in few_shot(name, corpus.train, SHOTS, sample)]
            predictor, report = adapt_predictor(start, given, force=True)
            assert report.expected is not None
            said = report.expected.f1
            line = {"corpus": name, "shots": SHOTS, "sample": sample, "expected": said.value}
            line |= {"low": said.low, "high": said.high, "devel": f1(predictor, devel)}
            line |= {
                "bearing": f1(predictor, [s for s in devel if s.spans]),
                "commit": code_commit(),
            }
            with LINES.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{name} {sample}: {said} {line['devel']:.3f} {line['bearing']:.3f}", flush=True)


if __name__ == "__main__":
    main()
