"""Are suggested sentences worth more than random ones? Ten rounds of ten on each corpus.

    python benchmarks/suggest.py --corpora DIR --model 'runs/best-{domain}' [--corpus NAME]...

A simulated curator labels ten sentences a round, out of a pool of training sentences; after each
round the model is fitted anew to all that is labelled and scored on the test set. Two curators
work from the same pools: one labels what `suggest` names, the other takes sentences at random.
In the first round nothing is labelled yet, and `suggest` goes by the heads that the model has for
other types. In --model, {domain} stands for the corpus's domain in lower case: the model must not
have been trained on it, and heads that bear its name or labels are not asked. Each seed has a pool
of its own; all seeds and both curators are fitted as one computation. Appends to
benchmarks/results.jsonl: the mean F1 of all rounds, that of the last, and what there was to read.
Needs torch, numpy, safetensors and tokenizers only. On a CPU take fewer --seeds, --pool and --test.
"""

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from record import record

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from hardner import corpora
from hardner.adapt.adapter import Adapter, params_of_sample
from hardner.adapt.recipe import Recipe, encoder_kind, recipe_for
from hardner.adapt.sample import Sample
from hardner.catalogue import BENCHMARK
from hardner.episodes import distinct, random_numbers
from hardner.evaluate.score import ErrorCounts, Scorer
from hardner.model.describe import load_model
from hardner.model.layers import Params
from hardner.model.tagger import Model, Tagger
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor
from hardner.tag.suggest import Shortlist, diversify, words_of
from hardner.tag.uncertainty import Uncertainty
from hardner.types import Corpus

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
WHERE = torch.cuda.get_device_name() if GPU else f"cpu, {torch.get_num_threads()} threads"


@dataclass(frozen=True)
class Setting:
    """How much is done."""

    rounds: int
    size: int
    """Sentences a round."""
    seeds: int
    pool: int
    """Training sentences to choose from, of each seed."""
    test: int
    """Test sentences."""
    rule: Recipe


@dataclass(frozen=True)
class Curve:
    """How one curator fared, the mean of all seeds."""

    f1: tuple[float, ...]
    """After each round."""
    words: float
    """Of all labelled sentences."""


class Bench:
    """A corpus, a model that has not seen it, and a pool for each seed."""

    def __init__(self, corpus: Corpus, tagger: Tagger, params: Params, setting: Setting) -> None:
        self.corpus, self.setting = corpus, setting
        self.sources = tagger
        labels = sorted({span.label for s in corpus.train for span in s.spans})
        self.tag_set = TagSet(corpus.domain, tuple(labels), tagger.tag_sets[0].scheme)
        self.params = {n: p.to(DEVICE) for n, p in params.items()}
        self.adapter = Adapter(Model(tagger, self.params), [self.tag_set], setting.rule)
        own = {corpus.name, corpus.domain, *labels}
        others = (t.labels for t in tagger.tag_sets if own.isdisjoint((t.domain, *t.labels)))
        self.labels = sorted({label for labels in others for label in labels})
        if not self.labels:
            sys.exit(f"the model has heads for {corpus.domain} only: nothing to start from")
        draws = [random_numbers("pool", corpus.name, seed) for seed in range(setting.seeds)]
        size = min(setting.pool, len(corpus.train))
        self.pools = [distinct(len(corpus.train), size, draw) for draw in draws]
        self.used = sorted({row for pool in self.pools for row in pool})
        wanted = min(setting.test, len(corpus.test))
        test = sorted(distinct(len(corpus.test), wanted, random_numbers("test", corpus.name)))
        self.scorer = Scorer([corpus.test[row] for row in test])

    def run(self) -> tuple[Curve, Curve]:
        """Of the suggested and of the random sentences."""
        seeds, size = range(self.setting.seeds), self.setting.size
        suggested: list[list[int]] = [[] for _ in seeds]
        fitted: list[Params] | None = None
        scores: list[list[float]] = []
        for number in range(self.setting.rounds):
            for seed, more in enumerate(self.suggested(suggested, fitted)):
                suggested[seed] += more
            drawn = [pool[: (number + 1) * size] for pool in self.pools]
            fitted = self.fitted([*suggested, *drawn], number)
            taggers = [Predictor(self.adapter.tagger, own, device=DEVICE) for own in fitted]
            found = [self.scorer(tagger) for tagger in taggers]
            scores.append([sum(parts.values(), ErrorCounts()).score.f1 for parts in found])
            _say(number, scores[-1])
        halves = [[row[: len(seeds)] for row in scores], [row[len(seeds) :] for row in scores]]
        return self.curve(halves[0], suggested), self.curve(halves[1], drawn)

    def suggested(
        self, labelled: Sequence[Sequence[int]], fitted: list[Params] | None
    ) -> list[list[int]]:
        """The next sentences of each seed, filled up at random where too few are suggested."""
        train, size = self.corpus.train, self.setting.size
        held = [Shortlist(1_000) for _ in labelled]
        shown = [Counter(w for row in rows for w in words_of(train[row])) for rows in labelled]
        for short, rows in zip(held, labelled, strict=True):
            for row in rows:
                short.refuse(train[row])
        member = [set(pool) for pool in self.pools]
        for row, found in self.read(fitted):
            for seed, short in enumerate(held):
                if row in member[seed]:
                    short.add(row, train[row], found[seed % len(found)])
        chosen = []
        for seed, short in enumerate(held):
            names = [c.place for c in diversify(short.best(), size, shown[seed])]
            rest = [row for row in self.pools[seed] if row not in {*names, *labelled[seed]}]
            chosen.append([*names, *rest][:size])
        return chosen

    def read(self, fitted: list[Params] | None) -> Iterator[tuple[int, list[Uncertainty]]]:
        """Rows of training sentences, and what each seed's model is unsure of in them."""
        sentences = [self.corpus.train[row] for row in self.used]
        models, labels = [Predictor(self.sources, self.params, device=DEVICE)], self.labels
        if fitted is not None:
            ours = fitted[: self.setting.seeds]  # the rest learnt random sentences
            models = [Predictor(self.adapter.tagger, own, device=DEVICE) for own in ours]
            labels = list(models[0].labels)
        each = [model.uncertainties(sentences, labels=labels) for model in models]
        yield from zip(self.used, map(list, zip(*each, strict=True)), strict=True)

    def fitted(self, rows: Sequence[Sequence[int]], number: int) -> list[Params]:
        """The model fitted to each list of training sentences."""
        seeds = self.setting.seeds
        samples = [
            Sample(
                tuple(self.corpus.train[row] for row in own),
                (self.corpus.name, number, task % seeds),
            )
            for task, own in enumerate(rows)
        ]
        return [
            params_of_sample(params, i)
            for some, params in self.adapter.fit_groups(samples)
            for i in range(len(some))
        ]

    def curve(self, scores: list[list[float]], rows: Sequence[Sequence[int]]) -> Curve:
        """The mean over seeds."""
        words = [sum(len(self.corpus.train[row]) for row in own) for own in rows]
        return Curve(tuple(statistics.mean(row) for row in scores), statistics.mean(words))


def _say(number: int, scores: Sequence[float]) -> None:
    half = len(scores) // 2
    ours, random = statistics.mean(scores[:half]), statistics.mean(scores[half:])
    print(f"  round {number + 1}: suggested {ours:.3f}, random {random:.3f}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", default="../shared/corpora")
    parser.add_argument(
        "--model", required=True, help="A folder; {domain} for the left-out domain."
    )
    parser.add_argument("--corpus", action="append", choices=BENCHMARK)
    parser.add_argument("--preset", default="best", help="Of the adaptation.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--size", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--pool", type=int, default=2_000)
    parser.add_argument("--test", type=int, default=100_000)
    parser.add_argument("--steps", type=int, help="Of the adaptation, if not the preset's.")
    args = parser.parse_args()
    for name in args.corpus or BENCHMARK:
        start = time.perf_counter()
        corpus = corpora.load_corpus(name, args.corpora)
        tagger, params = load_model(args.model.format(domain=corpus.domain.lower()))
        rule = recipe_for(args.preset, encoder_kind(tagger))
        if args.steps:
            rule = replace(rule, steps=args.steps, passes=0.0)
        setting = Setting(args.rounds, args.size, args.seeds, args.pool, args.test, rule)
        print(name, file=sys.stderr)
        ours, random = Bench(corpus, tagger, params, setting).run()
        much = f"{args.rounds} rounds of {args.size}, {args.seeds} seeds"
        lines = (
            ("mean F1 of the rounds", statistics.mean(ours.f1), statistics.mean(random.f1), "of 1"),
            ("F1 after the last", ours.f1[-1], random.f1[-1], "of 1"),
            ("words to read", ours.words, random.words, "words"),
        )
        for what, mine, other, unit in lines:
            case = f"{name}, {much}, {what}"
            record("suggest", case, WHERE, mine, other, "random sentences", unit)
        print(f"  {time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
