"""Sentences as tensors: encoded once, kept on the device, batched by a gather."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hardner.errors import HardnerError
from hardner.features import Features, Ints, bucket, group_by_width
from hardner.partial import partial_rules
from hardner.schemes import TagSet, spans_to_tags
from hardner.types import Sentence

FULL = 0.75
"""Laid end to end on a GPU only where less than this share of a padded batch is filled."""
LONGEST_SENTENCE = 4096
"""The most values that lie end to end there, as attention compares each with each."""
_CPU_STEP = 32
"""A multiple of this many lie end to end on a CPU: oneDNN prepares its products for each size."""


class PartialLabels(NamedTuple):
    """What is known of the sentences of a batch that were labelled in part (`hardner.partial`)."""

    there: Tensor  # [M, B], whether a sentence is one
    steps: Tensor  # [M, B, T + 1], the row of each step's rule
    table: Tensor  # [rules, N, N], 0 where a tag may follow another, else minus infinity

    def cut(self, sentences: slice) -> "PartialLabels":
        """What is known of some of the sentences."""
        return self._replace(there=self.there[:, sentences], steps=self.steps[:, sentences])


@dataclass(frozen=True)
class Batch:
    """``M`` tasks of ``B`` sentences of up to ``T`` words; an empty sentence is padding."""

    inputs: Mapping[str, Tensor]  # what the encoder reads: integers [M, B, ...], and its tables
    lengths: Tensor  # words of each sentence, [M, B]
    tags: Tensor
    """[M, B, T], or [M * D, B, T] with those of D heads; 0, which is ``O``, behind a sentence."""
    domains: Tensor  # the domain of each task, [M]
    mentions: Tensor  # how many mentions each sentence holds, [M, B]
    extent: Tensor
    """Of each word, [M, B, T]: 0 in no mention, 1 a mention by itself, 2 part of a longer one."""
    distinct: int | None = None
    """No task has more different values than this in the stream that is `Features.counted`."""
    packed: int | None = None
    """No task has more values than this in the stream that is `Features.packed`."""
    partial: PartialLabels | None = None
    """Of sentences that were labelled in part, if any."""
    heads: int = 1
    """D: the heads that each sentence is labelled for."""

    @property
    def tasks(self) -> int:
        """M, how many tasks there are."""
        return self.lengths.shape[0]

    def repeat(self, tasks: int) -> "Batch":
        """One task's sentences, given to many."""
        if self.tasks == tasks:
            return self

        def expand(name: str, value: Tensor) -> Tensor:
            shared = name.startswith("table.")
            return value if shared else value.expand(tasks, *value.shape[1:])

        given = {name: expand(name, value) for name, value in self.inputs.items()}
        names = ("lengths", "tags", "domains", "mentions", "extent")
        own: dict[str, Any] = {name: expand(name, getattr(self, name)) for name in names}
        if self.partial:
            there, steps, table = self.partial
            more = PartialLabels(expand("there", there), expand("steps", steps), table)
            own["partial"] = more
        return replace(self, inputs=given, **own)


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, end to end, and an empty one behind them: row -1."""

    values: Tensor
    starts: Tensor
    lengths: Tensor
    widths: Ints  # the lengths again, on the host, where the width of a batch is chosen

    @classmethod
    def of(cls, rows: Sequence[Ints], device: torch.device) -> "Ragged":
        """Lay the rows end to end."""
        lengths = np.array([*map(len, rows), 0], dtype=np.int64)
        starts = np.cumsum(lengths) - lengths
        flat = np.concatenate([*rows, np.zeros(1, np.int64)])  # never empty, so that -1 has a place
        to = [torch.from_numpy(a).to(device) for a in (flat, starts, lengths)]
        return cls(to[0], to[1], to[2], lengths)

    def gather(self, rows: Tensor, width: int) -> Tensor:
        """The rows [...], padded with 0 to a width: [..., width]; row -1 is empty."""
        position = torch.arange(width, device=rows.device)
        filled = position < self.lengths[rows].unsqueeze(-1)  # [..., width]
        index = self.starts[rows].unsqueeze(-1) + position
        # Beyond a row's end lie the next one's values, and beyond the last nothing: mask and clamp.
        return self.values[index.clamp(max=self.values.shape[0] - 1)] * filled


class Store:
    """Encoded sentences on a device; a batch of any of them is a gather away."""

    def __init__(
        self,
        sentences: Sequence[Sentence],
        features: Features,
        tag_sets: Sequence[TagSet],
        domains: Sequence[int] | None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Encode them.

        Args:
            sentences: Any number of them.
            features: What an encoder reads of them.
            tag_sets: Of the heads.
            domains: Each sentence's index into ``tag_sets``; None: it is labelled for all of them.
            device: Where they are kept.
        """
        device = torch.device(device)
        index = [{tag: i for i, tag in enumerate(t.tags)} for t in tag_sets]
        # By head; each sentence is labelled for one of them, or for all.
        every = (
            [list(zip(sentences, domains, strict=True))]
            if domains is not None
            else [[(_of_head(s, t), d) for s in sentences] for d, t in enumerate(tag_sets)]
        )
        labels = [[_labels(s, tag_sets[d], index[d]) for s, d in own] for own in every]
        rows = labels[0]
        mentions = [len(sentence.spans) for sentence in sentences]
        self.device = device
        self.streams = {n: Ragged.of(r, device) for n, r in features.streams.items()}
        self.tables = {
            f"table.{n}": torch.from_numpy(t).to(device) for n, t in features.tables.items()
        }
        self._tags = [Ragged.of([tags for tags, _ in own], device) for own in labels]
        self.tags = self._tags[0]
        self.extent = Ragged.of([extent for _, extent in rows], device)
        self.packed = features.packed
        self.mentions = np.array([*mentions, 0], np.int64)
        flat = [pair for own in every for pair in own]
        self._partial: tuple[list[Ragged], Tensor] | None = None
        if not all(sentence.is_done for sentence in sentences):
            rules = partial_rules(
                [sentence for sentence, _ in flat],
                [tag_sets[d].tags for _, d in flat],
                1 + max(len(t.tags) for t in tag_sets),
            )
            table = torch.zeros(rules.table.shape, device=device)
            table.masked_fill_(torch.tensor(~rules.table, device=device), -torch.inf)
            parts = (rules.steps[i : i + len(rows)] for i in range(0, len(flat), len(rows)))
            self._partial = [Ragged.of(steps, device) for steps in parts], table
        self._mentions = torch.from_numpy(self.mentions).to(device)
        self._domains = torch.tensor([*(domains or [0] * len(rows)), 0], device=device)
        # Only a GPU needs fixed shapes, and so an upper bound of the distinct values of a batch.
        self._counted: list[Ints] = []
        if features.counted and device.type != "cpu":
            self._counted = [*features.streams[features.counted], np.zeros(0, np.int64)]

    @property
    def heads(self) -> int:
        """The heads that each sentence is labelled for."""
        return len(self._tags)

    def widths(self, rows: Ints) -> dict[str, int]:
        """How wide each stream of a batch of these rows must be; ``words`` counts the words.

        On a GPU, where every shape is captured anew, all are as wide as the widest, rounded up,
        and for rows of tasks, [M, B], ``distinct`` is `Batch.distinct`.
        """
        wide = {n: int(s.widths[rows].max(initial=1)) for n, s in self.streams.items()}
        wide["words"] = int(self.tags.widths[rows].max(initial=1))
        if self.device.type == "cpu":
            return wide
        width = bucket(max(wide.values()))
        wide = dict.fromkeys(wide, width)
        if rows.ndim == 2 and self._counted:
            full = -(-most_distinct(self._counted, rows) // width)  # sentences, if none repeated
            wide["distinct"] = width * min(full, rows.shape[1])
        return wide

    def packed_widths(self, rows: Ints) -> dict[str, int]:
        """As `widths`, for tasks [M, B]; with ``packed`` where much would be padding."""
        wide = self.widths(rows)
        if self.packed:
            most = int(self.streams[self.packed].widths[rows].sum(1).max(initial=1))
            padded = rows.shape[1] * wide[self.packed]
            if self.device.type == "cpu":
                most, limit = -(-most // _CPU_STEP) * _CPU_STEP, padded
            else:
                most, limit = bucket(most), int(min(FULL * padded, LONGEST_SENTENCE))
            if most <= limit:
                wide["packed"] = most
        return wide

    def row_widths(self) -> Ints:
        """How wide each sentence is: the longest of its streams."""
        streams = [self.tags, *self.streams.values()]
        widest: Ints = np.stack([stream.widths[:-1] for stream in streams]).max(0)
        return widest

    def groups(self, max_cells: int) -> Iterator[Ints]:
        """All rows, those of like width together; see `group_by_width`."""
        round_up = None if self.device.type == "cpu" else bucket
        return group_by_width(self.row_widths(), max_cells, round_up=round_up)

    def batch(self, rows: Tensor, widths: Mapping[str, int]) -> Batch:
        """The sentences at rows [M, B] (-1 for none); a task's domain is its first sentence's."""
        first = (rows >= 0).to(torch.uint8).argmax(1, keepdim=True)  # [M, 1], of what is there
        tags = [own.gather(rows, widths["words"]) for own in self._tags]  # each [M, B, T]
        return Batch(
            inputs={n: s.gather(rows, widths[n]) for n, s in self.streams.items()} | self.tables,
            lengths=self.tags.lengths[rows],
            tags=tags[0] if len(tags) == 1 else torch.stack(tags, 1).flatten(0, 1),
            domains=self._domains[rows.gather(1, first).squeeze(1)],
            mentions=self._mentions[rows],
            extent=self.extent.gather(rows, widths["words"]),
            distinct=widths.get("distinct"),
            packed=widths.get("packed"),
            partial=self._known_in_part(rows, widths["words"]),
            heads=len(tags),
        )

    def _known_in_part(self, rows: Tensor, words: int) -> PartialLabels | None:
        if self._partial is None:
            return None
        heads, table = self._partial
        there = torch.stack([steps.lengths[rows] > 0 for steps in heads], 1)  # [M, D, B]
        steps = torch.stack([own.gather(rows, words + 1) for own in heads], 1)
        return PartialLabels(there.flatten(0, 1), steps.flatten(0, 1), table)


def most_distinct(values: Sequence[Ints], rows: Ints) -> int:
    """How many values the rows [M, B] of a task hold at most, the padding's 0 being one."""
    tasks = (np.concatenate([values[row] for row in task]) for task in rows)
    return 1 + max(len(np.unique(held)) for held in tasks)


def _of_head(sentence: Sentence, tag_set: TagSet) -> Sentence:
    """The sentence with a head's own mentions."""
    return replace(sentence, spans=tuple(s for s in sentence.spans if s.label in tag_set.labels))


def _labels(sentence: Sentence, tag_set: TagSet, index: Mapping[str, int]) -> tuple[Ints, Ints]:
    """The tags of a sentence, and how far each word's mention extends (`Batch.extent`)."""
    extent = np.zeros(len(sentence.tokens), np.int64)
    if not sentence.spans:
        return extent, extent
    for span in sentence.spans:
        if span.label not in tag_set.labels:
            known = ", ".join(map(repr, tag_set.labels)) or "none"
            message = f"{tag_set.domain} has no label {span.label!r}; its labels are {known}"
            raise HardnerError(f"{_where(sentence)}: {message}")
        extent[span.start : span.end] = 1 if span.end - span.start == 1 else 2
    try:
        tags = spans_to_tags(sentence.spans, len(sentence.tokens), tag_set.scheme)
    except HardnerError as error:
        raise HardnerError(f"{_where(sentence)}: {error}") from None
    return np.array([index[tag] for tag in tags], np.int64), extent


def _where(sentence: Sentence) -> str:
    """The sentence's name, else its first words."""
    return f"sentence {sentence.id or ' '.join(sentence.tokens)[:40]!r}"
