"""How F1 moves between single precision and the arithmetic that users and the evaluation run.

    python benchmarks/decoding_paths.py CORPORA [CORPUS ...]

The bundled start is fitted on the CPU to 20 sentences of each benchmark corpus as `hardner adapt`
fits it, twice. The same parameters then tag up to 500 test sentences two ways: with the encoder in
single precision, and as `Predictor` runs it here (bfloat16 where the CPU multiplies it). The start
was trained on sentences of these corpora, so the figures themselves say little; their difference
is what counts. A line for each corpus in benchmarks/results.jsonl, and one of all sentences.
"""

import sys
from unittest.mock import patch

from record import record

from hardner import corpora
from hardner.adapt.adapter import Adapter
from hardner.adapt.recipe import recipe_for
from hardner.adapt.sample import Sample
from hardner.catalogue import BENCHMARK
from hardner.episodes import few_shot
from hardner.evaluate.score import ErrorCounts, Scorer
from hardner.meta.source_data import relabelled
from hardner.model.describe import load_model
from hardner.model.layers import Params, cpu_has_bfloat16
from hardner.model.tagger import Model
from hardner.schemes import TagSet
from hardner.tag.predictor import BUNDLED_START, Predictor

SHOTS, SAMPLES, TESTED = 20, 2, 500


def counts(adapter: Adapter, params: Params, scorer: Scorer) -> ErrorCounts:
    """What a predictor of fitted parameters gets right and wrong."""
    found = scorer(Predictor(adapter.tagger, params))
    return sum(found.values(), ErrorCounts())


def measure(name: str, root: str) -> tuple[ErrorCounts, ErrorCounts]:
    """The counts of both ways on one corpus, all samples together."""
    corpus = corpora.load_corpus(name, root)
    train = [relabelled(sentence, "E") for sentence in corpus.train]
    step = max(1, len(corpus.test) // TESTED)
    scorer = Scorer([relabelled(s, "E") for s in corpus.test[::step][:TESTED]])
    recipe = recipe_for("quick", "transformer")
    adapter = Adapter(Model(*load_model(BUNDLED_START)), [TagSet("unseen", ("E",))], recipe)
    plain, users = ErrorCounts(), ErrorCounts()
    for number in range(SAMPLES):
        rows = few_shot(name, train, SHOTS, number)
        params = adapter.fit([Sample(tuple(train[row] for row in rows), (name, number))])
        users += counts(adapter, params, scorer)
        with patch("hardner.tag.engine._half", lambda device: None):
            plain += counts(adapter, params, scorer)
    return users, plain


def tell(case: str, users: ErrorCounts, plain: ErrorCounts) -> None:
    """Record both figures, and print how far they lie apart."""
    device = "cpu, bfloat16" if cpu_has_bfloat16() else "cpu, float32"
    ours, peer = users.score.f1, plain.score.f1
    record("decoding paths", case, device, ours, peer, "single precision", "F1, of 1")
    print(f"{case}: {ours:.4f} as users run it, {ours - peer:+.4f}", flush=True)


if __name__ == "__main__":
    root, *names = sys.argv[1:]
    every = (ErrorCounts(), ErrorCounts())
    for name in names or BENCHMARK:
        both = measure(name, root)
        tell(f"{name}, {SHOTS} sentences, {SAMPLES} samples", *both)
        every = (every[0] + both[0], every[1] + both[1])
    if not names:
        tell(f"all, {SHOTS} sentences, {SAMPLES} samples", *every)
