"""Is a type learnt as well beside others, in one fit, as it is alone?

    python benchmarks/several_types.py CORPORA [--samples N] [--shots K] [--minutes M]

Types that the start has not learnt: it is the encoder of experiments/encoder, which has read text
only. A sample is K training sentences of BioNLP13CG, labelled for three types; one fit learns all
three, three fits learn one each, of the same sentences by the same recipe (`quick`, one fit and no
folds, so that many samples can be tried). All are scored on devel sentences; no test sentence is
read. A line for each sample goes into benchmarks/several_types.jsonl: the F1 of each type in one
fit and alone, and the CPU seconds. What is there is not computed again, so that M minutes can
follow M others. `python benchmarks/pages` makes a table of the lines.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from tokenizers import Tokenizer

from hardner.adapt.adapter import Adapter
from hardner.adapt.fit import one_thread
from hardner.adapt.forecast import of_labels
from hardner.adapt.recipe import encoder_kind, recipe_for
from hardner.adapt.sample import Sample
from hardner.checkpoint import load_checkpoint
from hardner.corpora import Corpora
from hardner.episodes import few_shot
from hardner.evaluate.results import code_commit
from hardner.evaluate.score import score
from hardner.model.tagger import Model, Tagger
from hardner.model.transformer import PieceEncoder, Pieces, Transformer
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor
from hardner.types import Sentence

LINES = Path(__file__).with_name("several_types.jsonl")
ENCODER = Path(__file__).parents[1] / "experiments" / "encoder"
CORPUS = "BioNLP13CG"
THREES = (
    ("Cell", "Multi-tissue_structure", "Organ"),
    ("Cancer", "Gene_or_gene_product", "Simple_chemical"),
)


def start() -> Model:
    """The encoder under a tagger without heads."""
    held = load_checkpoint(ENCODER)
    tokenizer = Tokenizer.from_str(held.files["tokenizer.json"].decode())
    encoder = PieceEncoder(Transformer(**held.config["transformer"]), Pieces.by(tokenizer))
    given = {n: p for n, p in held.tensors.items() if n.startswith("encoder.")}
    tagger = Tagger(encoder, (TagSet("none", ()),))
    return Model(tagger, tagger.init(0) | given)


def only(sentence: Sentence, labels: tuple[str, ...]) -> Sentence:
    return replace(sentence, spans=tuple(s for s in sentence.spans if s.label in labels))


def f1s(
    model: Model, labels: tuple[str, ...], sample: Sample, devel: list[Sentence]
) -> dict[str, float]:
    """F1 of each label after one fit to all of them."""
    own = [only(sentence, labels) for sentence in sample.sentences]
    recipe = replace(recipe_for("quick", encoder_kind(model.tagger)), average_folds=False)
    adapter = Adapter(model, [TagSet(label, (label,)) for label in labels], recipe)
    params = adapter.fit([Sample(tuple(own), sample.seed)])
    spans = Predictor(adapter.tagger, params).spans(devel)
    found = [[span for span, _ in each] for each in spans]
    gold = [sentence.spans for sentence in devel]
    return {n: score(*(of_labels(each, [n]) for each in (gold, found))).f1 for n in labels}


def lines() -> Iterator[dict[str, object]]:
    """Those of earlier calls."""
    if LINES.exists():
        yield from map(json.loads, LINES.read_text("utf-8").splitlines())


@one_thread()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", help="Folder of the corpora.")
    parser.add_argument("--samples", type=int, default=8, help="Of each three types.")
    parser.add_argument("--shots", type=int, default=40)
    parser.add_argument("--devel", type=int, default=300, help="Sentences, at most.")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="Then no new sample.")
    args = parser.parse_args()
    corpus = Corpora.under(args.root).load(CORPUS)
    step = max(1, len(corpus.devel) // args.devel)
    devel, model = list(corpus.devel[::step]), start()
    done = {(tuple(ln["labels"]), ln["shots"], ln["sample"]) for ln in lines()}  # type: ignore[arg-type]
    began = time.monotonic()
    for number in range(args.samples):
        for labels in THREES:
            if (labels, args.shots, number) in done:
                continue
            if time.monotonic() - began > 60 * args.minutes:
                return
            rows = few_shot(CORPUS, corpus.train, args.shots, number)
            sample = Sample(tuple(corpus.train[row] for row in rows), (CORPUS, number))
            clock = [time.process_time()]
            together = f1s(model, labels, sample, devel)
            clock.append(time.process_time())
            alone = {n: f1s(model, (n,), sample, devel)[n] for n in labels}
            clock.append(time.process_time())
            line = {
                "corpus": CORPUS,
                "labels": labels,
                "shots": args.shots,
                "sample": number,
                "devel": len(devel),
                "together": {n: round(f1, 4) for n, f1 in together.items()},
                "alone": {n: round(f1, 4) for n, f1 in alone.items()},
                "cpu_seconds": [round(b - a, 1) for a, b in pairwise(clock)],
                "commit": code_commit(),
            }
            with LINES.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
