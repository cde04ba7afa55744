"""The corpora under a folder: the catalogue's by name, others as plain folders."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hardner import formats
from hardner.catalogue import SPLITS, CatalogueEntry, JoinedEntry, Row, builtin_rows, with_rows_of
from hardner.episodes import distinct, random_numbers
from hardner.errors import FileError, HardnerError
from hardner.formats.conll import read_sentences
from hardner.formats.format import Place, Report, reporting
from hardner.schemes import longest_non_overlapping, shortest_non_overlapping
from hardner.text import Problem, sentences
from hardner.types import Corpus, Document, Sentence, Span


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
        if beside.is_file():
            rows = with_rows_of(rows, beside)
        return cls(Path(root), with_rows_of(rows, Path(catalogue)) if catalogue else rows)

    @property
    def entries(self) -> dict[str, CatalogueEntry]:
        """The rows that have files of their own."""
        return {name: row for name, row in self.rows.items() if isinstance(row, CatalogueEntry)}

    def entry(self, name: str) -> CatalogueEntry:
        """The catalogue's row for a corpus."""
        row = self.rows.get(name)
        if not isinstance(row, CatalogueEntry):
            raise HardnerError(f"unknown corpus {name!r}; known are {', '.join(self.entries)}")
        return row

    def present(self) -> list[CatalogueEntry]:
        """The catalogue's corpora that lie there, in its order."""
        if not self.root.is_dir():
            message = "no such folder; --root is the one that holds the corpora's folders"
            raise FileError(self.root, message)
        return [e for e in self.entries.values() if e.path("train", self.root).exists()]

    def holds(self, name: str) -> bool:
        """Whether a corpus lies there."""
        row = self.rows.get(name)
        if isinstance(row, JoinedEntry):
            return all(map(self.holds, row.joins))
        return (row.path("train", self.root) if row else self.root / name).exists()

    def domain_of(self, name: str) -> str:
        """What a corpus is about; one outside the catalogue is named after it."""
        row = self.rows.get(name)
        return row.domain if isinstance(row, CatalogueEntry) else name

    def load(self, name: str, report: Report | None = None) -> Corpus:
        """A corpus with all its splits.

        Args:
            name: Of the catalogue, or of a folder as `read_folder` reads it.
            report: Where to count what could not be kept; without one, it becomes Python warnings.
        """
        row = self.rows.get(name)
        if isinstance(row, JoinedEntry):
            return _joined(name, [self.load(part, report) for part in row.joins])
        if row is None:
            if not (self.root / name).is_dir():
                here, known = self.root / name, ", ".join(self.rows)
                raise HardnerError(f"no corpus {name!r}: no folder {here}, and known are {known}")
            return read_folder(self.root / name, SPLITS, report)
        with reporting(False, report) as used:
            splits = {
                split: tuple(_read(row, split, row.path(split, self.root), used))
                for split in row.parts
            }
        return Corpus(name, row.domain, **_held_out(row, splits))


def load_corpus(name: str, root: str | Path, report: Report | None = None) -> Corpus:
    """A corpus under a folder, with all its splits."""
    return Corpora.under(root).load(name, report)


def read_folder(
    folder: Path, splits: Iterable[str] = SPLITS, report: Report | None = None
) -> Corpus:
    """A folder of ``train.tsv``, ``test.tsv`` and perhaps ``devel.tsv``, named after its domain."""
    found: dict[str, tuple[Sentence, ...]] = {}
    for split in splits:
        paths = (folder / f"{split}.tsv{ending}" for ending in ("", ".xz", ".gz"))
        path = next((path for path in paths if path.is_file()), None)
        if path:
            prefix = f"{folder.name}/{split}/"
            found[split] = tuple(read_sentences(path, report=report, prefix=prefix))
        elif split != "devel":
            raise FileError(folder, f"holds no {split}.tsv")
    return Corpus(folder.name, folder.name, **found)


def _joined(name: str, parts: list[Corpus]) -> Corpus:
    splits = {}
    for split in SPLITS:
        columns = [getattr(part, split) for part in parts]
        if len(set(map(len, columns))) > 1:
            raise HardnerError(f"{name}: its parts do not have as many {split} sentences")
        splits[split] = tuple(_merged(row) for row in zip(*columns, strict=True))
    return Corpus(name, name, **splits)


def _merged(row: tuple[Sentence, ...]) -> Sentence:
    """One sentence with the spans of all; of two that overlap the longer is kept."""
    if len({sentence.tokens for sentence in row}) > 1:
        raise HardnerError(f"{row[0].id} and {row[1].id} are not the same sentence")
    spans = sorted(span for sentence in row for span in sentence.spans)
    return replace(row[0], spans=tuple(longest_non_overlapping(spans)))


def _held_out(
    row: CatalogueEntry, splits: dict[str, tuple[Sentence, ...]]
) -> dict[str, tuple[Sentence, ...]]:
    """The splits with a tenth of train moved to each that is to be taken from it."""
    train = splits["train"]
    size = -(-len(train) // 10)  # rounded up
    # Drawn by the corpus's name alone, so that everybody holds out the same sentences.
    drawn = distinct(len(train), size * len(row.hold_out), random_numbers("hold-out", row.name))
    taken: dict[str, list[int]] = {
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
