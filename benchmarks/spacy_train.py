"""hardner's adaptation against spaCy's training on the same few sentences: F1 and CPU time.

    python benchmarks/spacy_train.py CORPORA

Types that the bundled model has not seen, a fifth of the sentences without a mention. What spaCy
learns, `spacy_learn.py` says. Strict F1 on devel sentences as they run; CPU seconds of learning
alone, both with one thread. The time and memory of whole commands are in `adapt.py`.
"""

import sys
import time
from collections.abc import Sequence

import torch
from record import record
from spacy.tokens import Doc
from spacy_learn import labelled_doc, trained
from thresholds import TRIED, drawn, only

from hardner.adapt.workflow import adapt_predictor
from hardner.corpora import Corpora
from hardner.evaluate.score import score
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span

TYPES = (
    ("CoNLL2003", "PER"),
    ("MIT-restaurant", "Cuisine"),
    ("wikigold", "ORG"),
    ("MIT-movie", "actor"),
)
SIZES = (20,)
DEVICE = "cpu, 1 thread"


def spacy_spans(
    given: Sequence[Sentence], tried: Sequence[Sentence]
) -> tuple[float, list[list[Span]]]:
    """CPU seconds of spaCy's training, and what it then finds."""
    began = time.process_time()
    nlp, averages = trained([labelled_doc(s.tokens, s.spans) for s in given])
    seconds = time.process_time() - began
    with nlp.use_params(averages):
        docs = [nlp(Doc(nlp.vocab, words=list(sentence.tokens))) for sentence in tried]
        return seconds, [[Span(e.start, e.end, e.label_) for e in doc.ents] for doc in docs]


def main() -> None:
    torch.set_num_threads(1)
    corpora, start = Corpora.under(sys.argv[1]), Predictor.load()
    for size in SIZES:
        f1: list[tuple[float, float]] = []
        took: list[tuple[float, float]] = []
        for name, label in TYPES:
            corpus = corpora.load(name)
            train, every = only(corpus.train, label), only(corpus.devel or corpus.test, label)
            running = every[:: max(1, len(every) // TRIED)][:TRIED]
            gold, given = [sentence.spans for sentence in running], drawn(train, size)
            began = time.process_time()
            ours = adapt_predictor(start, given, label, force=True).predictor
            ours_took = time.process_time() - began
            found = [[span for span, _ in own] for own in ours.spans(running)]
            theirs_took, theirs = spacy_spans(given, running)
            f1.append((score(gold, found).f1, score(gold, theirs).f1))
            took.append((ours_took, theirs_took))
            case = f"{size} sentences, {label} of {name}, F1"
            record("spacy train", case, DEVICE, *f1[-1], "spaCy", "of 1")
        for what, pairs, unit in (("F1", f1, "of 1"), ("CPU seconds", took, "s")):
            case = f"{size} sentences of {len(TYPES)} types, {what}"
            means = [sum(column) / len(pairs) for column in zip(*pairs, strict=True)]
            record("spacy train", case, DEVICE, means[0], means[1], "spaCy", unit)


if __name__ == "__main__":
    main()
