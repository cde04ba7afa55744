"""The known corpora: what the catalogue says of each, and reading them from where they lie."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from hardner import formats
from hardner.episodes import distinct, random_numbers
from hardner.errors import FileError, HardnerError
from hardner.files import sha256
from hardner.formats.conll import read_sentences
from hardner.formats.format import Place, Report, reporting
from hardner.schemes import longest_non_overlapping, shortest_non_overlapping
from hardner.text import Problem, sentences
from hardner.types import Corpus, Document, Sentence, Span

SPLITS = ("train", "devel", "test")


@dataclass(frozen=True, slots=True)
class SplitFile:
    """A split's file or folder."""

    path: str
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """A corpus in Table 2 of HGDA."""

    unique_tokens: int
    percent: int


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A row of the catalogue; its keys are described there."""

    name: str
    domain: str
    licence: str
    source: str
    train: SplitFile
    devel: SplitFile | None = None
    test: SplitFile | None = None
    folder: str = ""
    format: str = "conll"
    labels: Mapping[str, str] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    hold_out: tuple[str, ...] = ()
    innermost: bool = False
    published: Published | None = None

    def domain_of(self, label: str) -> str:
        """The domain that a label of the corpus belongs to."""
        return self.domains.get(label, self.domain)

    @property
    def parts(self) -> dict[str, SplitFile]:
        """The splits that have a file or folder of their own."""
        parts = {"train": self.train, "devel": self.devel, "test": self.test}
        return {split: part for split, part in parts.items() if part is not None}

    def path(self, split: str, root: str | Path) -> Path:
        return Path(root, self.folder or self.name, self.parts[split].path)

    def changed(self, root: str | Path) -> list[Path]:
        """Those of its files that differ from the ones the catalogue was written for."""
        summed = {self.path(split, root): part.sha256 for split, part in self.parts.items()}
        return [path for path, known in summed.items() if known and known != sha256(path)]


@lru_cache(maxsize=1)
def catalogue() -> Mapping[str, CatalogueEntry]:
    """Every known corpus by its name."""
    text = files("hardner").joinpath("catalogue.toml").read_text("utf-8")
    return {name: _entry(name, row) for name, row in tomllib.loads(text).items()}


def _entry(name: str, row: dict[str, Any]) -> CatalogueEntry:
    known = {key.name: key for key in fields(CatalogueEntry) if key.name != "name"}
    needed = {
        key.name
        for key in known.values()
        if key.default is MISSING and key.default_factory is MISSING
    }
    if wrong := set(row) - set(known):
        raise HardnerError(
            f"catalogue, {name}: unknown key {min(wrong)!r}; known are {', '.join(known)}"
        )
    if missing := needed - set(row):
        raise HardnerError(f"catalogue, {name}: {min(missing)!r} is missing")
    parts = {split: SplitFile(**row[split]) for split in SPLITS if split in row}
    published = Published(**row["published"]) if "published" in row else None
    held = tuple(row.get("hold_out", ()))
    return CatalogueEntry(name, **{**row, **parts, "published": published, "hold_out": held})


def catalogue_entry(name: str) -> CatalogueEntry:
    """The catalogue's row for a corpus."""
    try:
        return catalogue()[name]
    except KeyError:
        raise HardnerError(f"unknown corpus {name!r}; known are {', '.join(catalogue())}") from None


def corpora_under(root: str | Path) -> list[CatalogueEntry]:
    """The known corpora that lie under a root, in the catalogue's order."""
    if not Path(root).is_dir():
        raise FileError(root, "no such folder; --root is the one that holds the corpora's folders")
    return [row for row in catalogue().values() if row.path("train", root).exists()]


def load_corpus(name: str, root: str | Path, report: Report | None = None) -> Corpus:
    """A corpus with all its splits.

    Args:
        report: Where to count what could not be kept; without one, it becomes Python warnings.
    """
    row = catalogue_entry(name)
    with reporting(False, report) as used:
        splits = {
            split: tuple(_read(row, split, row.path(split, root), used)) for split in row.parts
        }
    return Corpus(name, row.domain, **_held_out(row, splits))


def _held_out(
    row: CatalogueEntry, splits: dict[str, tuple[Sentence, ...]]
) -> dict[str, tuple[Sentence, ...]]:
    """The splits with a tenth of train moved to each that is to be taken from it."""
    train = splits["train"]
    size = -(-len(train) // 10)
    drawn = distinct(len(train), size * len(row.hold_out), random_numbers("hold-out", row.name))
    taken = {
        split: sorted(drawn[place * size : (place + 1) * size])
        for place, split in enumerate(row.hold_out)
    }
    kept = sorted(set(range(len(train))).difference(drawn))
    moved = {"train": kept, **taken} if taken else {}
    return splits | {split: tuple(train[i] for i in indices) for split, indices in moved.items()}


def _read(row: CatalogueEntry, split: str, path: Path, report: Report) -> Iterator[Sentence]:
    prefix = f"{row.name}/{split}/"
    if row.format == "conll":
        found = read_sentences(path, report=report, prefix=prefix)
    else:
        documents = formats.read(path, row.format, report=report)
        found = (s for d in documents for s in _sentences(row, d, path, prefix, report))
    for sentence in found:
        yield _relabelled(sentence, row.labels) if row.labels and sentence.spans else sentence


def _sentences(
    row: CatalogueEntry, document: Document, path: Path, prefix: str, report: Report
) -> Iterator[Sentence]:
    place = Place(path, document=document.id)
    choose = shortest_non_overlapping if row.innermost else longest_non_overlapping
    kept = choose(document.entities)
    if nested := len(document.entities) - len(kept):
        report.note("mention around or within another left out", place, nested)

    def tell(problem: Problem) -> None:
        report.add(f"mention left out: it {problem.reason}", place)

    for number, sentence in enumerate(sentences(replace(document, entities=tuple(kept)), tell), 1):
        yield replace(sentence, id=f"{prefix}{document.id}/{number}")


def _relabelled(sentence: Sentence, labels: Mapping[str, str]) -> Sentence:
    spans = tuple(Span(s.start, s.end, labels.get(s.label, s.label)) for s in sentence.spans)
    return replace(sentence, spans=spans)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What sentences hold; ``labels`` counts the mentions of each type."""

    sentences: int
    with_entity: int
    tokens: int
    unique_tokens: int
    labels: Mapping[str, int]

    @property
    def mentions(self) -> int:
        return sum(self.labels.values())

    @property
    def percent(self) -> float:
        """Of sentences with an entity."""
        return 100 * self.with_entity / self.sentences if self.sentences else 0.0


def corpus_statistics(found: Iterable[Sentence]) -> Statistics:
    number = with_entity = tokens = 0
    unique: set[str] = set()
    labels: Counter[str] = Counter()
    for sentence in found:
        number += 1
        with_entity += bool(sentence.spans)
        tokens += len(sentence.tokens)
        unique.update(sentence.tokens)
        labels.update(span.label for span in sentence.spans)
    return Statistics(number, with_entity, tokens, len(unique), dict(labels.most_common()))
