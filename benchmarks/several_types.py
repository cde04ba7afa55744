"""Is a type learnt as well beside others, in one fit, as it is alone?

    python benchmarks/several_types.py --root CORPORA [--samples N] [--shots K]

Types that the start has not learnt: it is the encoder of experiments/encoder, which has read text
only. A sample is K training sentences of BioNLP13CG, labelled for three types; one fit learns all
three, three fits learn one each, of the same sentences by the same recipe (`quick`, one fit and no
folds, so that many samples can be tried). All are scored on devel sentences; no test sentence is
read. Appends a line for each three types and one for all to benchmarks/results.jsonl: the mean F1
of the types in one fit, and of each learnt alone.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

from record import record
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from hardner.adapt.adapter import Adapter
from hardner.adapt.fit import one_thread
from hardner.adapt.forecast import of_labels
from hardner.adapt.recipe import encoder_kind, recipe_for
from hardner.adapt.sample import Sample
from hardner.checkpoint import load_checkpoint
from hardner.corpora import Corpora
from hardner.episodes import few_shot
from hardner.evaluate.score import score
from hardner.model.tagger import Model, Tagger
from hardner.model.transformer import PieceEncoder, Pieces, Transformer
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor
from hardner.types import Sentence

ENCODER = Path(__file__).parents[1] / "experiments" / "encoder"
CORPUS = "BioNLP13CG"
THREES = (
    ("Cell", "Multi-tissue_structure", "Organ"),
    ("Cancer", "Gene_or_gene_product", "Simple_chemical"),
)
DEVICE = "cpu, 1 thread"


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


@one_thread()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default="../shared/corpora")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--shots", type=int, default=40)
    parser.add_argument("--devel", type=int, default=300, help="Sentences, at most.")
    args = parser.parse_args()
    corpus = Corpora.under(args.root).load(CORPUS)
    step = max(1, len(corpus.devel) // args.devel)
    devel, model = list(corpus.devel[::step]), start()
    means: list[tuple[float, float]] = []
    for labels in THREES:
        pairs: list[tuple[float, float]] = []
        for number in range(args.samples):
            began = time.process_time()
            rows = few_shot(CORPUS, corpus.train, args.shots, number)
            sample = Sample(tuple(corpus.train[row] for row in rows), (CORPUS, number))
            together = f1s(model, labels, sample, devel)
            middle = time.process_time()
            alone = {
                n: f1 for name in labels for n, f1 in f1s(model, (name,), sample, devel).items()
            }
            ended = time.process_time()
            pairs += [(together[name], alone[name]) for name in labels]
            seconds = round(middle - began, 1), round(ended - middle, 1)
            print(json.dumps([number, together, alone, seconds]), flush=True)
        ours, theirs = (statistics.mean(column) for column in zip(*pairs, strict=True))
        case = f"{', '.join(labels)}; {args.shots} sentences, {args.samples} samples, mean devel F1"
        record("three types in one fit", case, DEVICE, ours, theirs, "a fit each", "of 1")
        means.append((ours, theirs))
    ours, theirs = (statistics.mean(column) for column in zip(*means, strict=True))
    record("three types in one fit", "mean of both", DEVICE, ours, theirs, "a fit each", "of 1")


if __name__ == "__main__":
    main()
