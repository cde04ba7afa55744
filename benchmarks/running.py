"""A few sentences that hold mentions, then text as it runs: what is found, and what was expected.

    python benchmarks/running.py CORPORA                              # types to choose by, devel
    python benchmarks/running.py CORPORA --protocol running           # types to report, test
    python benchmarks/running.py CORPORA --ways "as is" "20 answers" --samples 1

Types that training has left out are those of the protocols `running` and `running_devel`. The
bundled start is fitted to each sample as `hardner adapt` does it there: `quick` on a CPU, `best` on
a GPU, unless --preset says otherwise. A line for each type, sample and way goes into
benchmarks/running.jsonl; what is there is not computed again. Scores are counts of true positives,
false positives and false negatives, on all test sentences and on those with a mention; ``sure`` is
the sum of the scores of all that was found. `python benchmarks/pages` makes tables of the lines.
"""

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from hardner.adapt.adapter import Adapter, average_params, params_of_sample
from hardner.adapt.fit import one_thread
from hardner.adapt.forecast import cross_validate, forecast
from hardner.adapt.recipe import Recipe, encoder_kind, recipe_for
from hardner.adapt.sample import FOLDS, Sample, folds_of, parts_of
from hardner.corpora import Corpora
from hardner.episodes import distinct, few_shot, random_numbers
from hardner.evaluate.protocols import Protocol, as_tested, protocol
from hardner.evaluate.results import code_commit
from hardner.evaluate.score import Score, score
from hardner.meta.source_data import relabelled
from hardner.model.describe import load_model
from hardner.model.tagger import Model
from hardner.schemes import TagSet
from hardner.tag.engine import EncodedSentences
from hardner.tag.predictor import Predictor
from hardner.tag.review import answered, questions
from hardner.types import Sentence, Span

LINES = Path(__file__).with_name("running.jsonl")
TAGS = TagSet("unseen", ("E",))
UNLABELLED = 1000
"""Sentences of a type that questions are asked about, and that text is drawn from."""
FREE = 400
"""Of these, those that negatives are taken from without asking."""


@dataclass(frozen=True)
class Type:
    """A type to be learnt."""

    name: str
    train: tuple[Sentence, ...]
    test: tuple[Sentence, ...]

    @classmethod
    def load(cls, corpora: Corpora, name: str, plan: Protocol) -> "Type":
        found = as_tested(plan, corpora.load(name))
        return cls(name, *(tuple(relabelled(s, "E") for s in p) for p in (found.train, found.test)))

    @property
    def prevalence(self) -> float:
        return fmean(bool(s.spans) for s in self.test)


class Trial:
    """A sample of a type; what several ways need is computed once."""

    def __init__(self, bench: "Bench", own: Type, shots: int, number: int) -> None:
        self.bench, self.type, self.shots, self.number = bench, own, shots, number
        self.rows = few_shot(own.name, own.train, shots, number)
        self.given = tuple(own.train[row] for row in self.rows)
        self.seed = (own.name, shots, number)
        self.folded: Any = None
        self.first: Predictor | None = None

    def others(self, what: str, most: int, holds: bool | None = None) -> list[Sentence]:
        """Random training sentences that are not in the sample, with or without mentions."""
        train, taken = self.type.train, {self.type.train[row].tokens for row in self.rows}
        rows = [
            row
            for row, s in enumerate(train)
            if s.tokens and s.tokens not in taken and (holds is None or bool(s.spans) is holds)
        ]
        drawn = distinct(len(rows), min(most, len(rows)), random_numbers(what, *self.seed))
        return [train[rows[at]] for at in drawn]

    def text(self) -> list[Sentence]:
        """What the user has without labels; they are there only to answer questions by."""
        return self.others("text", UNLABELLED)

    def sample(self, **more: Any) -> Sample:
        return Sample(**{"sentences": self.given, "seed": self.seed} | more)

    @property
    def as_is(self) -> Predictor:
        """The model of the sample alone; `Bench.fit` has made it."""
        assert self.first is not None
        return self.first


def answers(trial: Trial, count: int) -> tuple[Sentence, ...]:
    """What a person would answer to the first questions."""
    gold = {s.tokens: s.spans for s in trial.text()}
    asked = questions(trial.as_is, trial.text())[:count]
    said = [answered(q, q.span in gold[q.sentence.tokens]) for q in asked]
    joined: dict[tuple[str, ...], Sentence] = {}
    for s in said:
        first = joined.setdefault(s.tokens, s)
        spans = tuple(sorted({*first.spans, *s.spans}))
        rejected = tuple(sorted({*first.rejected, *s.rejected}))
        joined[s.tokens] = replace(first, spans=spans, rejected=rejected)
    return tuple(joined.values())


def reviewed(count: int) -> Callable[[Trial], Sample]:
    return lambda trial: trial.sample(partial=answers(trial, count))


def mention_free(share: float) -> Callable[[Trial], Sample]:
    """True mention-free sentences beside the labelled ones: how much there is to be gained."""

    def way(trial: Trial) -> Sample:
        none = trial.others("none", round(share * trial.shots), holds=False)
        return trial.sample(sentences=(*trial.given, *none))

    return way


def more_sentences(count: int) -> Callable[[Trial], Sample]:
    """Further sentences of the text, labelled in full."""

    def way(trial: Trial) -> Sample:
        return trial.sample(sentences=(*trial.given, *trial.others("more", count)))

    return way


def part_models(trial: Trial) -> list[Predictor]:
    """Models of two thirds of the sentences each."""
    adapter, sample = trial.bench.adapter, Sample(trial.given, trial.seed)
    once = adapter.with_recipe(replace(adapter.recipe, restarts=1, average_folds=False))
    parts = parts_of(sample, folds_of(sample), adapter.recipe.replacements)
    adapter.encode([sample])
    return [
        Predictor(adapter.tagger, once.fit([part]), device=str(adapter.device)) for part in parts
    ]


def rejecting(found: dict[Sentence, set[Span]]) -> tuple[Sentence, ...]:
    return tuple(
        replace(s, spans=(), state="partial", rejected=tuple(sorted(spans)))
        for s, spans in found.items()
        if spans
    )


def disagreement(least: int) -> Callable[[Trial], Sample]:
    """What fewer of three part models find than so many is taken to be no mention."""

    def way(trial: Trial) -> Sample:
        text = trial.text()[:FREE]
        every = [
            [{span for span, _ in spans} for spans in model.spans(text)]
            for model in (trial.as_is, *part_models(trial))
        ]
        found = {}
        for s, *own in zip(text, *every, strict=True):
            votes = Counter(span for spans in own for span in spans)
            found[s] = {span for span, count in votes.items() if count < least}
        return trial.sample(partial=rejecting(found))

    return way


def own_heads(trial: Trial) -> Sample:
    """What the model's own heads call another type is no mention, where the sample shows so."""
    bundled = Predictor.load(None, trial.bench.device)
    shown: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    for s, spans in zip(trial.given, bundled.spans(trial.given), strict=True):
        for span, _ in spans:
            shown[span.label] += 1
            taken[span.label] += any(o.start < span.end and span.start < o.end for o in s.spans)
    outside = {label for label, count in shown.items() if count > 2 and not taken[label]}
    text = trial.text()[:FREE]
    found = {
        s: {
            span._replace(label="E") for span, sure in spans if span.label in outside and sure > 0.8
        }
        for s, spans in zip(text, bundled.spans(text), strict=True)
    }
    return trial.sample(partial=rejecting(found))


def quiet(share: float) -> Callable[[Trial], Sample]:
    """The sentences in which a model finds a mention least likely are taken to hold none."""

    def way(trial: Trial) -> Sample:
        text = trial.text()[:FREE]
        chance = [u.chance for u in trial.as_is.uncertainties(text)]
        order = sorted(range(len(text)), key=chance.__getitem__)
        count = round(share * trial.shots)
        chosen = order[len(order) // 4 : len(order) // 2]  # neither headings nor mentions
        rows = chosen[:: max(1, len(chosen) // count)][:count]
        none = [replace(text[row], spans=()) for row in rows]
        return trial.sample(sentences=(*trial.given, *none))

    return way


WAYS: dict[str, Callable[[Trial], Sample]] = {
    "as is": Trial.sample,
    "4 mention-free": mention_free(0.2),
    "40 mention-free": mention_free(2),
    "100 mention-free": mention_free(5),
    "10 more sentences of the text": more_sentences(10),
    "20 answers": reviewed(20),
    "50 answers": reviewed(50),
    "100 answers": reviewed(100),
    "20 answers, 3 a step": reviewed(20),
    "20 answers, 12 a step": reviewed(20),
    "20 answers, no O-bias": reviewed(20),
    "50 answers, no O-bias": reviewed(50),
    "no O-bias": Trial.sample,
    "free: found by one of four": disagreement(2),
    "free: found by two of four": disagreement(3),
    "free: other heads": own_heads,
    "free: 20 quiet sentences": quiet(1),
    "free: 60 quiet sentences": quiet(3),
    "300 unlabelled": lambda trial: trial.sample(unlabelled=tuple(trial.others("text", 300))),
}
_UNBIASED = {"o_bias": 0.0, "o_bias_density": 0.0}
CHANGES: dict[str, dict[str, Any]] = {
    "20 answers, 3 a step": {"partial": 3},
    "20 answers, 12 a step": {"partial": 12},
    "20 answers, no O-bias": _UNBIASED,
    "50 answers, no O-bias": _UNBIASED,
    "no O-bias": _UNBIASED,
}
"""Of the recipe, by way."""


class Bench:
    """The bundled start and how it is fitted."""

    def __init__(self, device: str, preset: str, model: Path | None, single: bool) -> None:
        folder = model or Path(str(files("hardner").joinpath("assets/start")))
        tagger, params = load_model(folder)
        start = Model(tagger, {n: p.to(device) for n, p in params.items()})
        recipe: Recipe = recipe_for(preset, encoder_kind(tagger))
        if single:
            recipe = replace(recipe, average_folds=False, restarts=1)
        self.preset, self.device, self.forecast = called(preset, single), device, not single
        self.adapter = Adapter(start, [TAGS], recipe)
        self.texts: dict[str, EncodedSentences] = {}

    def fit(self, trials: Sequence[Trial], way: str) -> Iterator[tuple[Trial, Predictor, float]]:
        """Each trial's model by a way, and the seconds of a processor it took; as many at once as
        the device holds."""
        began = time.process_time()
        samples = {WAYS[way](trial): trial for trial in trials}
        adapter = self.adapter.with_recipe(replace(self.adapter.recipe, **CHANGES.get(way, {})))
        judge = way == "as is" and self.forecast
        shared = judge and adapter.recipe.average_folds
        if shared:  # cross-validation fits the folds, which are then averaged
            adapter = adapter.with_recipe(replace(adapter.recipe, average_folds=False))
        for some, params in adapter.fit_groups(list(samples)):
            for place, sample in enumerate(some):
                trial, own = samples[sample], params_of_sample(params, place)
                if judge:
                    trial.folded = cross_validate(adapter, sample, FOLDS)
                if shared and trial.folded:
                    own = average_params([own, *(m.params for m in trial.folded.models)])
                model = Predictor(adapter.tagger, own, device=self.device)
                if way == "as is":
                    trial.first = model
                yield trial, model, (time.process_time() - began) / len(some)
                began = time.process_time()

    def line(self, trial: Trial, way: str, model: Predictor, seconds: float) -> dict[str, Any]:
        own = trial.type
        if own.name not in self.texts:
            self.texts[own.name] = model.encode(own.test)
        scored = model.spans(self.texts[own.name])
        found = [[span for span, _ in spans] for spans in scored]
        sure = [sure for spans in scored for _, sure in spans]
        bearing = [(s.spans, f) for s, f in zip(own.test, found, strict=True) if s.spans]
        line = {
            "type": own.name,
            "shots": trial.shots,
            "sample": trial.number,
            "way": way,
            "preset": self.preset,
            "tested": len(own.test),
            "prevalence": round(own.prevalence, 4),
            "all": astuple(score([s.spans for s in own.test], found)),
            "bearing": astuple(score(*zip(*bearing, strict=True))) if bearing else (0, 0, 0),
            "sure": round(sum(sure), 3),
        }
        if way == "as is" and trial.folded:
            large, small = trial.folded.heads[0]
            f1 = forecast(large, small, trial.shots).f1
            line["expected"] = [round(value, 4) for value in (f1.value, f1.low, f1.high)]
            line["held_out"] = large.counts.sum(0).tolist()
        return line | {"device": self.device, "seconds": round(seconds, 2), "commit": code_commit()}


def called(preset: str, single: bool) -> str:
    return f"{preset}, one fit" if single else preset


def held() -> list[dict[str, Any]]:
    text = LINES.read_text("utf-8") if LINES.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def key(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("type", "shots", "sample", "way", "preset"))


@one_thread()
def run(args: argparse.Namespace) -> None:
    plan, corpora = protocol(args.protocol), Corpora.under(args.corpora)
    preset = args.preset or ("quick" if args.device == "cpu" else "best")
    bench = Bench(args.device, preset, args.model, args.single)
    there = {key(line) for line in held()}
    names = args.types or plan.targets
    at_once = 1 if args.device == "cpu" else args.at_once
    for first in range(0, len(names), at_once):
        trials = []
        for name in names[first : first + at_once]:
            own = Type.load(corpora, name, plan)
            if args.tested:
                own = replace(own, test=own.test[:: max(1, len(own.test) // args.tested)])
            numbers = range(args.first, args.first + args.samples)
            trials += [Trial(bench, own, args.shots, number) for number in numbers]
        for way in args.ways:
            missing = [t for t in trials if (*t.seed, way, bench.preset) not in there]
            if way != "as is":  # most ways ask what the model of the sample alone finds
                before = [trial for trial in missing if trial.first is None]
                for _ in bench.fit(before, "as is"):
                    pass
            for trial, model, seconds in bench.fit(missing, way):
                line = bench.line(trial, way, model, seconds)
                with LINES.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                shown = " ".join(f"{Score(*line[part]).f1:.3f}" for part in ("all", "bearing"))
                said = f"{shown} {line.get('expected', '')} {line['seconds']} s"
                print(f"{trial.type.name} {trial.number} {way}: {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--protocol", default="running_devel")
    parser.add_argument("--types", nargs="+", default=None)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["as is", "20 answers"])
    parser.add_argument("--shots", type=int, default=20)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the number of the first sample")
    parser.add_argument("--tested", type=int, default=0, help="test sentences at most")
    parser.add_argument("--preset", default="")
    parser.add_argument("--single", action="store_true", help="one fit, quickly; no forecast")
    parser.add_argument("--model", type=Path, default=None, help="default: the bundled start")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--at-once", type=int, default=8, help="types fitted at once on a GPU")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    run(args)


if __name__ == "__main__":
    main()
