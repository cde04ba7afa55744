"""Going on with types that a model was adapted to, from new sentences alone.

The old ones lie in the model's folder, if its user wanted that. Learning starts afresh from all of
them: a head that went on from where it was would be judged by what it has learnt from.
"""

from dataclasses import replace

from hardner.adapt.examples import Examples, examples
from hardner.errors import HardnerError
from hardner.model.encoders import EncoderWithCopies
from hardner.tag.heads import origin_of
from hardner.tag.predictor import Predictor
from hardner.types import Sentence


def with_kept_sentences(predictor: Predictor, given: Examples) -> Examples:
    """New sentences of some labels with those that the predictor has learnt the labels from.

    What a new sentence says takes the place of what the same one said before.
    """
    predictor.check_labels(given.labels)
    if not (predictor.start or isinstance(predictor.tagger.encoder, EncoderWithCopies)):
        raise HardnerError(
            "the encoder that this model began with is not there any more, so learning cannot "
            "start afresh; adapt the model that it was made from, to all sentences"
        )
    new = {sentence.tokens for sentence in (*given.sentences, *given.partial)}
    first, *others = given.labels
    old = _kept(predictor, first)
    for label in others:
        own = _kept(predictor, label)
        if own.keys() != old.keys():
            raise HardnerError(
                f"{first} and {label} were learnt from different sentences; go on with one of "
                "them at a time"
            )
        old = {tokens: _joined(old[tokens], sentence) for tokens, sentence in own.items()}
    held = [sentence for tokens, sentence in old.items() if tokens not in new]
    both = examples([*given.sentences, *given.partial, *held], given.labels)
    note = f"learnt afresh, with {len(held)} sentences that the model has kept"
    return replace(both, notes=(*given.notes, note))


def _kept(predictor: Predictor, label: str) -> dict[tuple[str, ...], Sentence]:
    """The sentences that a label was learnt from, by their tokens."""
    origin = origin_of(predictor, label)
    if origin is None or not origin.kept:
        raise HardnerError(
            f"the model does not hold the sentences that {label} was learnt from; give them "
            "beside the new ones and leave out --continue, with --keep-sentences for the next time"
        )
    return {own.tokens: own.labelled(label) for own in origin.kept}


def _joined(one: Sentence, other: Sentence) -> Sentence:
    """A sentence with what is known of the labels of both."""
    return replace(
        one,
        spans=tuple(sorted((*one.spans, *other.spans))),
        rejected=tuple(sorted((*one.rejected, *other.rejected))),
    )
