"""How many steps are enough where sentences and types are many, and what they cost.

    python benchmarks/many_sentences.py --root CORPORA [--only NAME] [--case NAME]

Types that the start has not learnt: it is the encoder of experiments/encoder, which has read text
only. A sample is 20 to 200 training sentences; a recipe is the `quick` one with fewer passes over
them, and its outcome is averaged with the fits to some folds, or not. Scored on devel sentences; no
test sentence is read. Appends a line for each recipe and case to results/ablation.jsonl: the mean
F1, and the CPU seconds of learning.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from several_types import CORPUS, THREES, only, start
from trials import LINES

from hardner.adapt.adapter import Adapter, average_params
from hardner.adapt.fit import one_thread
from hardner.adapt.forecast import of_labels
from hardner.adapt.recipe import Recipe, encoder_kind, recipe_for
from hardner.adapt.sample import Sample, folds_of, parts_of
from hardner.corpora import Corpora
from hardner.episodes import few_shot
from hardner.evaluate.results import code_commit
from hardner.evaluate.score import score
from hardner.model.tagger import Model
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor
from hardner.types import Corpus, Sentence

QUICK = replace(recipe_for("quick", "transformer"), passes=7, most_steps=240, average_folds=False)
"""What the preset once was; rows say how they differ from it. Passes are counted by its ``batch``,
also where several types have larger ones."""
TRIED: dict[str, tuple[Recipe, int]] = {
    "7 passes": (QUICK, 3),
    "7 passes, 2 folds": (QUICK, 2),
    "7 passes, no folds": (QUICK, 0),
    "5 passes, no folds": (replace(QUICK, passes=5), 0),
    "4 passes, no folds": (replace(QUICK, passes=4), 0),
    "5 passes": (replace(QUICK, passes=5), 3),
    "5 passes, 2 folds": (replace(QUICK, passes=5), 2),
    "4 passes": (replace(QUICK, passes=4), 3),
    "3 passes": (replace(QUICK, passes=3), 3),
}
"""Recipes, and the folds whose fits the outcome is a mean of, beside that to all sentences."""
ONE_TYPE = (
    ("BioNLP13CG", "Cell"),
    ("BioNLP13CG", "Multi-tissue_structure"),
    ("CoNLL2003", "PER"),
    ("BC5CDR-disease", "Disease"),
)
TEN_TYPES = "BioNLP13CG"


class Case(NamedTuple):
    """Types that are learnt in one fit."""

    corpus: str
    labels: tuple[str, ...]
    shots: int


def cases(corpora: Corpora) -> Iterator[tuple[str, list[Case]]]:
    """By name."""
    for shots in (20, 50, 100):
        own = [Case(name, (label,), shots) for name, label in ONE_TYPE]
        yield f"one type, {shots} sentences", own
    yield "three types, 40 sentences", [Case(CORPUS, labels, 40) for labels in THREES]
    labels = [span.label for s in corpora.load(TEN_TYPES).train for span in s.spans]
    frequent = sorted(set(labels), key=lambda label: -labels.count(label))[:10]
    yield "ten types, 200 sentences", [Case(TEN_TYPES, tuple(frequent), 200)]


def learnt(
    model: Model,
    case: Case,
    corpus: Corpus,
    number: int,
    tried: tuple[Recipe, int],
    devel: list[Sentence],
) -> tuple[float, float]:
    """The mean devel F1 of the labels, and the CPU seconds of learning."""
    recipe, folds = tried
    rows = few_shot(case.corpus, corpus.train, case.shots, number)
    own = tuple(only(corpus.train[row], case.labels) for row in rows)
    more = (recipe.batch_of(len(case.labels)) / recipe.batch) ** 0.5
    recipe = replace(recipe, passes=recipe.passes * more)  # `Recipe.inner` divides by it
    adapter = Adapter(model, [TagSet(label, (label,)) for label in case.labels], recipe)
    sample = Sample(own, (case.corpus, number))
    adapter.encode([sample])
    cut = folds_of(sample, folds) if folds else []
    parts = parts_of(sample, cut, recipe.replacements, adapter.types)
    began = time.process_time()
    params = average_params([adapter.fit([part]) for part in (sample, *parts)])
    seconds = time.process_time() - began
    spans = Predictor(adapter.tagger, params).spans(devel)
    found = [[span for span, _ in each] for each in spans]
    gold = [sentence.spans for sentence in devel]
    pairs = ((of_labels(each, [label]) for each in (gold, found)) for label in case.labels)
    return statistics.mean(score(*pair).f1 for pair in pairs), seconds


@one_thread()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default="../shared/corpora")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first sample")
    parser.add_argument("--devel", type=int, default=400, help="sentences of a corpus, at most")
    parser.add_argument("--only", action="append", choices=TRIED, help="by default all")
    parser.add_argument("--case", action="append", help="by default all")
    args = parser.parse_args()
    corpora, model = Corpora.under(args.root), start()
    for case, own in cases(corpora):
        if args.case and case not in args.case:
            continue
        for name in args.only or TRIED:
            found: list[tuple[float, float]] = []
            for one in own:
                corpus = corpora.load(one.corpus)
                devel = list(corpus.devel[:: max(1, len(corpus.devel) // args.devel)])
                for number in range(args.first, args.first + args.samples):
                    found.append(learnt(model, one, corpus, number, TRIED[name], devel))
                    print(name, one.corpus, one.labels[0], number, found[-1], flush=True)
            f1, seconds = (statistics.mean(column) for column in zip(*found, strict=True))
            recipe, folds = TRIED[name]
            values: dict[str, Any] = asdict(recipe) | {"parts": sorted(QUICK.parts)}
            line = {"change": name, "encoder": encoder_kind(model.tagger), "many": case}
            line |= {"types": [[one.corpus, *one.labels] for one in own]}
            line |= {
                "shots": own[0].shots,
                "samples": args.samples,
                "first": args.first,
                "recipe": values,
                "folds": folds,
            }
            line |= {"f1": round(f1, 5), "f1s": [round(pair[0], 5) for pair in found]}
            line |= {"cpu_seconds": round(seconds, 2), "commit": code_commit()}
            with LINES.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(case, name, round(f1, 4), round(seconds, 1), flush=True)


if __name__ == "__main__":
    main()
