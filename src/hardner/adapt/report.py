"""What came of an adaptation: a row for each type."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardner.adapt.forecast import Forecast
from hardner.errors import HardnerError

Outcome = Literal["learnt", "kept", "left out"]
"""Of a type: learnt; found by the model's own head, as before; not found by the new model."""
_APART = 0.1
"""Precision and recall that differ by this much are named as what limits a type."""
_WORTHWHILE = 0.02
"""More sentences are asked for where they are expected to bring this much F1."""


@dataclass(frozen=True)
class TypeReport:
    """What was learnt of one type, and what to expect."""

    label: str
    outcome: Outcome
    sentences: int
    """Those that hold a mention."""
    mentions: int
    expected: Forecast | None = None
    """None where there are too few mentions to hold any out."""
    known: tuple[str, float] | None = None
    """The model's own label that does best on the sentences as it is, and its F1."""
    description: str = ""
    """What the user said it means."""
    began: bool | None = None
    """Whether learning began with that; None where no decoder was made of it."""
    limit: str = ""
    """What keeps it from doing better, if that is known."""
    reason: str = ""
    """Why it was not learnt."""
    notes: tuple[str, ...] = ()
    """What the user should know, a line each."""


@dataclass(frozen=True)
class AdaptationReport:
    """What was learnt from, and what to expect of each type."""

    types: tuple[TypeReport, ...]
    sentences: int
    seconds: float
    unlabelled: int = 0
    """Sentences without labels that were learnt from as well."""
    notes: tuple[str, ...] = ()
    """What the user should know, a line each, those of types included."""

    @property
    def learnt(self) -> frozenset[str]:
        """The types that were learnt."""
        return frozenset(one.label for one in self.types if one.outcome == "learnt")

    @property
    def kept(self) -> frozenset[str]:
        """The types that the model's own heads find, as before."""
        return frozenset(one.label for one in self.types if one.outcome == "kept")

    @property
    def left_out(self) -> tuple[TypeReport, ...]:
        """The types that were given and are not found."""
        return tuple(one for one in self.types if one.outcome == "left out")

    # Of an adaptation to one type:

    @property
    def label(self) -> str:
        """The only type."""
        return self._only.label

    @property
    def mentions(self) -> int:
        """The mentions of all types."""
        return sum(one.mentions for one in self.types)

    @property
    def expected(self) -> Forecast | None:
        """What to expect of the only type."""
        return self._only.expected

    @property
    def known(self) -> tuple[str, float] | None:
        """What the model knew of the only type."""
        return self._only.known

    @property
    def _only(self) -> TypeReport:
        if len(self.types) != 1:
            raise AttributeError(f"there are {len(self.types)} types: see `types`")
        return self.types[0]


def limit_of(counts: NDArray[np.float64], expected: Forecast) -> str:
    """What keeps a type from doing better, by its held-out counts [K, 3] and forecast."""
    right, spurious, missed = counts.sum(0).tolist()
    precision = right / max(right + spurious, 1)
    recall = right / max(right + missed, 1)
    said = []
    if not right:
        said.append("nothing held out was found")
    elif recall < precision - _APART:
        said.append(f"mentions are missed (recall {recall:.2f}, precision {precision:.2f})")
    elif precision < recall - _APART:
        said.append(f"too much is found (precision {precision:.2f}, recall {recall:.2f})")
    gain, lost = expected.gain.value, 0.0
    more = [f"few sentences: {expected.more} more bring about {gain:+.2f}"] * (gain >= _WORTHWHILE)
    if expected.on_text:
        lost = expected.f1.value - expected.on_text.value
    none = [
        f"no sentences without a mention: {lost:.2f} of F1 is lost on text as it runs, where a few "
        "of them help, and answers of hardner review"
    ] * (lost >= _APART)
    return "; ".join(said + (none + more if lost > gain else more + none))


class AdaptationRefused(HardnerError):
    """An adaptation that would do harm, and why."""

    types: Sequence[TypeReport] = ()
    """What came of each type, where none could be learnt."""
