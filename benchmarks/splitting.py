"""The sentence splitter against spaCy's and pysbd's: join a corpus's sentences, find them again.

    python benchmarks/splitting.py ../shared/corpora

Sentences of the training splits are written as running text, twenty at a time: a space between
two that end in a stop, a line break around any other, which is a heading or a title. What counts
are the boundaries between them, found or not. The corpora were split by programs themselves, so
no splitter reaches 1: BioNLP11ID breaks at "Fig. | 3", S800 at "2. | Methods". The rules were
written with the training sentences of some corpora in sight; the others show what that is worth.
Half of LINNAEUS's breaks are those of lines of scanned pages: it is shown but not in the sums.
Appends to benchmarks/results.jsonl.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pysbd
import spacy
from record import record

from hardner.corpora import Corpora
from hardner.formats.conll import read_sentences
from hardner.text import split

GROUPS = {
    "in sight": (
        *("NCBI-disease", "BC5CDR-disease", "BC4CHEMD", "BC2GM", "S800", "JNLPBA"),
        *("BioNLP09", "BioNLP11ID", "BioNLP13CG", "CRAFT"),
    ),
    "unseen": ("BioNLP11EPI", "BioNLP13GE", "Ex-PTM"),
}
MOST = 3000
"""Sentences of a corpus: pysbd is slow."""
BLOCK = 20
DEVICE = "cpu, 1 thread"
Offsets = list[tuple[int, int]]


class Block(NamedTuple):
    text: str
    ends: frozenset[int]
    """Where its sentences end, but for the last."""


def main(root: Path) -> None:
    nlp = spacy.blank("en")
    nlp.max_length = 10**9
    nlp.add_pipe("sentencizer")
    segmenter = pysbd.Segmenter(language="en", clean=False, char_span=True)
    splitters: dict[str, Callable[[str], Offsets]] = {
        "hardner": split,
        "spaCy sentencizer": lambda t: [(s.start_char, s.end_char) for s in nlp(t).sents],
        "pysbd": lambda text: [(s.start, s.end) for s in segmenter.segment(text)],
    }
    for group, names in GROUPS.items():
        blocks = [block for name in names for block in blocks_of(name, root)]
        ours, *peers = (Found.by(splitter, blocks) for splitter in splitters.values())
        for name, peer in zip(list(splitters)[1:], peers, strict=True):
            for what in ("f1", "precision", "recall", "seconds"):
                case = f"{group}, {ours.wanted} boundaries, {what}"
                mine, theirs = getattr(ours, what), getattr(peer, what)
                unit = "s" if what == "seconds" else "of 1"
                record("splitting", case, DEVICE, mine, theirs, name, unit)
    for corpus in (*chain.from_iterable(GROUPS.values()), "LINNAEUS"):
        blocks = list(blocks_of(corpus, root))
        name, splitter = list(splitters.items())[1]
        mine, peer = Found.by(split, blocks), Found.by(splitter, blocks)
        case = f"{corpus}, {mine.wanted} boundaries, f1"
        record("splitting", case, DEVICE, mine.f1, peer.f1, name, "of 1")


class Found(NamedTuple):
    right: int
    found: int
    wanted: int
    seconds: float

    @classmethod
    def by(cls, splitter: Callable[[str], Offsets], blocks: Sequence[Block]) -> "Found":
        right = found = wanted = 0
        begun = time.perf_counter()
        answers = [splitter(block.text) for block in blocks]
        seconds = time.perf_counter() - begun
        for block, offsets in zip(blocks, answers, strict=True):
            ends = {start + len(block.text[start:end].rstrip()) for start, end in offsets}
            ends.discard(len(block.text))
            right += len(ends & block.ends)
            found += len(ends)
            wanted += len(block.ends)
        return cls(right, found, wanted, seconds)

    @property
    def precision(self) -> float:
        return self.right / self.found

    @property
    def recall(self) -> float:
        return self.right / self.wanted

    @property
    def f1(self) -> float:
        return 2 * self.right / (self.found + self.wanted)


def blocks_of(name: str, root: Path) -> Iterator[Block]:
    path = Corpora.under(root).entry(name).path("train", root)
    sentences = [joined(sentence.tokens) for sentence in read_sentences(path)][:MOST]
    for first in range(0, len(sentences), BLOCK):
        text, ends = "", []
        for sentence in sentences[first : first + BLOCK]:
            if text:
                ends.append(len(text))
                text += " " if stops(text) and stops(sentence) else "\n"
            text += sentence
        yield Block(text, frozenset(ends))


def stops(text: str) -> bool:
    return text.rstrip("\"')]").endswith((".", "?", "!"))


LEANS_LEFT = frozenset(",.;:)]}%?!-/'")
LEANS_RIGHT = frozenset("([{-/'")


def joined(tokens: Sequence[str]) -> str:
    """Tokens as an author would have written them: 1.5 mg, E. coli, i.v., PU.1, (IL-2)."""
    text, quoted, tight = "", False, True
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else ""
        after = tokens[index + 1] if index + 1 < len(tokens) else ""
        closes = token in LEANS_LEFT or (token == '"' and quoted)
        text += token if tight or closes else f" {token}"
        quoted ^= token == '"'
        tight = token in LEANS_RIGHT or (token == '"' and quoted) or inside(before, token, after)
    return text


def inside(before: str, mark: str, after: str) -> bool:
    """Whether a mark stands within a number, a name or an abbreviation of single letters."""
    if mark in (",", ":") or (mark == "." and before[-1:].isdigit()):
        return before[-1:].isdigit() and after[:1].isdigit()
    letters = len(before) == len(after) == 1 and (before + after).isalpha()
    alike = before.islower() == after.islower()
    return mark == "." and ((letters and alike) or (is_name(before) and is_name(after)))


def is_name(token: str) -> bool:
    return any(char.isdigit() for char in token) or any(char.isupper() for char in token[1:])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
