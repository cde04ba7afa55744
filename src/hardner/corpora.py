"""The corpora under a folder: the catalogue's by name, others as plain folders."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from hardner import formats
from hardner.catalogue import (
    SPLITS,
    CatalogueEntry,
    JoinedEntry,
    Row,
    SplitFile,
    builtin_rows,
    with_rows_of,
)
from hardner.episodes import distinct, random_numbers
from hardner.errors import FileError, HardnerError
from hardner.formats.conll import read_sentences
from hardner.formats.format import Place, Report, reporting
from hardner.schemes import longest_non_overlapping, shortest_non_overlapping
from hardner.text import Problem, sentences
from hardner.types import Corpus, Document, Sentence

_Splits = dict[str, tuple[Sentence, ...]]


def exists(path: Path) -> bool:
    """Whether a path is there; `Path.exists` fails where a name is too long to be one."""
    return os.path.exists(path)  # noqa: PTH110


@dataclass(frozen=True)
class Corpora:
    """The corpora under a folder, by name."""

    root: Path
    rows: Mapping[str, Row]
    """Of the catalogue, whether they lie there or not."""

    @classmethod
    def under(cls, root: str | Path, catalogue: str | Path = "") -> "Corpora":
        """Those of the built-in catalogue, of one beside the data, and of a user's own file."""
        rows, beside = builtin_rows(), Path(root, "catalogue.toml")
        if exists(beside):
            rows = with_rows_of(rows, beside)
        return cls(Path(root), with_rows_of(rows, Path(catalogue)) if catalogue else rows)

    @property
    def entries(self) -> dict[str, CatalogueEntry]:
        """The rows that have files of their own."""
        return {name: row for name, row in self.rows.items() if isinstance(row, CatalogueEntry)}

    def entry(self, name: str) -> CatalogueEntry:
        row = self.rows.get(name)
        if not isinstance(row, CatalogueEntry):
            raise HardnerError(f"unknown corpus {name!r}; known are {', '.join(self.entries)}")
        return row

    def present(self) -> list[CatalogueEntry]:
        """The catalogue's corpora that lie there, in its order."""
        if not exists(self.root):
            hint = "--root is the one that holds the corpora's folders"
            raise FileError(self.root, f"no such folder; {hint}")
        return [e for e in self.entries.values() if exists(e.path("train", self.root))]

    def holds(self, name: str) -> bool:
        name, _ = _of_label(name)
        row = self.rows.get(name)
        if isinstance(row, JoinedEntry):
            return all(map(self.holds, row.joins))
        return exists(row.path("train", self.root) if row else self.root / name)

    def domain_of(self, name: str) -> str:
        """What a corpus is about; one outside the catalogue is named after it, a type by itself."""
        if label := _of_label(name)[1]:
            return label
        row = self.rows.get(name)
        return row.domain if isinstance(row, CatalogueEntry) else name

    def descriptions_of(self, name: str) -> dict[str, str]:
        """By label, what a corpus takes for a mention, where its row says so."""
        row = self.rows.get(_of_label(name)[0])
        if isinstance(row, JoinedEntry):
            return {k: v for part in row.joins for k, v in self.descriptions_of(part).items()}
        return dict(row.descriptions) if row else {}

    def load(
        self, name: str, report: Report | None = None, splits: Sequence[str] = SPLITS
    ) -> Corpus:
        """A corpus with all its splits, or some: at least ``train``.

        Its name is in the catalogue, or that of a folder as `folder_row` describes it; with a
        label, as in ``re3d:Weapon``, only mentions of that type are kept. What could not be kept is
        counted in the report; without one, it becomes Python warnings.
        """
        whole, label = _of_label(name)
        if label:
            return _of_type(name, label, self.load(whole, report, splits))
        row = self.rows.get(name)
        if isinstance(row, JoinedEntry):
            return joined(name, [self.load(part, report, splits) for part in row.joins])
        here = self.root / name
        if row is None and not exists(here):
            known = ", ".join(self.rows)
            raise HardnerError(f"no corpus {name!r}: no folder {here}, and known are {known}")
        row = row or folder_row(here, splits)
        wanted = [split for split in row.parts if split in splits]
        with reporting(False, report) as used:
            read = {split: tuple(_read(row, split, self.root, used)) for split in wanted}
        return Corpus(name, row.domain, **_held_out(row, read))


def _of_label(name: str) -> tuple[str, str]:
    """The name of a corpus and the type of it that is meant, if any."""
    corpus, _, label = name.partition(":")
    return corpus, label


def _of_type(name: str, label: str, whole: Corpus) -> Corpus:
    """The corpus with the mentions of one label alone."""
    splits = {
        split: tuple(
            replace(s, spans=tuple(span for span in s.spans if span.label == label))
            for s in getattr(whole, split)
        )
        for split in SPLITS
    }
    if not any(sentence.spans for sentence in splits["train"]):
        known = {span.label for sentence in whole.train for span in sentence.spans}
        raise HardnerError(f"{name}: no such type; {whole.name} has {', '.join(sorted(known))}")
    return Corpus(name, label, **splits)


def load_corpus(name: str, root: str | Path, report: Report | None = None) -> Corpus:
    return Corpora.under(root).load(name, report)


def folder_row(folder: Path, splits: Sequence[str]) -> CatalogueEntry:
    """The row of a folder of ``train.tsv``, ``test.tsv`` and perhaps ``devel.tsv``: its domain."""
    found: dict[str, SplitFile] = {}
    for split in splits:
        names = (f"{split}.tsv{ending}" for ending in ("", ".xz", ".gz"))
        if there := [name for name in names if (folder / name).is_file()]:
            found[split] = SplitFile(there[0])
        elif split != "devel":
            raise FileError(folder, f"holds no {split}.tsv")
    parts = found["train"], found.get("devel"), found.get("test")
    return CatalogueEntry(folder.name, folder.name, *parts)


def joined(name: str, parts: Sequence[Corpus]) -> Corpus:
    """Corpora of the same sentences as one."""
    splits = {}
    for split in SPLITS:
        columns = [getattr(part, split) for part in parts]
        if len(set(map(len, columns))) > 1:
            raise HardnerError(f"{name}: its parts do not have as many {split} sentences")
        splits[split] = tuple(map(_merged, *columns))
    return Corpus(name, name, **splits)


def _merged(*row: Sentence) -> Sentence:
    """One sentence with the spans of all; of two that overlap the longer is kept."""
    if len({sentence.tokens for sentence in row}) > 1:
        raise HardnerError(f"{row[0].id} and {row[1].id} are not the same sentence")
    spans = sorted(span for sentence in row for span in sentence.spans)
    return replace(row[0], spans=tuple(longest_non_overlapping(spans)))


def _held_out(row: CatalogueEntry, splits: _Splits) -> _Splits:
    """The splits with a tenth of train moved to each that is to be taken from it."""
    train = splits["train"]
    size = -(-len(train) // 10)  # rounded up
    # Drawn by the corpus's name alone, so that everybody holds out the same sentences.
    drawn = distinct(len(train), size * len(row.hold_out), random_numbers("hold-out", row.name))
    moved = {"train": set(range(len(train))).difference(drawn)}
    for place, split in enumerate(row.hold_out):
        moved[split] = set(drawn[place * size : (place + 1) * size])
    return splits | {split: tuple(train[i] for i in sorted(rows)) for split, rows in moved.items()}


def _read(row: CatalogueEntry, split: str, root: Path, report: Report) -> Iterator[Sentence]:
    prefix, path = f"{row.name}/{split}/", row.path(split, root)
    if row.format == "conll":
        found = read_sentences(path, report=report, prefix=prefix)
    else:
        documents = formats.read(path, row.format, report=report)
        found = (s for d in documents for s in _sentences(row, d, path, prefix, report))
    for s in found:
        spans = tuple(x._replace(label=row.labels.get(x.label, x.label)) for x in s.spans)
        yield s if spans == s.spans else replace(s, spans=spans)


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
        """The percentage of sentences that hold an entity."""
        return 100 * self.with_entity / self.sentences if self.sentences else 0.0


def corpus_statistics(found: Iterable[Sentence]) -> Statistics:
    held = list(found)
    labels = Counter(span.label for sentence in held for span in sentence.spans)
    return Statistics(
        sentences=len(held),
        with_entity=sum(bool(sentence.spans) for sentence in held),
        tokens=sum(map(len, held)),
        unique_tokens=len(set(chain.from_iterable(sentence.tokens for sentence in held))),
        labels=dict(labels.most_common()),
    )
