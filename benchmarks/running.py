"""A few sentences that hold mentions, then text as it runs: what is found, and what was expected.

    python benchmarks/running.py CORPORA                              # types to choose by, devel
    python benchmarks/running.py CORPORA --protocol running           # types to report, test
    python benchmarks/running.py CORPORA --ways "as is" "20 answers" --samples 1
    python benchmarks/running.py --show                               # means of what is there

Types that training has left out are those of the protocols `running` and `running_devel`. The
bundled start is fitted to each sample as `hardner adapt` does it there: `quick` on a CPU, `best` on
a GPU, unless --preset says otherwise. A line for each type, sample and way goes into
benchmarks/running.jsonl; what is there is not computed again. Scores are counts of true positives,
false positives and false negatives, on all test sentences and on those with a mention.
"""

import argparse
import json
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from hardner.adapt.adapter import Adapter, average_params
from hardner.adapt.fit import one_thread
from hardner.adapt.forecast import cross_validate, forecast
from hardner.adapt.recipe import Recipe, encoder_kind, recipe_for
from hardner.adapt.sample import FOLDS, Sample, folds_of, parts_of
from hardner.corpora import Corpora
from hardner.episodes import distinct, few_shot, random_numbers
from hardner.evaluate.protocols import Protocol, as_tested, protocol
from hardner.evaluate.results import code_commit
from hardner.evaluate.score import Score, Scorer, score
from hardner.meta.source_data import relabelled
from hardner.model.describe import load_model
from hardner.model.tagger import Model
from hardner.schemes import TagSet
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

    def fit(self, judge: bool = False, **more: Any) -> Predictor:
        """The outcome of `hardner adapt`; with ``judge``, what it expects is kept."""
        recipe = more.pop("recipe", self.bench.adapter.recipe)
        adapter = self.bench.adapter.with_recipe(recipe)
        sample = Sample(**{"sentences": self.given, "seed": self.seed} | more)
        if not judge:
            params = adapter.fit([sample])
        else:
            self.folded = cross_validate(adapter, sample, FOLDS)
            params = adapter.with_recipe(replace(recipe, average_folds=False)).fit([sample])
            if recipe.average_folds and self.folded and not sample.unlabelled:
                params = average_params([params, *(m.params for m in self.folded.models)])
        return Predictor(adapter.tagger, params, device=str(adapter.device))

    def as_is(self) -> Predictor:
        if self.first is None:
            self.first = self.fit(judge=not self.bench.single)
        return self.first


def answers(trial: Trial, count: int) -> tuple[Sentence, ...]:
    """What a person would answer to the first questions."""
    gold = {s.tokens: s.spans for s in trial.text()}
    asked = questions(trial.as_is(), trial.text())[:count]
    said = [answered(q, q.span in gold[q.sentence.tokens]) for q in asked]
    joined: dict[tuple[str, ...], Sentence] = {}
    for s in said:
        first = joined.setdefault(s.tokens, s)
        spans = tuple(sorted({*first.spans, *s.spans}))
        rejected = tuple(sorted({*first.rejected, *s.rejected}))
        joined[s.tokens] = replace(first, spans=spans, rejected=rejected)
    return tuple(joined.values())


def reviewed(count: int, **changes: Any) -> Callable[[Trial], Predictor]:
    def way(trial: Trial) -> Predictor:
        recipe = replace(trial.bench.adapter.recipe, **changes)
        return trial.fit(partial=answers(trial, count), recipe=recipe)

    return way


def mention_free(share: float) -> Callable[[Trial], Predictor]:
    """True mention-free sentences beside the labelled ones: how much there is to be gained."""

    def way(trial: Trial) -> Predictor:
        none = trial.others("none", round(share * trial.shots), holds=False)
        return trial.fit(sentences=(*trial.given, *none))

    return way


def more_sentences(count: int) -> Callable[[Trial], Predictor]:
    """Further sentences of the text, labelled in full."""

    def way(trial: Trial) -> Predictor:
        return trial.fit(sentences=(*trial.given, *trial.others("more", count)))

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


def disagreement(least: int) -> Callable[[Trial], Predictor]:
    """What fewer of three part models find than so many is taken to be no mention."""

    def way(trial: Trial) -> Predictor:
        text = trial.text()[:FREE]
        every = [
            [{span for span, _ in spans} for spans in model.spans(text)]
            for model in (trial.as_is(), *part_models(trial))
        ]
        found = {}
        for s, *own in zip(text, *every, strict=True):
            votes = Counter(span for spans in own for span in spans)
            found[s] = {span for span, count in votes.items() if count < least}
        return trial.fit(partial=rejecting(found))

    return way


def own_heads(trial: Trial) -> Predictor:
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
    return trial.fit(partial=rejecting(found))


def quiet(share: float) -> Callable[[Trial], Predictor]:
    """The sentences in which a model finds a mention least likely are taken to hold none."""

    def way(trial: Trial) -> Predictor:
        text = trial.text()[:FREE]
        chance = [u.chance for u in trial.as_is().uncertainties(text)]
        order = sorted(range(len(text)), key=chance.__getitem__)
        count = round(share * trial.shots)
        chosen = order[len(order) // 4 : len(order) // 2]  # neither headings nor mentions
        rows = chosen[:: max(1, len(chosen) // count)][:count]
        none = [replace(text[row], spans=()) for row in rows]
        return trial.fit(sentences=(*trial.given, *none))

    return way


WAYS: dict[str, Callable[[Trial], Predictor]] = {
    "as is": Trial.as_is,
    "4 mention-free": mention_free(0.2),
    "40 mention-free": mention_free(2),
    "100 mention-free": mention_free(5),
    "10 more sentences of the text": more_sentences(10),
    "20 answers": reviewed(20),
    "50 answers": reviewed(50),
    "100 answers": reviewed(100),
    "20 answers, 3 a step": reviewed(20, partial=3),
    "20 answers, 12 a step": reviewed(20, partial=12),
    "free: found by one of four": disagreement(2),
    "free: found by two of four": disagreement(3),
    "free: other heads": own_heads,
    "free: 20 quiet sentences": quiet(1),
    "free: 60 quiet sentences": quiet(3),
    "300 unlabelled": lambda trial: trial.fit(unlabelled=tuple(trial.others("text", 300))),
}


class Bench:
    """The bundled start and how it is fitted."""

    def __init__(self, device: str, preset: str, model: Path | None, single: bool) -> None:
        folder = model or Path(str(files("hardner").joinpath("assets/start")))
        tagger, params = load_model(folder)
        start = Model(tagger, {n: p.to(device) for n, p in params.items()})
        recipe: Recipe = recipe_for(preset, encoder_kind(tagger))
        if single:
            recipe = replace(recipe, average_folds=False, restarts=1)
        self.preset, self.device, self.single = called(preset, single), device, single
        self.adapter = Adapter(start, TAGS, recipe)
        self.scorers: dict[str, Scorer] = {}

    def measure(self, trial: Trial, way: str) -> dict[str, Any]:
        """The line of a way."""
        began = time.process_time()
        model = WAYS[way](trial)
        seconds = time.process_time() - began
        own = trial.type
        scorer = self.scorers.setdefault(own.name, Scorer(own.test))
        found = scorer.predictions(model)
        bearing = [(s.spans, f) for s, f in zip(own.test, found, strict=True) if s.spans]
        counts = score([s.spans for s in own.test], found)
        line = {
            "type": own.name,
            "shots": trial.shots,
            "sample": trial.number,
            "way": way,
            "preset": self.preset,
            "tested": len(own.test),
            "prevalence": round(own.prevalence, 4),
            "all": astuple(counts),
            "bearing": astuple(score(*zip(*bearing, strict=True))) if bearing else (0, 0, 0),
        }
        if way == "as is" and trial.folded:
            f1 = forecast(trial.folded.large, trial.folded.small, trial.shots).f1
            line["expected"] = [round(value, 4) for value in (f1.value, f1.low, f1.high)]
        return line | {"device": self.device, "seconds": round(seconds, 2), "commit": code_commit()}


def called(preset: str, single: bool) -> str:
    return f"{preset}, one fit" if single else preset


def held() -> list[dict[str, Any]]:
    text = LINES.read_text("utf-8") if LINES.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def key(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("type", "shots", "sample", "way", "preset"))


def f1(counts: Sequence[int]) -> float:
    return Score(*counts).f1


def means(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Of each way, beside those of the same samples as they are: mean over types."""
    base = {(*key(line)[:3], line["preset"]): line for line in lines if line["way"] == "as is"}
    ways: defaultdict[tuple[str, int, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        ways[line["preset"], line["shots"], line["way"]].append(line)
    for (preset, shots, way), own in ways.items():
        pairs = [(line, base.get((*key(line)[:3], preset))) for line in own]
        each = []
        for part, chosen in (("all", 1.0), ("all", 0.1), ("bearing", 1.0)):
            by_type: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
            for line, as_is in pairs:
                if as_is is not None and line["prevalence"] < chosen:
                    by_type[line["type"]].append((f1(as_is[part]), f1(line[part])))
            rows = [[fmean(column) for column in zip(*v, strict=True)] for v in by_type.values()]
            before, after = [fmean(column) for column in zip(*rows, strict=True)] or (0.0, 0.0)
            each.append(f"{before:.3f} -> {after:.3f} ({len(rows)} types)")
        yield f"{preset} K={shots} {way:32} all {each[0]}, rare {each[1]}, bearing {each[2]}"


@one_thread()
def run(args: argparse.Namespace) -> None:
    plan, corpora = protocol(args.protocol), Corpora.under(args.corpora)
    preset = args.preset or ("quick" if args.device == "cpu" else "best")
    bench = Bench(args.device, preset, args.model, args.single)
    there = {key(line) for line in held()}
    for name in args.types or plan.targets:
        own = Type.load(corpora, name, plan)
        if args.tested:
            own = replace(own, test=own.test[:: max(1, len(own.test) // args.tested)])
        for number in range(args.first, args.first + args.samples):
            trial = Trial(bench, own, args.shots, number)
            for way in args.ways:
                if (name, args.shots, number, way, bench.preset) in there:
                    continue
                line = bench.measure(trial, way)
                with LINES.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                shown = f"{f1(line['all']):.3f} {f1(line['bearing']):.3f} {line.get('expected')}"
                print(f"{name} {number} {way}: {shown} {line['seconds']} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="?", type=Path)
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
    parser.add_argument("--show", action="store_true", help="print means and measure nothing")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if not args.show:
        if args.corpora is None:
            parser.error("name the folder of the corpora")
        run(args)
    for line in means(held()):
        print(line)


if __name__ == "__main__":
    main()
