"""The same counts as `hardner.evaluate.score`, from tags on a device, of many models at once."""

from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple

import torch
from torch import Tensor

from hardner.batch import TagSet
from hardner.evaluate.score import Breakdown
from hardner.schemes import parse_tag

COUNTED = tuple(field.name for field in fields(Breakdown))
_OPENERS = frozenset("BS")


class TagMarks(NamedTuple):
    """What tags say of each word, whatever their scheme."""

    starts: Tensor
    """Whether a mention starts here."""
    labels: Tensor
    """Of the mention that the word is in, as an index from 1; 0 in none."""


def marks_of(tag_set: TagSet, labels: Sequence[str], device: torch.device) -> TagMarks:
    """The marks of each tag of a scheme whose mentions open with B or S: two of [C + 1].

    The last is that of no tag, so that -1, which pads, finds it.
    """
    parsed = [parse_tag(tag) for tag in tag_set.tags]
    starts = [prefix in _OPENERS for prefix, _ in parsed]
    index = [0 if prefix == "O" else labels.index(label) + 1 for prefix, label in parsed]
    to = torch.device(device)
    return TagMarks(torch.tensor([*starts, False], device=to), torch.tensor([*index, 0], device=to))


def read_marks(table: TagMarks, tags: Tensor) -> TagMarks:
    """The marks of tags [M, B, T] that the scheme allows; -1 is padding."""
    return TagMarks(table.starts[tags], table.labels[tags])


def count_outcomes(gold: TagMarks, predicted: TagMarks, labels: int) -> Tensor:
    """The parted score of each model and label: marks [M|1, B, T] -> [M, labels, COUNTED]."""
    starts, found = predicted
    gold = TagMarks(*(mark.expand_as(starts) for mark in gold))
    ends_right, ends_found = _ends(gold), _ends(predicted)
    same = (gold.labels == found) & (found > 0)
    touching = (gold.labels > 0) & (found > 0)
    right = gold.starts & starts & same & (ends_right == ends_found)
    parts = [right]
    for wrong, ends in ((starts & ~right, ends_found), (gold.starts & ~right, ends_right)):
        boundary, overlap = _any(same, ends), _any(touching, ends)
        parts += [wrong & boundary, wrong & overlap & ~boundary, wrong & ~overlap]
    owners = [found] * 4 + [gold.labels] * 3
    sums = torch.zeros(len(parts), len(starts), labels + 1, dtype=torch.long, device=starts.device)
    for row, part, owner in zip(sums, parts, owners, strict=True):
        row.scatter_add_(1, owner.flatten(1), part.flatten(1).long())
    return sums[:, :, 1:].permute(1, 2, 0)


def _ends(marks: TagMarks) -> Tensor:
    """Where a mention that starts at a word ends: [M, B, T]."""
    goes_on = (marks.labels > 0) & ~marks.starts
    width = goes_on.shape[-1]
    place = torch.arange(1, width + 1, device=goes_on.device).expand_as(goes_on)
    after = torch.nn.functional.pad(goes_on[..., 1:], (0, 1))  # whether the next word is inside
    stops = place.masked_fill(after, width)
    return stops.flip(-1).cummin(-1).values.flip(-1)


def _any(marked: Tensor, ends: Tensor) -> Tensor:
    """Whether any word from here to where the mention ends is marked: [M, B, T]."""
    before = torch.nn.functional.pad(marked.cumsum(-1), (1, 0))  # [M, B, T + 1]
    return before.gather(-1, ends) > before[..., :-1]
