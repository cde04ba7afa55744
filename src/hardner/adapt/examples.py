"""The labelled sentences of new types: from what users have, and what must hold to learn of it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from hardner.adapt.sample import overlapping
from hardner.errors import HardnerError
from hardner.formats import Place, Report, read
from hardner.schemes import longest_non_overlapping
from hardner.text import Problem, sentences
from hardner.types import Document, Entity, Sentence, Span, seed_of

LabelledText = tuple[str, Iterable[tuple[int, int, str]]]
"""A text and its mentions: start and end in characters, and label."""
LabelledData = str | Path | Iterable[Sentence | Document | LabelledText]
"""Whatever sentences may be learnt from: a file or folder in any format, or what is held."""
Labels = str | Collection[str] | None
"""What to learn: a label, several, or all there are."""
UnlabelledData = str | Path | Iterable[Sentence | Document | str]
"""The same without labels; texts are enough."""

LONGEST_LEARNT = 100
"""Words of a sentence that is learnt as one: time and memory grow with the longest of a batch."""
HARMLESS = ("is empty", "repeats another")
"""Problems of a mention that leave its sentence true without it."""


@dataclass(frozen=True)
class Examples:
    """Sentences labelled for some labels only, without duplicates.

    Mentions of one label have no token in common; those of different labels may overlap.
    """

    labels: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    notes: tuple[str, ...] = ()
    """Warnings for the user, a line each."""
    partial: tuple[Sentence, ...] = ()
    """Those that were labelled in part, with what is known of the label: to learn from, not to be
    judged on."""

    def mentions(self, label: str) -> int:
        """Of a label, in all of them."""
        return sum(span.label == label for sentence in self.sentences for span in sentence.spans)

    def of(self, label: str) -> tuple[Sentence, ...]:
        """The sentences with the mentions of a label alone."""
        return self.only([label]).sentences

    def only(self, labels: Collection[str]) -> "Examples":
        """The same with the mentions of some labels alone."""
        bare = (
            replace(s, spans=tuple(span for span in s.spans if span.label in labels))
            for s in self.sentences
        )
        known = (_known_of(sentence, labels) for sentence in self.partial)
        return replace(
            self,
            labels=tuple(label for label in self.labels if label in labels),
            sentences=tuple(bare),
            partial=tuple(s for s in known if s.spans or s.rejected),
        )


def labelled_items(
    given: LabelledData,
    *,
    format: str | None = None,
    encoding: str | None = None,
    report: Report | None = None,
) -> Iterator[Sentence | Document]:
    """What labelled data holds, whatever it is; arguments are those of `read_labelled`."""
    items: Any = given
    if isinstance(given, str | Path):
        items = read(given, format, report=report, encoding=encoding)
    if not isinstance(items, Iterable):
        raise HardnerError(f"expected a path or labelled sentences, got {items!r}")
    for number, item in enumerate(items):
        yield item if isinstance(item, Sentence | Document) else _document(item, number)


def read_labelled(
    given: LabelledData,
    labels: Labels = None,
    *,
    format: str | None = None,
    encoding: str | None = None,
    report: Report | None = None,
) -> list[Sentence]:
    """The sentences of labelled data, without those that would teach something wrong.

    A sentence with a mention that no run of tokens can stand for would teach that there is none,
    so it is left out.

    Args:
        given: A path, or sentences, documents and pairs of a text and its mentions.
        labels: Only their mentions matter, if any are named.
        format: Of a path.
        encoding: Of a path, UTF-8 by default.
        report: Where to count what is left out.
    """
    report = Report() if report is None else report
    wanted = _named(labels)
    path = str(given) if isinstance(given, str | Path) else None
    found: list[Sentence] = []
    wrong: list[Problem] = []
    for document in labelled_items(given, format=format, encoding=encoding, report=report):
        if isinstance(document, Sentence):
            found.append(document)
            continue
        problems: list[Problem] = []
        own = sentences(document, problems.append)
        problems = [p for p in problems if _misleads(p, wanted)]
        found += [s for s in own if not any(_meets(s, p.entity) for p in problems)]
        wrong += problems
        for problem in problems:
            reason = f"a mention {problem.reason}: its sentence is left out"
            report.add(reason, Place(path or "given", None, document.id))
    if wrong and not any(sentence.spans for sentence in found):
        first = wrong[0]
        raise HardnerError(
            f"no mention can be learnt: {first.entity.text!r} {first.reason}, and so on; words are "
            "found by spaces and punctuation, so text without spaces (Chinese, say) is not for it"
        )
    return found


def _named(labels: Labels) -> tuple[str, ...] | None:
    """The labels, each once; None for all."""
    if labels is None:
        return None
    named = tuple(dict.fromkeys([labels] if isinstance(labels, str) else labels))
    if not named or not all(isinstance(label, str) for label in named):
        raise HardnerError(f"labels to learn are one name or several, got {labels!r}")
    return named


def _misleads(problem: Problem, labels: Collection[str] | None) -> bool:
    """Whether a sentence without this mention would teach something wrong."""
    asked = labels is None or problem.entity.label in labels
    return asked and problem.reason not in HARMLESS


def _document(given: Any, number: int) -> Document:
    """A text with its mentions, as a document."""
    try:
        text, mentions = given
        entities = tuple(Entity(a, b, label, text[a:b]) for a, b, label in mentions)
        right = all(0 <= e.start < e.end <= len(text) for e in entities)
    except (TypeError, ValueError):
        right = False
    if not right:
        expected = "a Sentence, a Document or (text, [(start, end, label), ...])"
        raise HardnerError(f"item {number} of the labelled data is not {expected}: {given!r}")
    return Document(str(number), text, entities)


def _meets(sentence: Sentence, entity: Entity) -> bool:
    """Whether a token of a sentence lies in an entity."""
    pairs = product(sentence.offsets or (), entity.ranges)
    return any(left < end and start < right for (left, right), (start, end) in pairs)


def read_unlabelled(given: UnlabelledData) -> Iterator[Sentence]:
    """The sentences of a path, or of texts, documents and sentences; labels do not count."""
    for item in read(given, report=Report()) if isinstance(given, str | Path) else given:
        document = Document("", item) if isinstance(item, str) else item
        own = (
            sentences(replace(document, entities=()))
            if isinstance(document, Document)
            else (document,)
        )
        yield from (replace(s, spans=(), rejected=(), state="") for s in own if s.tokens)


def examples(given: Iterable[Sentence], labels: Labels = None) -> Examples:
    """The sentences with their mentions of some labels, by default of all there are.

    Those that were not labelled to their end stand apart, and are left out where they say nothing
    of the label. Their order is their own, so that what is learnt does not depend on that of a
    file.
    """
    held = [sentence for sentence in given if sentence.tokens]
    filled = [sentence for sentence in held if sentence.is_done]
    begun = [sentence for sentence in held if not sentence.is_done]
    if not filled:
        raise HardnerError("there is no labelled sentence")
    chosen = _chosen(filled, _named(labels))
    own = [
        replace(s, spans=tuple(sorted({span for span in s.spans if span.label in chosen})))
        for s in map(_agreeing, filled)
    ]
    flat = [replace(s, spans=_flat(s.spans)) for s in own]
    once = _once(flat)
    telling = [s for s in (_known_of(s, chosen) for s in begun) if s.spans or s.rejected]
    partial = _merged(telling, once)
    nested = sum(len(a.spans) - len(b.spans) for a, b in zip(own, flat, strict=True))
    counts = {
        "sentences that are not labelled to their end were left out": len(begun) - len(telling),
        "sentences are labelled in part, and learnt from as far as they are known": len(partial),
        "mentions that lie in or across a longer one were left out": nested,
        "sentences that repeat another were left out": len(flat) - len(once),
        f"sentences of more than {LONGEST_LEARNT} words are learnt in parts": sum(
            len(sentence) > LONGEST_LEARNT for sentence in once
        ),
    }
    notes = [f"{count} {what}" for what, count in counts.items() if count]
    if len(once) == 1:
        notes.append("one sentence is too few to say how well this will work; label a few more")
    elif all(sentence.spans for sentence in once) and not partial:
        notes.append(
            "every sentence holds a mention, and most text holds none: expect more false alarms "
            "there; a few sentences without one help, and so do answers of hardner review"
        )
    parts = sorted((part for s in once for part in _cut(s)), key=lambda s: seed_of(*s.tokens))
    more = sorted((part for s in partial for part in _cut(s)), key=lambda s: seed_of(*s.tokens))
    said = tuple(s for s in more if s.spans or s.rejected)
    return Examples(chosen, tuple(dict.fromkeys(parts)), tuple(notes), said)


def _chosen(sentences: Sequence[Sentence], labels: Collection[str] | None) -> tuple[str, ...]:
    seen = Counter(span.label for sentence in sentences for span in sentence.spans)
    listed = ", ".join(f"{name} ({count})" for name, count in sorted(seen.items()))
    if not seen:
        raise HardnerError("the sentences hold no mention at all; label at least one")
    for label in labels or ():
        if label not in seen:
            raise HardnerError(f"no mention is labelled {label!r}; the labels are {listed}")
    return tuple(sorted(seen if labels is None else labels))


def _flat(spans: Sequence[Span]) -> tuple[Span, ...]:
    """The spans without those that lie in or across a longer one of their label."""
    labels = {span.label for span in spans}
    kept = [longest_non_overlapping([s for s in spans if s.label == one]) for one in labels]
    return tuple(sorted(chain.from_iterable(kept)))


def _once(sentences: Iterable[Sentence]) -> tuple[Sentence, ...]:
    """The sentences without duplicates, which would be learnt and held out at the same time."""
    seen: dict[tuple[str, ...], Sentence] = {}
    for sentence in sentences:
        first = seen.setdefault(sentence.tokens, sentence)
        if first.spans != sentence.spans:
            raise HardnerError(_differ(first, sentence))
    return tuple(seen.values())


def _agreeing(sentence: Sentence) -> Sentence:
    """A sentence that does not contradict itself."""
    if both := set(sentence.spans).intersection(sentence.rejected):
        start, end, label = min(both)
        words = " ".join(sentence.tokens[start:end])
        message = f"{words!r} is labelled {label!r} and rejected; take one of them back"
        raise HardnerError(f"{_where(sentence)}: {message}")
    return replace(sentence, rejected=()) if sentence.is_done else sentence


def _known_of(sentence: Sentence, labels: Collection[str]) -> Sentence:
    """What a sentence that was labelled in part says of some labels."""
    spans = _flat(sorted({s for s in sentence.spans if s.label in labels}))
    rejected = {span for span in sentence.rejected if span.label in labels}
    return replace(sentence, spans=spans, rejected=tuple(sorted(rejected)), offsets=None)


def _merged(begun: Iterable[Sentence], done: Iterable[Sentence]) -> list[Sentence]:
    """Each text once, with all that is known of it; none that is labelled to its end as well."""
    labelled = {sentence.tokens: sentence for sentence in done}
    found: dict[tuple[str, ...], Sentence] = {}
    for sentence in begun:
        if whole := labelled.get(sentence.tokens):
            if not set(sentence.spans) <= set(whole.spans):
                raise HardnerError(_differ(whole, sentence))
            _agreeing(replace(whole, rejected=sentence.rejected))
            continue
        first = found.get(sentence.tokens, sentence)
        spans = tuple(sorted({*first.spans, *sentence.spans}))
        if len(_flat(spans)) < len(spans):
            raise HardnerError(_differ(first, sentence))
        rejected = tuple(sorted({*first.rejected, *sentence.rejected}))
        both = replace(first, spans=spans, rejected=rejected)
        found[sentence.tokens] = _agreeing(both)
    return list(found.values())


def _differ(first: Sentence, other: Sentence) -> str:
    one, two = _said(first), _said(other)
    return (
        f"{_where(other)}: it occurs twice and is labelled differently, {one} and {two}; fix one "
        "of them"
    )


def _cut(sentence: Sentence) -> Iterator[Sentence]:
    """A sentence in parts of at most `LONGEST_LEARNT` words, cut where no mention stands."""
    whole = [(own[0].start, max(s.end for s in own)) for own in overlapping(sentence.spans)]
    start = 0
    while start < len(sentence):
        end = start + LONGEST_LEARNT
        for first, last in whole:
            if first < end < last:
                end = first if first > start else last
        spans, rejected = (
            tuple(
                s._replace(start=s.start - start, end=s.end - start)
                for s in given
                if start <= s.start and s.end <= end
            )
            for given in (sentence.spans, sentence.rejected)
        )
        tokens, state = sentence.tokens[start:end], "" if sentence.is_done else sentence.state
        yield Sentence(tokens, spans, sentence.id, state=state, rejected=rejected)
        start = end


def _said(sentence: Sentence) -> str:
    labels = len({span.label for span in sentence.spans}) > 1
    words = [
        repr(" ".join(sentence.tokens[s.start : s.end])) + f" as {s.label}" * labels
        for s in sentence.spans
    ]
    return " + ".join(words) or "nothing"


def _where(sentence: Sentence) -> str:
    start = " ".join(sentence.tokens)
    short = start if len(start) <= 48 else start[:47] + "…"
    return f"sentence {sentence.id!r} ({short})" if sentence.id else f"sentence {short!r}"
