"""How much word vectors say about types: python benchmarks/vectors.py PEER OURS --root CORPORA

Each of two files is probed by a logistic regression on a word's vector alone. It is fitted to a
few training sentences, other ones than the table of results draws, and finds mentions in devel
sentences: neighbouring words that are taken for parts of one are one. The strict F1, the mean over
the benchmark's corpora and samples, is appended to benchmarks/results.jsonl.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from record import record
from sklearn.linear_model import LogisticRegression

from hardner import corpora
from hardner.catalogue import BENCHMARK
from hardner.episodes import few_shot
from hardner.evaluate.score import score
from hardner.meta.source_data import relabelled
from hardner.schemes import spans_to_tags, tags_to_spans
from hardner.types import Sentence
from hardner.vectors import load_vectors

SAMPLES, DEVEL, SURE = 5, 300, 0.3
"""Samples, devel sentences of a corpus, and how likely a word must be part of a mention."""
Floats = NDArray[np.float64]


class Probe:
    """Word vectors of unit length; of unknown words, nothing."""

    def __init__(self, path: Path, sentences: Sequence[Sentence]) -> None:
        words = {word for sentence in sentences for word in sentence.tokens}
        found = load_vectors(path, words | {word.lower() for word in words})
        rows = found.matrix.double().numpy()
        rows /= np.linalg.norm(rows, axis=1, keepdims=True) + 1e-6
        self._rows = dict(zip(found.words, rows, strict=True))
        self._none = np.zeros(found.dimension)

    def __call__(self, sentences: Sequence[Sentence]) -> Floats:
        """[words, D]."""
        every = [word for sentence in sentences for word in sentence.tokens]
        found = (self._rows.get(w, self._rows.get(w.lower(), self._none)) for w in every)
        return np.stack(list(found))


def inside(sentences: Sequence[Sentence]) -> list[bool]:
    """Whether each word is part of a mention."""
    return [t != "O" for s in sentences for t in spans_to_tags(s.spans, len(s.tokens))]


def f1(probe: Probe, few: Sequence[Sentence], devel: Sequence[Sentence]) -> float:
    """Of the regression that a few sentences make."""
    fitted = LogisticRegression(C=10.0, max_iter=500).fit(probe(few), inside(few))
    sure = fitted.predict_proba(probe(devel))[:, 1] > SURE
    ends = np.cumsum([len(sentence.tokens) for sentence in devel])[:-1]
    found = []
    for part in np.split(sure, ends):
        tags = ["O" if not t else "I-E" if i and part[i - 1] else "B-E" for i, t in enumerate(part)]
        found.append(tags_to_spans(tags)[0])
    return score([sentence.spans for sentence in devel], found).f1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", type=Path)
    parser.add_argument("ours", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--text", default="the same text", help="what both were learnt from")
    args = parser.parse_args()
    both = (args.ours, args.peer)
    scores: dict[tuple[Path, int], list[float]] = {}
    for name in BENCHMARK:
        whole = corpora.load_corpus(name, args.root)
        train = [relabelled(s, "E") for s in whole.train]
        devel = [relabelled(s, "E") for s in whole.devel[:: max(1, len(whole.devel) // DEVEL)]]
        for path in both:
            probe = Probe(path, [*train, *devel])
            for shots in (5, 20, 100):
                for sample in range(SAMPLES):
                    rows = few_shot(f"{name}, trial", train, shots, sample)
                    found = f1(probe, [train[row] for row in rows], devel)
                    scores.setdefault((path, shots), []).append(found)
    for shots in (5, 20, 100):
        ours, peer = (float(np.mean(scores[path, shots])) for path in both)
        case = f"{args.ours.stem}, {shots} sentences, {args.text}"
        record("vectors", case, "CPU, 2 cores", ours, peer, args.peer.stem, "F1, of 1")


if __name__ == "__main__":
    main()
