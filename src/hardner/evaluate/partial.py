"""Lenient scores by the package nervaluate (extra ``hardner[partial]``), as SemEval 2013 has them.

``strict``: same ends and label; ``exact``: same ends; ``partial``: any overlap, which counts half
where the ends differ; ``type``: any overlap with the same label.
"""

from importlib import import_module
from typing import Any, NamedTuple

from hardner.errors import HardnerError
from hardner.evaluate.score import Labelled

_NAMES = {"strict": "strict", "exact": "exact", "partial": "partial", "type": "ent_type"}


class Ratios(NamedTuple):
    """What a lenient match has in place of counts."""

    precision: float
    recall: float
    f1: float


def lenient_scores(gold: Labelled, predicted: Labelled) -> dict[str, Ratios]:
    """The scores of all sentences by each kind of match."""
    try:
        nervaluate: Any = import_module("nervaluate")
    except ImportError:
        raise HardnerError(
            "partial matches need nervaluate: pip install hardner[partial]"
        ) from None
    right, found = _documents(gold), _documents(predicted)
    labels = sorted({span["label"] for document in right + found for span in document})
    if not labels:
        return dict.fromkeys(_NAMES, Ratios(0.0, 0.0, 0.0))
    overall = nervaluate.Evaluator(right, found, labels, loader="dict").evaluate()["overall"]
    ours = {name: overall[theirs] for name, theirs in _NAMES.items()}
    return {name: Ratios(r.precision, r.recall, r.f1) for name, r in ours.items()}


def _documents(sentences: Labelled) -> list[list[dict[str, Any]]]:
    """As nervaluate reads them: the end is the last word."""
    return [
        [{"label": s.label, "start": s.start, "end": s.end - 1} for s in spans]
        for spans in sentences
    ]
