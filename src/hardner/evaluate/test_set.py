"""Test sentences as an exam that any number of fitted models sit together."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hardner.adapt.cached_layers import cache_lower_layers, upper_tagger
from hardner.batch import Ints, Ragged, TagSet
from hardner.evaluate.counts import COUNTED, count_outcomes, marks_of, read_marks
from hardner.evaluate.score import Breakdown
from hardner.model.layers import Params
from hardner.model.tagger import Tagger
from hardner.schemes import spans_to_tags, tags_to_spans
from hardner.types import Sentence, Span

_WORDS_AT_ONCE = {"cpu": 1 << 13, "cuda": 1 << 18}
"""Words that are tagged at once, padding and all models counted: what fits and keeps it busy."""


class TestSet:
    """The test sentences of a corpus, encoded for a tagger, and their right tags."""

    def __init__(
        self,
        tagger: Tagger,
        sentences: Sequence[Sentence],
        domain: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        """Args: ``domain`` says which of the tagger's decoders is examined."""
        self.tagger, self.sentences = tagger, sentences
        bare = [replace(sentence, spans=()) for sentence in sentences]
        self.store = tagger.store(bare, [domain] * len(bare), device)
        self._own = tagger.tag_sets[domain]
        found = {span.label for sentence in sentences for span in sentence.spans}
        self.labels = tuple(sorted(found | set(self._own.labels)))
        right = TagSet("", self.labels)
        index = {tag: i for i, tag in enumerate(right.tags)}
        tags = [
            np.array([index[tag] for tag in spans_to_tags(s.spans, len(s))], np.int64)
            for s in sentences
        ]
        self._right = Ragged.of(tags, self.store.device)
        self._marks = tuple(marks_of(t, self.labels, self.store.device) for t in (self._own, right))

    def lifted(self, params: Params, layers: int) -> "TestSet":
        """The same exam for models that differ from these parameters in so many top layers."""
        raised = copy(self)
        raised.tagger = upper_tagger(self.tagger, params, layers)
        raised.store = cache_lower_layers(raised.tagger, params, self.store)
        return raised

    def __call__(self, params: Params) -> list[dict[str, Breakdown]]:
        """Each model's parted score of each label."""
        total: Tensor | None = None
        for rows, tags in self._tagged(params):
            own, right = self._marks
            gold = self._right.gather(torch.from_numpy(rows).to(tags.device), tags.shape[-1])
            found = count_outcomes(
                read_marks(right, gold.unsqueeze(0)), read_marks(own, tags), len(self.labels)
            )
            total = found if total is None else total + found
        if total is None:
            return [{} for _ in range(count_models(params))]
        return [self._breakdown(counts) for counts in total.tolist()]  # [M, labels, COUNTED]

    def _breakdown(self, counts: list[list[int]]) -> dict[str, Breakdown]:
        named = dict(zip(self.labels, counts, strict=True))
        return {
            label: Breakdown(**dict(zip(COUNTED, row, strict=True)))
            for label, row in named.items()
            if any(row)
        }

    def predictions(self, params: Params) -> list[list[tuple[Span, ...]]]:
        """Each model's spans of each sentence."""
        names = np.array([*self._own.tags, ""])
        found: list[list[tuple[Span, ...]]] = [
            [()] * len(self.sentences) for _ in range(count_models(params))
        ]
        for rows, tags in self._tagged(params):
            for model, ours in zip(found, tags.cpu().numpy(), strict=True):
                for row, one in zip(rows, ours, strict=True):
                    if one.max() > 0:
                        words = names[one[: len(self.sentences[row])]].tolist()
                        model[row] = tags_to_spans(words, self._own.scheme)[0]
        return found

    def _tagged(self, params: Params) -> Iterator[tuple[Ints, Tensor]]:
        """Rows, sentences of like length together, and what the models say of them, [M, B, T]."""
        models = count_models(params)
        for rows in self.store.groups(_WORDS_AT_ONCE[self.store.device.type] // models):
            at = torch.from_numpy(rows[None]).to(self.store.device)
            batch = self.store.batch(at, self.store.widths(rows[None]))
            yield rows, self.tagger.decode(params, batch.repeat(models))


def count_models(params: Params) -> int:
    """How many models the parameters are of."""
    return max(value.shape[0] for value in params.values())
