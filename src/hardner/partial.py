"""What is known of sentences that were labelled in part, as rules for their paths of tags.

Of such a sentence its spans and its rejected spans are known, and nothing else. A path of tags
agrees with that if each span is a mention in it, exactly so, and no rejected span is: a longer or
a shorter mention at the same place, or none at all, agrees with a rejection.

A rule says which tag may follow which at one step of a path, from a token to the next. Spans are
conditions on such steps alone. A rejected one is not, as whether a mention may end at a step
depends on where it began. So a path that begins a mention where a rejected one begins goes over to
another *track*, a copy of all tags. It may not leave it where the rejected one ends, and comes back
where the mention ends elsewhere or has grown longer. What agrees is then summed by the same
recursion as all paths, and nothing is subtracted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardner.errors import HardnerError
from hardner.schemes import continues, parse_tag
from hardner.types import Sentence

_Rule = NDArray[np.bool_]


class PartialRules(NamedTuple):
    """The rules of some sentences."""

    steps: list[NDArray[np.int64]]
    """Of each sentence, the row of its rule in the table for each step, from before its first token
    to behind its last; 0 where nothing is known. Empty for a sentence that is known to its end."""
    table: _Rule
    """Which tag of which track may follow which: [rules, N, N], with N tracks times tags. The last
    tag of a track is the one outside of a sentence; paths begin and end in that of the first."""


@dataclass
class _Watch:
    """A token where rejected spans begin."""

    start: int
    ends: dict[str, set[int]] = field(default_factory=dict)
    """By label."""
    track: int = 0

    @property
    def last(self) -> int:
        return max(max(ends) for ends in self.ends.values())


class _Tags(NamedTuple):
    """The tags of a tag set and the one outside."""

    goes_on: _Rule  # [S, S], whether a tag (column) continues the mention of the one before (row)
    labels: NDArray[np.str_]  # [S], empty for no mention

    @classmethod
    def of(cls, tags: Sequence[str], size: int) -> "_Tags":
        goes_on, labels = np.zeros((size, size), bool), ["" for _ in range(size)]
        goes_on[: len(tags), : len(tags)] = continues(tags)
        labels[1 : len(tags)] = [f"-{parse_tag(tag)[1]}" for tag in tags[1:]]
        return cls(goes_on, np.array(labels))

    def has(self, label: str) -> _Rule:
        """Whether each tag is of a label, which may be empty: [S]."""
        found: _Rule = self.labels == f"-{label}"
        return found


def partial_rules(
    sentences: Sequence[Sentence], tags: Sequence[Sequence[str]], size: int
) -> PartialRules:
    """The rules of sentences.

    Args:
        sentences: Their rejected spans of labels without a tag say nothing.
        tags: That each may have.
        size: Of a track: the most tags, and the one outside.
    """
    known = {own: _Tags.of(own, size) for own in {tuple(own) for own in tags}}
    each = [known[tuple(own)] for own in tags]
    watched = [_watches(s, own) for s, own in zip(sentences, each, strict=True)]
    tracks = 1 + max((w.track for own in watched for w in own), default=0)
    free = _rule(Sentence(()), each[0], [], tracks, 0)
    rows = {free.tobytes(): 0}
    steps = []
    for sentence, own, watches in zip(sentences, each, watched, strict=True):
        count = 0 if sentence.is_done else len(sentence) + 1
        rules = (_rule(sentence, own, watches, tracks, at).tobytes() for at in range(count))
        steps.append(np.array([rows.setdefault(r, len(rows)) for r in rules], np.int64))
    table = np.frombuffer(b"".join(rows), bool).reshape(len(rows), tracks * size, tracks * size)
    return PartialRules(steps, table)


def _watches(sentence: Sentence, tags: _Tags) -> list[_Watch]:
    """Where rejected spans begin; those that overlap are on different tracks."""
    if sentence.is_done:
        return []
    if both := set(sentence.spans).intersection(sentence.rejected):
        start, end, label = min(both)
        words = " ".join(sentence.tokens[start:end])
        raise HardnerError(f"{words!r} is labelled {label!r} and rejected in one sentence")
    found: dict[int, _Watch] = {}
    for start, end, label in sorted(sentence.rejected):
        if tags.has(label).any():
            found.setdefault(start, _Watch(start)).ends.setdefault(label, set()).add(end)
    busy: list[int] = []  # until which token, for each track but the first
    for watch in found.values():
        track = next((i for i, last in enumerate(busy) if last <= watch.start), len(busy))
        busy[track : track + 1] = [watch.last]
        watch.track = track + 1
    return list(found.values())


def _rule(
    sentence: Sentence, tags: _Tags, watches: Sequence[_Watch], tracks: int, at: int
) -> _Rule:
    """Which tag of which track may follow which at the step to a token: [K, S, K, S]."""
    goes_on, size = tags.goes_on, len(tags.labels)
    rule = np.zeros((tracks, size, tracks, size), bool)
    opened = next((watch for watch in watches if watch.start == at), _Watch(at))
    begun = np.zeros(size, bool)
    for label in opened.ends:
        begun |= tags.has(label)
    inside = {watch.track: watch for watch in watches if watch.start < at <= watch.last}
    for track in (0, *inside):
        turns = ~goes_on
        watch = inside.get(track)
        if watch is not None:
            for label, ends in watch.ends.items():
                if at in ends:
                    turns[tags.has(label)] = False
        stays = watch is not None and at < watch.last
        rule[track, :, track if stays else 0] |= goes_on
        rule[track, :, 0] |= turns & ~begun
        rule[track, :, opened.track] |= turns & begun
    for start, end, label in sentence.spans:
        if at == start:
            rule &= (~goes_on & tags.has(label))[None, :, None]
        elif start < at < end:
            rule &= goes_on[None, :, None]
        elif at == end:
            rule &= ~goes_on[None, :, None]
    return rule
