"""Whether a precision that a threshold promises is kept on other sentences of the kind.

    python benchmarks/thresholds.py CORPORA

The bundled model is adapted to types that it has not seen, of a fifth of sentences without a
mention, as a user would adapt it. `Predictor.thresholds_for` then chooses thresholds, which are
tried on devel sentences: those with a mention, and all as they run. Means over the types for
which something was promised; the types here are others than the estimate was chosen on.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace

from record import record

from hardner.adapt.report import AdaptationRefused
from hardner.adapt.workflow import adapt_predictor
from hardner.corpora import Corpora
from hardner.errors import HardnerError
from hardner.evaluate.score import Score, score
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, seed_of

TYPES = (
    ("CoNLL2003", "PER"),
    ("MIT-movie", "rating"),
    ("MIT-movie", "actor"),
    ("MIT-restaurant", "Cuisine"),
    ("MIT-restaurant", "Rating"),
    ("wikigold", "ORG"),
)
SIZES = (20,)
PRECISIONS = (0.7, 0.8, 0.9)
LONGEST, TRIED = 60, 800


def only(sentences: Sequence[Sentence], label: str) -> list[Sentence]:
    """The sentences with the mentions of one label."""
    return [
        replace(s, spans=tuple(sorted({span for span in s.spans if span.label == label})))
        for s in sentences
        if 3 < len(s) < LONGEST
    ]


def drawn(sentences: Sequence[Sentence], size: int) -> list[Sentence]:
    """Four fifths with a mention, one without."""
    order = sorted(sentences, key=lambda s: seed_of("thresholds", *s.tokens))
    plain = [s for s in order if not s.spans][: size // 5]
    return [*plain, *[s for s in order if s.spans][: size - len(plain)]]


def tried(model: Predictor, sentences: Sequence[Sentence], least: dict[str, float]) -> Score:
    found = model.spans(sentences, min_score=least)
    return score([s.spans for s in sentences], [[span for span, _ in own] for own in found])


def main() -> None:
    corpora, start = Corpora.under(sys.argv[1]), Predictor.load()
    kept: dict[float, list[tuple[Score, Score]]] = {precision: [] for precision in PRECISIONS}
    fits = 0
    for name, label in TYPES:
        corpus = corpora.load(name)
        train, every = only(corpus.train, label), only(corpus.devel or corpus.test, label)
        running = every[:: max(1, len(every) // TRIED)][:TRIED]
        bearing = [sentence for sentence in running if sentence.spans]
        for size in SIZES:
            try:
                model = adapt_predictor(start, drawn(train, size), label, force=True).predictor
            except AdaptationRefused as error:
                print(name, label, size, error, flush=True)
                continue
            fits += 1
            for precision in PRECISIONS:
                try:
                    least = model.thresholds_for(precision)
                except HardnerError:
                    continue
                pair = tried(model, bearing, least), tried(model, running, least)
                kept[precision].append(pair)
                print(name, label, size, precision, least, *(s.precision for s in pair), flush=True)
    for precision, pairs in kept.items():
        for place, what in enumerate(("sentences with a mention", "text as it runs")):
            scores = [pair[place] for pair in pairs]
            case = f"precision {precision} promised for {len(pairs)} of {fits}, {what}"
            if scores:
                mean = sum(s.precision for s in scores) / len(scores)
                record("thresholds", case, "cpu", mean, precision, "promised", "precision, of 1")


if __name__ == "__main__":
    main()
