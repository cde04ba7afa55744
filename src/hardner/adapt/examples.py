"""The labelled sentences of a new type: what must hold before anything learns from them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hardner.errors import HardnerError
from hardner.schemes import longest_non_overlapping
from hardner.types import Sentence


@dataclass(frozen=True)
class Examples:
    """Sentences labelled with one label only, without duplicates."""

    label: str
    sentences: tuple[Sentence, ...]
    notes: tuple[str, ...] = ()
    """Warnings for the user, a line each."""

    @property
    def mentions(self) -> int:
        """In all of them."""
        return sum(len(sentence.spans) for sentence in self.sentences)


def examples(sentences: Iterable[Sentence], label: str | None = None) -> Examples:
    """The sentences with their mentions of a label, which may be left out if it is the only one.

    Those that were not labelled to their end are left out: they do not say what is no mention.
    """
    given = [sentence for sentence in sentences if sentence.tokens]
    filled = [sentence for sentence in given if sentence.is_done]
    if not filled:
        raise HardnerError("there is no labelled sentence")
    chosen = _chosen(filled, label)
    for sentence in filled:
        _refuse_two_labels(sentence, chosen)
    own = [_only(sentence, chosen) for sentence in filled]
    flat = [replace(s, spans=tuple(longest_non_overlapping(s.spans))) for s in own]
    nested = sum(len(a.spans) - len(b.spans) for a, b in zip(own, flat, strict=True))
    once = _once(flat)
    notes = _notes(once, nested, len(flat) - len(once), len(given) - len(filled))
    return Examples(chosen, once, tuple(notes))


def _chosen(sentences: Sequence[Sentence], label: str | None) -> str:
    seen = Counter(span.label for sentence in sentences for span in sentence.spans)
    listed = ", ".join(f"{name} ({count})" for name, count in sorted(seen.items()))
    if not seen:
        raise HardnerError("the sentences hold no mention at all; label at least one")
    if label is None and len(seen) > 1:
        raise HardnerError(f"the sentences have several labels, say which to learn: {listed}")
    if label is not None and label not in seen:
        raise HardnerError(f"no mention is labelled {label!r}; the labels are {listed}")
    return label if label is not None else next(iter(seen))


def _refuse_two_labels(sentence: Sentence, label: str) -> None:
    for start, end, own in sentence.spans:
        others = (s for s in sentence.spans if s[:2] == (start, end) and s.label != label)
        if own == label and (other := next(others, None)):
            words = " ".join(sentence.tokens[start:end])
            both = f"{label} and {other.label}"
            raise HardnerError(f"{_where(sentence)}: {words!r} is labelled both {both}; keep one")


def _only(sentence: Sentence, label: str) -> Sentence:
    spans = {span for span in sentence.spans if span.label == label}
    return replace(sentence, spans=tuple(sorted(spans)))


def _once(sentences: Iterable[Sentence]) -> tuple[Sentence, ...]:
    """The sentences without duplicates, which would be learnt and held out at the same time."""
    seen: dict[tuple[str, ...], Sentence] = {}
    for sentence in sentences:
        first = seen.setdefault(sentence.tokens, sentence)
        if first.spans != sentence.spans:
            one, other = (_said(s) for s in (first, sentence))
            differ = f"it occurs twice and is labelled differently, {one} and {other}; mend one"
            raise HardnerError(f"{_where(sentence)}: {differ}")
    return tuple(seen.values())


def _notes(
    sentences: Sequence[Sentence], nested: int, repeated: int, unfinished: int
) -> Iterable[str]:
    if unfinished:
        yield f"{unfinished} sentences that are not labelled to their end were left out"
    if nested:
        yield f"{nested} mentions that lie in or across a longer one were left out"
    if repeated:
        yield f"{repeated} sentences that repeat another were left out"
    if len(sentences) == 1:
        yield "one sentence is too few to say how well this will work; label a few more"
    elif all(sentence.spans for sentence in sentences):
        yield (
            "every sentence holds a mention: in running text expect more false alarms than said; "
            "a few sentences without one help"
        )


def _said(sentence: Sentence) -> str:
    words = [" ".join(sentence.tokens[s.start : s.end]) for s in sentence.spans]
    return " + ".join(map(repr, words)) or "nothing"


def _where(sentence: Sentence) -> str:
    start = " ".join(sentence.tokens)
    short = start if len(start) <= 48 else start[:47] + "…"
    return f"sentence {sentence.id!r} ({short})" if sentence.id else f"sentence {short!r}"
