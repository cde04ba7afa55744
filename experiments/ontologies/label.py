"""Labels text by the names of ontologies, once with all of them and once without each domain.

    python experiments/ontologies/label.py ../shared/text ../shared/ontologies \
        --tokenizer experiments/encoder/tokenizer.json --out labelled --share 0.25

Writes `ids.npy`, the subwords of the chosen sentences end to end; `starts.npy`, where each begins;
and for each fold (`all`, `Disease`, ...: the domain that is left out) `mentions-FOLD.npy`, rows of
sentence, first word, last word and name, `names-FOLD.npz`, the types of each name, and
`types-FOLD.json`. What is not labelled is unknown, not outside: ontologies lack most names.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
from common import frequent_words, is_common, read_common_words
from dictionary import Dictionary
from entity_types import choose_types
from rich.progress import track
from terms import DOMAINS, Term, ancestors, read_kinds, read_terms, without_domain
from tokenizers import Tokenizer

from hardner import files
from hardner.files import atomic_binary, atomic_write
from hardner.pretrain.text import continuing, load_tokenizer
from hardner.text import split, tokenize
from hardner.types import seed_of

SHORTEST, LONGEST = 6, 80
"""Words of a sentence."""
_SAMPLE = 60_000
"""Sentences in which words are counted, to know which are frequent."""
_MENTION = np.dtype([("sentence", "<u4"), ("start", "u1"), ("end", "u1"), ("name", "<u4")])
_EVERY = "all"
"""The fold in which no domain is left out."""


class Labelled(NamedTuple):
    """One fold: a dictionary and what it found."""

    terms: dict[str, Term]
    dictionary: Dictionary
    mentions: list[tuple[int, int, int, int]]


def read_sentences(folder: Path, share: float, seed: int = 0) -> Iterator[tuple[str, ...]]:
    """A share of the sentences of all text files, as words; which ones depends on their text."""
    for path in sorted(folder.glob("*.txt.xz")):
        for _, line in files.lines(path):
            text = normalize("NFKC", line)
            for start, end in split(text):
                sentence = text[start:end]
                if seed_of("ontologies", seed, sentence) % 10_000 < share * 10_000:
                    words = tuple(sentence[a:b] for a, b in tokenize(sentence))
                    if SHORTEST <= len(words) <= LONGEST:
                        yield words


def make_folds(terms: dict[str, Term], sample: Iterable[Sequence[str]]) -> dict[str, Labelled]:
    """A dictionary with all names, and one without each domain."""
    kinds = read_kinds()
    written, frequent = read_common_words(), frequent_words(sample)
    found = {}
    for fold in (_EVERY, *DOMAINS):
        own = terms if fold == _EVERY else without_domain(terms, kinds, fold)
        names = Dictionary(own.values(), lambda name: is_common(name, written, frequent))
        found[fold] = Labelled(own, names, [])
    return found


def encode(
    sentences: Sequence[Sequence[str]], tokenizer: Tokenizer, inside: Sequence[bool]
) -> list[list[int] | None]:
    """Subwords of sentences; None where the tokenizer sees other words than ours."""
    encoded = tokenizer.encode_batch([" ".join(words) for words in sentences])
    found: list[list[int] | None] = []
    for words, pieces in zip(sentences, encoded, strict=True):
        same = sum(not inside[piece] for piece in pieces.ids) == len(words)
        found.append(pieces.ids if same else None)
    return found


def label(
    sentences: Iterable[Sequence[str]], folds: dict[str, Labelled], tokenizer: Tokenizer
) -> tuple[np.ndarray, np.ndarray]:
    """Subwords of the sentences and where each begins; mentions go into the folds."""
    inside = continuing(tokenizer).tolist()
    ids: list[np.ndarray] = []
    starts = [0]
    waiting = iter(sentences)
    while batch := list(islice(waiting, 10_000)):
        for words, pieces in zip(batch, encode(batch, tokenizer, inside), strict=True):
            if pieces is None:
                continue
            row = len(starts) - 1
            for fold in folds.values():
                fold.mentions.extend((row, *match) for match in fold.dictionary.find(words))
            ids.append(np.array(pieces, "<u2"))
            starts.append(starts[-1] + len(pieces))
    return np.concatenate(ids), np.array(starts, "<u8")


def write_fold(folder: Path, name: str, fold: Labelled) -> str:
    """One fold's files; says how much there is."""
    above = ancestors(fold.terms)
    counts = Counter(number for *_, number in fold.mentions)
    types = choose_types(fold.terms, above, fold.dictionary.terms, counts)
    numbers = {t.id: i for i, t in enumerate(types)}
    rows = [
        sorted({numbers[up] for ident in ids for up in above[ident] if up in numbers})
        for ids in fold.dictionary.terms
    ]
    typed = [m for m in fold.mentions if rows[m[3]]]
    lengths = np.array([0, *map(len, rows)]).cumsum()
    flat = np.array([number for row in rows for number in row], "<u2")
    with atomic_binary(folder / f"mentions-{name}.npy") as file:
        np.save(file, np.array(typed, _MENTION), allow_pickle=False)
    with atomic_binary(folder / f"names-{name}.npz") as file:
        np.savez_compressed(file, starts=lengths.astype("<u4"), types=flat)
    with atomic_write(folder / f"types-{name}.json") as file:
        file.write(json.dumps([t.as_json() for t in types], indent=1) + "\n")
    return f"{name}: {len(types):,} types, {len(typed):,} mentions of {len(counts):,} names"


def main() -> None:
    """Reads the command line and labels."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text", type=Path, help="folder of *.txt.xz")
    parser.add_argument("ontologies", type=Path, help="folder of *.tsv.xz")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--share", type=float, default=0.25, help="of the text's sentences")
    given = parser.parse_args()
    tokenizer = load_tokenizer(given.tokenizer)
    terms = read_terms(given.ontologies, read_kinds().values())
    sample = islice(read_sentences(given.text, given.share / 10, seed=1), _SAMPLE)
    folds = make_folds(terms, sample)
    sentences = track(read_sentences(given.text, given.share), "labelling")
    ids, starts = label(sentences, folds, tokenizer)
    given.out.mkdir(parents=True, exist_ok=True)
    for name, array in (("ids", ids), ("starts", starts)):
        with atomic_binary(given.out / f"{name}.npy") as file:
            np.save(file, array, allow_pickle=False)
    print(f"{len(starts) - 1:,} sentences, {len(ids):,} subwords")
    for name, fold in folds.items():
        print(write_fold(given.out, name, fold))


if __name__ == "__main__":
    main()
