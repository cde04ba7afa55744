"""A few sentences that hold mentions, then text as it runs: what is found, and what was expected.

    python benchmarks/running.py CORPORA                              # types to choose by, devel
    python benchmarks/running.py CORPORA --protocol running           # types to report, test
    python benchmarks/running.py CORPORA --ways "as is" "20 answers" --samples 1
    python benchmarks/running.py CORPORA --shots 5 20 50 100 --samples 40 --tested 120 250 \\
        --ways "as is" --preset quick --minutes 9    # on a GPU, for benchmarks/correction.py

Types that training has left out are those of the protocols `running` and `running_devel`. The
bundled start is fitted to each sample as `hardner adapt` does it there: `quick` on a CPU, `best` on
a GPU, unless --preset says otherwise. A line for each type, sample and way (`benchmarks/ways.py`)
goes into benchmarks/running.jsonl; what is there is not computed again. A type with too few
sentences for a sample is passed over. Scores are counts of true
positives, false positives and false negatives, on all test sentences and on those with a mention;
``sure`` is the sum of the scores of all that was found. With --tested, so many sentences with and
without a mention are tested, and the counts of the latter are made as many as they are in text.
``expected`` is what cross-validation says by itself, ``signs`` what it is corrected by.
`python benchmarks/pages` makes tables of the lines.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ways import FREE, WAYS, Trial, Type

from hardner.adapt.adapter import Adapter, average_params, params_of_sample
from hardner.adapt.correction import TextScores, signs_of
from hardner.adapt.fit import one_thread
from hardner.adapt.forecast import cross_validate_all, forecast
from hardner.adapt.judge import temperatures_of
from hardner.adapt.recipe import Recipe, encoder_kind, recipe_for
from hardner.adapt.sample import FOLDS
from hardner.corpora import Corpora
from hardner.errors import HardnerError
from hardner.evaluate.protocols import protocol
from hardner.evaluate.results import code_commit
from hardner.evaluate.score import Score, score
from hardner.model.describe import load_model
from hardner.model.layers import SCORING
from hardner.model.tagger import Model
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor
from hardner.types import Sentence

LINES = Path(__file__).with_name("running.jsonl")
TAGS = TagSet("unseen", ("E",))


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

    def fit(self, trials: Sequence[Trial], way: str) -> Iterator[tuple[Trial, Predictor, float]]:
        """Each trial's model by a way, and the seconds of a processor it took; as many at once as
        the device holds."""
        began = time.process_time()
        own_way = WAYS[way]
        samples = {own_way.sample(trial): trial for trial in trials}
        adapter = self.adapter.with_recipe(replace(self.adapter.recipe, **own_way.recipe))
        judge = way == "as is" and self.forecast
        shared = judge and adapter.recipe.average_folds
        if shared:  # cross-validation fits the folds, which are then averaged
            adapter = adapter.with_recipe(replace(adapter.recipe, average_folds=False))
        groups = [[sample] for sample in samples] if own_way.teach else [list(samples)]
        for group in filter(None, groups):
            if own_way.teach:  # it knows of one trial
                adapter = adapter.taught_by(own_way.teach(samples[group[0]]))
            for some, params in adapter.fit_groups(group):
                folded = cross_validate_all(adapter, some, FOLDS) if judge else []
                for place, sample in enumerate(some):
                    trial, own = samples[sample], params_of_sample(params, place)
                    trial.folded = folded[place] if judge else None
                    temperatures: tuple[float, ...] = ()
                    if trial.folded:
                        temperatures = tuple(temperatures_of(adapter, sample, trial.folded))
                    if shared and trial.folded:
                        own = average_params([own, *(m.params for m in trial.folded.models)])
                    model = Predictor(adapter.tagger, own, temperatures, self.device)
                    if way == "as is":
                        trial.first = model
                    yield trial, model, (time.process_time() - began) / len(some)
                    began = time.process_time()

    @torch.no_grad()
    def vectors(self, sentences: Sequence[Sentence]) -> NDArray[np.float64]:
        """The mean vector of each sentence's words, by the start's encoder."""
        tagger, params = self.adapter.model
        parts = []
        for first in range(0, len(sentences), 32):
            some = sentences[first : first + 32]
            store = tagger.store_for_all(some, self.adapter.device)
            rows = torch.arange(len(some), device=self.adapter.device).unsqueeze(0)
            batch = store.batch(rows, store.widths(rows[0].cpu().numpy()))
            words = tagger.encoder(params, batch, SCORING).words[0]  # [B, T, H]
            there = torch.arange(words.shape[1], device=words.device) < batch.lengths[0][:, None]
            mean = (words * there.unsqueeze(-1)).sum(1) / batch.lengths[0][:, None]
            parts.append(mean.cpu().double().numpy())
        return np.concatenate(parts)

    def line(self, trial: Trial, way: str, model: Predictor, seconds: float) -> dict[str, Any]:
        own, test = trial.type, trial.test
        scored = model.spans(test)
        if sift := WAYS[way].sift:
            scored = sift(trial, model, scored)
        found = [[span for span, _ in spans] for spans in scored]
        rows = list(zip(test, found, strict=True))
        bearing = score(*_columns([(s.spans, spans) for s, spans in rows if s.spans]))
        free = score(*_columns([(s.spans, spans) for s, spans in rows if not s.spans]))
        alarms = round(free.fp * trial.free_weight())
        line = {
            "type": own.name,
            "shots": trial.shots,
            "sample": trial.number,
            "way": way,
            "preset": self.preset,
            "tested": len(test),
            "prevalence": round(own.prevalence, 4),
            "all": (bearing.tp, bearing.fp + alarms, bearing.fn),
            "bearing": astuple(bearing),
            "sure": round(sum(sure for spans in scored for _, sure in spans), 3),
        }
        if way == "as is" and trial.folded:
            line |= self.expected(trial, model)
        return line | {"device": self.device, "seconds": round(seconds, 2), "commit": code_commit()}

    def expected(self, trial: Trial, model: Predictor) -> dict[str, Any]:
        """What cross-validation shows, and what the model finds in text without labels."""
        large, small = trial.folded.heads[0]
        plain = forecast(large, small, trial.shots)
        scored = model.spans(trial.text()[:FREE])
        text = TextScores.of([[sure for _, sure in spans] for spans in scored])
        signs = signs_of(plain, large, trial.shots, text)
        return {
            "expected": [round(value, 4) for value in astuple(plain.f1)],
            "held_out": large.counts.sum(0).tolist(),
            "text": [text.sentences, text.found, round(text.sure, 3)],
            "signs": {name: round(value, 4) for name, value in signs.items()},
        }


def _columns(rows: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [gold for gold, _ in rows], [found for _, found in rows]


def called(preset: str, single: bool) -> str:
    return f"{preset}, one fit" if single else preset


def held() -> list[dict[str, Any]]:
    text = LINES.read_text("utf-8") if LINES.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def key(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("type", "shots", "sample", "way", "preset"))


@one_thread()
def run(args: argparse.Namespace) -> None:
    began, preset = time.monotonic(), args.preset
    plan, corpora = protocol(args.protocol), Corpora.under(args.corpora)
    bench = Bench(args.device, preset, args.model, args.single)
    there = {key(line) for line in held()}
    types: dict[str, Type] = {}
    numbers = range(args.first, args.first + args.samples)
    places = [(n, shots, name) for n in numbers for shots in args.shots for name in args.types]
    missing = [
        (name, shots, n)
        for n, shots, name in places
        if any((name, shots, n, way, bench.preset) not in there for way in args.ways)
    ]
    # A group is of one size; the sizes take turns, so that each has some when time is up.
    turn = max(1, args.at_once // len(args.types))
    missing.sort(key=lambda place: (place[2] // turn, place[1]))
    while missing and (not args.minutes or time.monotonic() - began < 60 * args.minutes):
        shots = missing[0][1]
        some = [place for place in missing if place[1] == shots][: args.at_once]
        missing = [place for place in missing if place not in some]
        trials = []
        for name, _, number in some:
            own = types.setdefault(name, Type.load(corpora, name, plan))
            try:
                trials.append(Trial(bench, own, shots, number, args.tested))
            except HardnerError as error:
                print(error, flush=True)
        for way in args.ways:
            left = [t for t in trials if (*t.seed, way, bench.preset) not in there]
            if way != "as is":  # most ways ask what the model of the sample alone finds
                for _ in bench.fit([trial for trial in left if trial.first is None], "as is"):
                    pass
            for trial, model, seconds in bench.fit(left, way):
                line = bench.line(trial, way, model, seconds)
                with LINES.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                shown = " ".join(f"{Score(*line[part]).f1:.3f}" for part in ("all", "bearing"))
                said = f"{shown} {line.get('expected', '')} {line['seconds']} s"
                print(f"{trial.type.name} {shots} {trial.number} {way}: {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    on_gpu = torch.cuda.is_available()
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--protocol", default="running_devel")
    parser.add_argument("--types", nargs="+", default=None)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["as is", "20 answers"])
    parser.add_argument("--shots", nargs="+", type=int, default=[20])
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the number of the first sample")
    parser.add_argument(
        "--tested",
        nargs=2,
        type=int,
        default=None,
        metavar=("BEARING", "FREE"),
        help="test sentences with and without a mention, at most; default: all",
    )
    parser.add_argument("--preset", default="best" if on_gpu else "quick")
    parser.add_argument("--single", action="store_true", help="one fit, quickly; no forecast")
    parser.add_argument("--model", type=Path, default=None, help="default: the bundled start")
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    parser.add_argument(
        "--at-once", type=int, default=36 if on_gpu else 1, help="samples fitted at once"
    )
    parser.add_argument("--minutes", type=float, default=0, help="begin nothing after so many")
    args = parser.parse_args()
    args.types = args.types or protocol(args.protocol).targets
    warnings.simplefilter("ignore")
    run(args)


if __name__ == "__main__":
    main()
