"""The tags and scores of one head, in numpy, as `hardner.tag.engine` finds them with torch.

Everything is in double precision. What a scheme forbids has a score of minus infinity.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardner.features import Ints
from hardner.schemes import TagSet, allowed, continues
from hardner.tag.windows import TagRun, tag_runs

Floats = NDArray[np.float64]


class NumpyHead(NamedTuple):
    """A head's scores, divided by its temperature, for words of H numbers and C tags."""

    tag_set: TagSet
    weight: Floats  # [H, C]
    bias: Floats  # [C]
    transitions: Floats  # [C, C], from and to
    start: Floats  # [C]
    end: Floats  # [C]

    @classmethod
    def of(
        cls, tag_set: TagSet, decoder: Mapping[str, NDArray[Any]], temperature: float
    ) -> "NumpyHead":
        """A head of a decoder: ``weight`` [C', H] and so on, of which only its own C tags count."""
        tags = len(tag_set.tags)
        own = {n: value.astype(np.float64) / temperature for n, value in decoder.items()}
        first, follow, last = (_limit(some) for some in allowed(tag_set.tags, tag_set.scheme))
        if "transitions" in own:  # else each word has a softmax of its own
            follow = follow + own["transitions"][:tags, :tags]
            first, last = first + own["start"][:tags], last + own["end"][:tags]
        return cls(tag_set, own["weight"][:tags].T, own["bias"][:tags], follow, first, last)

    def decode(self, words: Floats, lengths: Ints) -> list[tuple[TagRun, float]]:
        """The mentions of some sentences, words [B, T, H] and lengths [B], and their scores."""
        scores = words @ self.weight + self.bias  # [B, T, C]
        runs = tag_runs(self._best_paths(scores, lengths)[None], [self.tag_set])
        return [*zip(runs, self._probabilities(scores, lengths, runs), strict=True)]

    def _best_paths(self, scores: Floats, lengths: Ints) -> Ints:
        """Viterbi: the best tags, 0 in the padding, [B, T]."""
        # delta_t(y) = max_x (delta_t-1(x) + A[x, y]) + e_t(y)
        best = self.start + scores[:, 0]  # [B, C]
        came = np.zeros(scores.shape, np.int64)
        stays = np.arange(len(self.bias))
        for t in range(1, scores.shape[1]):
            steps = best[:, :, None] + self.transitions  # [B, C, C]
            there = (t < lengths)[:, None]
            came[:, t] = np.where(there, steps.argmax(1), stays)
            best = np.where(there, steps.max(1) + scores[:, t], best)
        path = np.zeros(scores.shape[:2], np.int64)
        rows, tag = np.arange(len(scores)), (best + self.end).argmax(1)  # [B]
        for t in range(scores.shape[1] - 1, -1, -1):
            path[:, t] = np.where(t < lengths, tag, 0)
            tag = came[rows, t, tag]
        return path

    def _probabilities(self, scores: Floats, lengths: Ints, runs: Sequence[TagRun]) -> list[float]:
        """That the tokens of each run have its tags and that its span goes on at neither side."""
        if not runs:
            return []
        # Most sentences hold no span: only the others are gone through.
        rows = sorted({run.row for run in runs})
        place = {row: i for i, row in enumerate(rows)}
        scores, lengths = scores[rows], lengths[rows]
        scores = scores[:, : lengths.max()]
        before, behind, total = self._sweep(scores, lengths)
        goes_on = np.array(continues(self.tag_set.tags))  # [C, C]
        enter = np.where(goes_on, -np.inf, self.transitions)
        found = []
        for run in runs:
            row, (start, end, _), tags = place[run.row], run.span, np.array(run.tags)
            own = scores[row]
            value = own[np.arange(start, end), tags].sum()
            value += self.transitions[tags[:-1], tags[1:]].sum() - total[row]
            left, right = tags[0], tags[-1]
            value += (
                _log_sum(before[row, start - 1] + enter[:, left]) if start else self.start[left]
            )
            value += (
                _log_sum(enter[right] + own[end] + behind[row, end])
                if end < lengths[row]
                else self.end[right]
            )
            found.append(float(np.exp(value)))
        return found

    def _sweep(self, scores: Floats, lengths: Ints) -> tuple[Floats, Floats, Floats]:
        """Log sums over the paths up to each tag and onward from it, [B, T, C], and over all."""
        before, behind = np.empty_like(scores), np.empty_like(scores)
        before[:, 0] = self.start + scores[:, 0]
        behind[:, -1] = self.end
        for t in range(1, scores.shape[1]):
            on = _log_sum(before[:, t - 1, :, None] + self.transitions, 1) + scores[:, t]
            before[:, t] = np.where((t < lengths)[:, None], on, before[:, t - 1])
        for t in range(scores.shape[1] - 2, -1, -1):
            on = _log_sum(self.transitions + (scores[:, t + 1] + behind[:, t + 1])[:, None], 2)
            behind[:, t] = np.where((t + 1 < lengths)[:, None], on, self.end)
        return before, behind, _log_sum(before[:, -1] + self.end, 1)


def _limit(permitted: Any) -> Floats:
    return np.where(permitted, 0.0, -np.inf)


def _log_sum(values: Floats, axis: int = 0) -> Any:
    """The log of the sum of the exponentials; minus infinity where all are."""
    most = values.max(axis, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - most).sum(axis)) + most.squeeze(axis)
