"""How a predictor's own labels do on the sentences of new ones, where these can judge them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardner.adapt.examples import Examples
from hardner.adapt.forecast import count_spans, f1_of
from hardner.model.encoders import EncoderWithCopies
from hardner.seeds import seed_of
from hardner.tag.predictor import Predictor


class PriorScores(NamedTuple):
    """What a predictor makes of the sentences as it is."""

    counts: Mapping[str, Mapping[str, NDArray[np.float64]]]
    """By new label and by label of the predictor, `count_spans` of the one in place of the other.
    Labels that have learnt from the sentences cannot be judged by them, and are left out."""
    best: Mapping[str, tuple[str, float]]
    """By new label, the label of the predictor that does best, and its F1."""
    taught: Mapping[str, int]
    """How many of the sentences each label of the predictor has learnt from, if any."""

    @classmethod
    def of(cls, predictor: Predictor, given: Examples) -> "PriorScores":
        """Tag the sentences, and count."""
        taught = _taught(predictor, given)
        found = predictor.spans(given.sentences)
        places = {
            name: [[span[:2] for span, _ in own if span.label == name] for own in found]
            for name in predictor.labels
            if name not in taught
        }
        counts, best = {}, {}
        for label in given.labels:
            gold = [[span[:2] for span in sentence.spans] for sentence in given.of(label)]
            counts[label] = {name: count_spans(gold, own) for name, own in places.items()}
            scores = {name: f1_of(own) for name, own in counts[label].items()}
            if scores:
                name = max(scores, key=lambda one: scores[one])
                best[label] = (name, scores[name])
        return cls(counts, best, taught)

    def leaks(self, predictor: Predictor, given: Examples) -> Iterator[str]:
        """What is said of labels that the sentences cannot judge."""
        learnt = " and ".join(given.labels) + (" is" if len(given.labels) == 1 else " are")
        for label, count in self.taught.items():
            yield (
                f"the model's own {label} has learnt from {count} of the sentences, which cannot "
                f"judge it; {learnt} learnt afresh from all of them"
            )
        branched = isinstance(predictor.tagger.encoder, EncoderWithCopies)
        if self.taught and not (predictor.start or branched):
            yield "the model that learning starts from has seen them too: expect less than is said"


def hashes_of(given: Examples) -> frozenset[int]:
    """What a model remembers of the sentences that it has learnt from."""
    return frozenset(seed_of(*s.tokens) for s in (*given.sentences, *given.partial))


def _taught(predictor: Predictor, given: Examples) -> dict[str, int]:
    texts = hashes_of(given)
    found: dict[str, int] = {}
    for tag_set in predictor.tagger.tag_sets:
        if count := len(texts.intersection(predictor.learnt.get(tag_set.domain, ()))):
            found |= dict.fromkeys(tag_set.labels, count)
    return found
