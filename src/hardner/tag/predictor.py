"""A model at work: text or tokens in, entities with calibrated scores out."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import TypeVar

import torch

from hardner.errors import HardnerError
from hardner.model.layers import Params
from hardner.model.tagger import Tagger
from hardner.tag import folder
from hardner.tag.added_heads import BranchedEngine, engine_of
from hardner.tag.engine import BATCH_SIZE, Engine
from hardner.tag.mentions import ScoredMention, without_overlaps
from hardner.tag.stream import room_for, tag_in_order
from hardner.tag.windows import Window, windows_of_text, windows_of_tokens
from hardner.types import Document, Entity, Sentence, Span

_Item = TypeVar("_Item")


@dataclass(frozen=True, eq=False)
class Predictor:
    """A tagger with its parameters, ready to be used, from several threads if need be."""

    tagger: Tagger
    params: Params = field(repr=False)
    temperatures: tuple[float, ...] = ()
    """Of each head: what its scores are divided by before they become probabilities (1)."""
    device: str = "cpu"
    """``cpu``, ``cuda`` (or ``cuda:1`` and so on), or ``auto``, which is either."""
    start: Path | None = None
    """The folder of the model with whose encoder new types begin; None: with this one's own."""
    _engine: Engine | BranchedEngine = field(init=False, repr=False)

    def __post_init__(self) -> None:
        temperatures = self.temperatures or (1.0,) * len(self.tagger.tag_sets)
        if len(temperatures) != len(self.tagger.tag_sets):
            heads = len(self.tagger.tag_sets)
            raise HardnerError(f"{len(temperatures)} temperatures for {heads} heads")
        device = _device(self.device)
        params = {name: value.to(device) for name, value in self.params.items()}
        object.__setattr__(self, "device", device)
        object.__setattr__(self, "params", params)
        object.__setattr__(self, "temperatures", temperatures)
        object.__setattr__(self, "_engine", engine_of(self.tagger, params, temperatures, device))

    @classmethod
    def load(cls, path: str | Path | None = None, device: str = "cpu") -> "Predictor":
        """Read a model folder; without one, the model that comes with the package."""
        tagger, params, known = folder.read_model_folder(path)
        temperatures = tuple(known.get(domain, 1.0) for domain in tagger.domains)
        return cls(
            tagger, params, temperatures, device, folder.BUNDLED_START if path is None else None
        )

    def save(self, path: str | Path) -> None:
        """Write a model folder, whole or not at all; an earlier model there is replaced."""
        temperatures = dict(zip(self.tagger.domains, self.temperatures, strict=True))
        folder.write_model_folder(path, self.tagger, self.params, temperatures)

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of all heads, each once."""
        every = (label for tag_set in self.tagger.tag_sets for label in tag_set.labels)
        return tuple(dict.fromkeys(every))

    def __call__(self, text: str) -> list[Entity]:
        """The entities of a text by start, end and label; its sentences are found."""
        return next(self.pipe([text]))

    def pipe(
        self,
        texts: Iterable[str],
        *,
        batch_size: int | None = None,
        labels: Collection[str] | None = None,
        min_score: float = 0.0,
    ) -> Iterator[list[Entity]]:
        """The entities of each text, in order; texts are read as they are needed.

        Args:
            texts: Any number of them.
            batch_size: Sentences that are computed at once, by default as many as suit the device;
                the result does not depend on it.
            labels: Only these.
            min_score: Only entities that are as probable as that.
        """
        named = (Document("", text) for text in texts)
        for document in self.documents(
            named, batch_size=batch_size, labels=labels, min_score=min_score
        ):
            yield list(document.entities)

    def documents(
        self,
        docs: Iterable[Document],
        *,
        batch_size: int | None = None,
        labels: Collection[str] | None = None,
        min_score: float = 0.0,
    ) -> Iterator[Document]:
        """The documents, in order, with what is found in place of their entities.

        One that came with sentences keeps their tokens; in others, sentences are found. Arguments
        are those of `pipe`.
        """
        cut = ((document, _pieces(document)) for document in docs)
        for document, marks in self._marked(cut, batch_size, labels, min_score):
            yield _with_tokens(document, marks) if document.sentences else _with(document, marks)

    def spans(
        self,
        sentences: Iterable[Sentence],
        *,
        batch_size: int | None = None,
        labels: Collection[str] | None = None,
        min_score: float = 0.0,
    ) -> list[list[tuple[Span, float]]]:
        """The spans found over the tokens of each sentence, with their scores.

        Arguments are those of `pipe`.
        """
        cut = ((None, windows_of_tokens(sentence.tokens)) for sentence in sentences)
        return [
            [(Span(mark.start, mark.end, mark.label), mark.score) for mark in marks]
            for _, marks in self._marked(cut, batch_size, labels, min_score)
        ]

    def hardness(
        self,
        sentences: Sequence[Sentence],
        *,
        batch_size: int | None = None,
        labels: Collection[str] | None = None,
    ) -> list[float]:
        """The loss that the model expects on each sentence: the entropy of its tags, in nats.

        Were the tags drawn from the model's own distribution, its negative log-likelihood would be
        this in the mean; heads add up. Arguments are those of `pipe`.
        """
        heads, size = self._heads(labels), self._size(batch_size)
        found = [0.0] * len(sentences)
        rows = ((i, p) for i, s in enumerate(sentences) for p in windows_of_tokens(s.tokens))
        while some := list(islice(rows, room_for(size))):
            values = self._engine.token_entropies([p.tokens for _, p in some], heads, size)
            for (row, piece), value in zip(some, values, strict=True):
                left, right = (at - piece.offsets[0][0] for at in piece.own)
                found[row] += sum(value[left:right])
        return found

    def adapt(
        self,
        sentences: Sequence[Sentence],
        label: str | None = None,
        *,
        unlabelled: Iterable[Sentence] | None = None,
        keep: bool = False,
        on_progress: Callable[..., None] | None = None,
    ) -> "Predictor":
        """A predictor for a new type of entity, learnt from a few labelled sentences."""
        from hardner.adapt.workflow import adapt_predictor

        outcome = adapt_predictor(
            self, sentences, label, unlabelled=unlabelled, keep=keep, on_progress=on_progress
        )
        return outcome.predictor

    def _marked(
        self,
        things: Iterable[tuple[_Item, Iterable[Window]]],
        batch_size: int | None,
        labels: Collection[str] | None,
        min_score: float,
    ) -> Iterator[tuple[_Item, list[ScoredMention]]]:
        heads, size = self._heads(labels), self._size(batch_size)
        told = [label for head in heads for label in self.tagger.tag_sets[head].labels]
        disputed = len(set(told)) < len(told)

        def tag(pieces: Sequence[Window]) -> Iterator[list[ScoredMention]]:
            for marks in self._engine.tag([p.tokens for p in pieces], heads, size):
                wanted = (m for m in marks if labels is None or m.label in labels)
                kept = [mark for mark in wanted if mark.score >= min_score]
                yield without_overlaps(kept) if disputed else kept

        return tag_in_order(things, tag, room_for(size))

    def _size(self, batch_size: int | None) -> int:
        return BATCH_SIZE[torch.device(self.device).type] if batch_size is None else batch_size

    def _heads(self, labels: Collection[str] | None) -> tuple[int, ...]:
        """Those that know any of the labels."""
        if labels is None:
            return tuple(range(len(self.tagger.tag_sets)))
        if unknown := sorted(set(labels) - set(self.labels)):
            known = ", ".join(self.labels) or "none"
            raise HardnerError(f"the model has no label {unknown[0]!r}; its labels are {known}")
        own = enumerate(self.tagger.tag_sets)
        return tuple(head for head, tag_set in own if not set(labels).isdisjoint(tag_set.labels))


def load(
    path: str | Path | None = None, *, device: str = "cpu", guidelines: Collection[str] = ()
) -> Predictor:
    """A predictor from a model folder; without one, from the model that comes with the package.

    Args:
        path: The folder.
        device: ``cpu``, ``cuda`` or ``auto``.
        guidelines: Corpora whose guidelines heads of the package's own model are to follow, such
            as ``JNLPBA``; other heads say what several corpora say together.
    """
    if not guidelines:
        return Predictor.load(path, device)
    if path is not None:
        raise HardnerError("only the model that comes with hardner can follow other guidelines")
    from hardner.tag.guidelines import follow_guidelines

    return follow_guidelines(Predictor.load(device=device), guidelines)


def _device(name: str) -> str:
    there = torch.cuda.is_available()
    if name == "auto":
        return "cuda" if there else "cpu"
    if name != "cpu" and not name.startswith("cuda"):
        raise HardnerError(f"unknown device {name!r}; it is auto, cpu or cuda")
    if name != "cpu" and not there:
        raise HardnerError(f"no device {name} here; use cpu")
    return name


def _pieces(document: Document) -> Iterator[Window]:
    if not document.sentences:
        return windows_of_text(document)
    firsts = accumulate((len(sentence) for sentence in document.sentences), initial=0)
    return chain.from_iterable(
        windows_of_tokens(sentence.tokens, first)
        for sentence, first in zip(document.sentences, firsts, strict=False)
    )


def _with(document: Document, marks: Iterable[ScoredMention]) -> Document:
    """The document with marks in characters as its entities."""
    return replace(document, entities=tuple(_entity(document.text, mark) for mark in marks))


def _with_tokens(document: Document, marks: Iterable[ScoredMention]) -> Document:
    """The document with marks, in tokens of all its sentences, as its spans and entities."""
    firsts = [*accumulate((len(sentence) for sentence in document.sentences), initial=0)]
    spans: list[list[Span]] = [[] for _ in document.sentences]
    entities = []
    for mark in marks:
        row = bisect_right(firsts, mark.start) - 1
        sentence, first = document.sentences[row], firsts[row]
        spans[row].append(Span(mark.start - first, mark.end - first, mark.label))
        if sentence.offsets is not None:
            left = sentence.offsets[mark.start - first][0]
            right = sentence.offsets[mark.end - first - 1][1]
            entities.append(_entity(document.text, mark._replace(start=left, end=right)))
    sentences = (
        replace(sentence, spans=tuple(own))
        for sentence, own in zip(document.sentences, spans, strict=True)
    )
    return replace(
        document, entities=tuple(sorted(entities, key=_place)), sentences=tuple(sentences)
    )


def _entity(text: str, mark: ScoredMention) -> Entity:
    start, end, label, score, _ = mark
    return Entity(start, end, label, text[start:end], score)


def _place(entity: Entity) -> tuple[int, int, str]:
    return entity.start, entity.end, entity.label
