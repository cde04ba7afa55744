"""spaCy's training on a few sentences: what hardner's adaptation is measured against.

    python benchmarks/spacy_learn.py SENTENCES.spacy OUT

spaCy learns an entity recogniser from nothing (its CPU network without word vectors, dropout .1, 60
epochs in batches of 4, averaged parameters), as no vectors or transformers come with it. A process
of its own, so that `adapt.py` can take its time and memory.
"""

import random
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.util import filter_spans, fix_random_seed, minibatch

EPOCHS, BATCH = 60, 4


def labelled_doc(words: Sequence[str], spans: Iterable[tuple[int, int, str]]) -> Doc:
    """A sentence with its entities; of those that overlap, the longest."""
    doc = Doc(spacy.blank("en").vocab, words=list(words))
    doc.set_ents(filter_spans([Span(doc, *span) for span in spans]))
    return doc


def trained(labelled: Sequence[Doc]) -> tuple[Language, dict[Any, Any]]:
    """A pipeline that has learnt the entities of some documents, and its averaged parameters."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    words = ([token.text for token in doc] for doc in labelled)
    bare = (Doc(nlp.vocab, words=own) for own in words)
    examples = [Example(doc, right) for doc, right in zip(bare, labelled, strict=True)]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(EPOCHS):
        random.shuffle(examples)
        for batch in minibatch(examples, BATCH):
            nlp.update(batch, sgd=optimizer, drop=0.1)
    return nlp, optimizer.averages


if __name__ == "__main__":
    held = DocBin().from_disk(sys.argv[1])
    learnt, averages = trained(list(held.get_docs(spacy.blank("en").vocab)))
    with learnt.use_params(averages):
        learnt.to_disk(sys.argv[2])
