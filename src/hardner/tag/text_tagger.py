"""What every tagger does with text, whatever finds its mentions; nothing here needs torch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from hardner.errors import HardnerError
from hardner.features import CPU_SENTENCES
from hardner.schemes import TagSet
from hardner.tag.records import FoundEntities, data_frame, records_of
from hardner.tag.windows import (
    ScoredMention,
    Tokens,
    Window,
    attach_mentions,
    best_mentions,
    buffer_size,
    document_of,
    tag_in_order,
    windows_of,
    windows_of_tokens,
)
from hardner.types import Document, Sentence, Span

_Item = TypeVar("_Item")
_FindInWindows = Callable[[Sequence[Window]], Iterable[list[ScoredMention]]]
MinScore = float | Mapping[str, float] | None
"""The least score of what is kept: of every label, or of some; None for a tagger's own."""


class TextTagger(ABC):
    """Text, documents or tokens in, entities with calibrated scores out."""

    thresholds: Mapping[str, float]
    """By label, the score that a mention must reach."""

    @property
    @abstractmethod
    def tag_sets(self) -> tuple[TagSet, ...]:
        """The tag set of each head."""

    @abstractmethod
    def _find(
        self, texts: Sequence[Tokens], heads: Sequence[int], size: int
    ) -> Sequence[list[ScoredMention]]:
        """The mentions that some heads find in the tokens of sentences, ``size`` at once."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all heads, each once."""
        every = (label for tag_set in self.tag_sets for label in tag_set.labels)
        return tuple(dict.fromkeys(every))

    def check_labels(self, labels: Collection[str] | None) -> None:
        """Refuse a label that no head knows."""
        if isinstance(labels, str):
            raise HardnerError(f"labels are a list or a set: labels=[{labels!r}]")
        if unknown := sorted(set(labels or ()) - set(self.labels)):
            known = ", ".join(self.labels) or "none"
            raise HardnerError(f"the model has no label {unknown[0]!r}; its labels are {known}")

    def least_scores(self, min_score: MinScore = None) -> dict[str, float]:
        """The score that a mention of each label must reach."""
        if not isinstance(min_score, Mapping):
            given = {} if min_score is None else dict.fromkeys(self.labels, min_score)
        else:
            given = dict(min_score)
        self.check_labels(given)
        check_scores(given.values(), "min_score")
        return {**self.thresholds, **given}

    def __call__(
        self, text: str, *, labels: Collection[str] | None = None, min_score: MinScore = None
    ) -> FoundEntities:
        """The entities of a text by start, end and label; its sentences are found.

        It is a list that a notebook shows in colour. Arguments are those of `pipe`.
        """
        return next(self.pipe([text], labels=labels, min_score=min_score))

    def pipe(
        self,
        texts: Iterable[str],
        *,
        batch_size: int | None = None,
        labels: Collection[str] | None = None,
        min_score: MinScore = None,
    ) -> Iterator[FoundEntities]:
        """The entities of each text, in order; texts are read as they are needed.

        Args:
            texts: Any number of them.
            batch_size: Sentences that are computed at once, by default as many as suit the device;
                the result does not depend on it.
            labels: Only these.
            min_score: Only entities that are as probable as that; a number, or one for each of
                some labels. By default, and for other labels, `thresholds` say it.
        """
        if isinstance(texts, str):
            raise HardnerError("pipe takes many texts, and this is one; call the tagger with it")
        tagged = self.documents(
            map(document_of, texts), batch_size=batch_size, labels=labels, min_score=min_score
        )
        return (FoundEntities(document.entities, document.text) for document in tagged)

    def documents(
        self,
        docs: Iterable[Document],
        *,
        batch_size: int | None = None,
        labels: Collection[str] | None = None,
        min_score: MinScore = None,
    ) -> Iterator[Document]:
        """The documents, in order, with what is found in place of their entities.

        One that came with sentences keeps their tokens; in others, sentences are found. Arguments
        are those of `pipe`.
        """
        cut = ((document, windows_of(document)) for document in docs)
        tagged = self._mentions(cut, batch_size, labels, min_score)
        return (attach_mentions(document, mentions) for document, mentions in tagged)

    def to_records(
        self,
        texts: Iterable[str | Document],
        *,
        batch_size: int | None = None,
        labels: Collection[str] | None = None,
        min_score: MinScore = None,
    ) -> list[dict[str, Any]]:
        """A dictionary for each entity: document, start, end, label, text and score.

        ``document`` is the number of a text, from 0, or the id of a document. Other arguments are
        those of `pipe`.
        """
        if isinstance(texts, str):
            raise HardnerError("records are of many texts, and this is one; give [text]")
        docs = (t if isinstance(t, Document) else document_of(t) for t in texts)
        tagged = self.documents(docs, batch_size=batch_size, labels=labels, min_score=min_score)
        return [record for i, document in enumerate(tagged) for record in records_of(document, i)]

    def to_dataframe(
        self,
        texts: Iterable[str | Document],
        *,
        batch_size: int | None = None,
        labels: Collection[str] | None = None,
        min_score: MinScore = None,
    ) -> Any:
        """The same as a pandas DataFrame with a row for each entity; pandas must be there."""
        return data_frame(
            self.to_records(texts, batch_size=batch_size, labels=labels, min_score=min_score)
        )

    def spans(
        self,
        sentences: Iterable[Sentence],
        *,
        batch_size: int | None = None,
        labels: Collection[str] | None = None,
        min_score: MinScore = None,
    ) -> list[list[tuple[Span, float]]]:
        """The spans found over the tokens of each sentence, with their scores.

        Arguments are those of `pipe`.
        """
        cut = ((None, windows_of_tokens(sentence.tokens)) for sentence in sentences)
        return spans_of(self._mentions(cut, batch_size, labels, min_score))

    def _mentions(
        self,
        items: Iterable[tuple[_Item, Iterable[Window]]],
        batch_size: int | None,
        labels: Collection[str] | None,
        min_score: MinScore,
        heads: Sequence[int] | None = None,
        find: _FindInWindows | None = None,
    ) -> Iterator[tuple[_Item, list[ScoredMention]]]:
        """Tag the windows of items, in order, by these heads or all that know a label.

        What ``find`` knows of the next windows need not be found.
        """
        least = self.least_scores(min_score)
        asked, size = self._heads(labels) if heads is None else heads, self._size(batch_size)
        every = [label for head in asked for label in self.tag_sets[head].labels]
        shared = len(set(every)) < len(every)  # two heads may claim the same words for one label

        def tag(windows: Sequence[Window]) -> Iterator[list[ScoredMention]]:
            texts = [window.tokens for window in windows]
            for mentions in find(windows) if find else self._find(texts, asked, size):
                wanted = (m for m in mentions if labels is None or m.label in labels)
                kept = [mention for mention in wanted if mention.score >= least[mention.label]]
                yield best_mentions(kept) if shared else kept

        return tag_in_order(items, tag, buffer_size(size))

    def _size(self, batch_size: int | None) -> int:
        return CPU_SENTENCES if batch_size is None else batch_size

    def _heads(self, labels: Collection[str] | None) -> tuple[int, ...]:
        """The heads that know any of the labels."""
        self.check_labels(labels)
        wanted = set(self.labels if labels is None else labels)
        own = enumerate(self.tag_sets)
        return tuple(head for head, tag_set in own if not wanted.isdisjoint(tag_set.labels))


def spans_of(tagged: Iterable[tuple[None, list[ScoredMention]]]) -> list[list[tuple[Span, float]]]:
    """Mentions in tokens as spans with scores."""
    return [
        [(Span(start, end, label), score) for start, end, label, score, _ in mentions]
        for _, mentions in tagged
    ]


def check_scores(scores: Iterable[float], name: str) -> None:
    """Refuse what is no probability."""
    for score in scores:
        if not isinstance(score, float | int) or not 0 <= score <= 1:
            raise HardnerError(f"{name} is a probability, from 0 to 1; got {score}")
