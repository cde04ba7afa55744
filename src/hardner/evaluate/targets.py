"""The corpora of a protocol: by the catalogue's names, two of them as one, or plain folders."""

from dataclasses import replace
from pathlib import Path

from hardner import corpora
from hardner.corpora import SPLITS
from hardner.errors import FileError, HardnerError
from hardner.formats import Report
from hardner.formats.conll import read_sentences
from hardner.schemes import longest_non_overlapping
from hardner.types import Corpus, Sentence

JOINED = {"BC5CDR": ("BC5CDR-disease", "BC5CDR-chem")}
"""Corpora that the catalogue holds as one a label, of the same sentences."""


def load_target(name: str, root: str | Path, report: Report | None = None) -> Corpus:
    """A corpus with all its splits.

    Args:
        name: Of the catalogue or of `JOINED`, or a folder under the root that holds ``train.tsv``,
            ``test.tsv`` and perhaps ``devel.tsv`` and is named after its domain.
        root: The folder that holds the corpora's folders.
        report: Where to count what could not be kept.
    """
    if name in JOINED:
        return _joined(name, [corpora.load_corpus(part, root, report) for part in JOINED[name]])
    if name in corpora.catalogue():
        return corpora.load_corpus(name, root, report)
    folder = Path(root, name)
    if not folder.is_dir():
        known = ", ".join((*corpora.catalogue(), *JOINED))
        raise HardnerError(f"no corpus {name!r}: no folder {folder}, and known are {known}")
    splits = {split: _split(folder, split, report) for split in SPLITS}
    return Corpus(name, name, **splits)


def present(name: str, root: str | Path) -> bool:
    """Whether a corpus lies under the root."""
    parts = [row for part in JOINED.get(name, (name,)) if (row := corpora.catalogue().get(part))]
    if parts:
        return all(row.path("train", root).exists() for row in parts)
    return Path(root, name).is_dir()


def domain_of(name: str) -> str:
    """What a corpus is about."""
    row = corpora.catalogue().get(name)
    return row.domain if row else name


def _split(folder: Path, split: str, report: Report | None) -> tuple[Sentence, ...]:
    for path in (folder / f"{split}.tsv{ending}" for ending in ("", ".xz", ".gz")):
        if path.is_file():
            prefix = f"{folder.name}/{split}/"
            return tuple(read_sentences(path, report=report, prefix=prefix))
    if split != "devel":
        raise FileError(folder, f"holds no {split}.tsv")
    return ()


def _joined(name: str, parts: list[Corpus]) -> Corpus:
    splits = {}
    for split in SPLITS:
        rows = zip(*(getattr(part, split) for part in parts), strict=True)
        splits[split] = tuple(_merged(row) for row in rows)
    return Corpus(name, name, **splits)


def _merged(row: tuple[Sentence, ...]) -> Sentence:
    """One sentence with the spans of all; of two that overlap the longer is kept."""
    if len({sentence.tokens for sentence in row}) > 1:
        raise HardnerError(f"{row[0].id} and {row[1].id} are not the same sentence")
    spans = sorted(span for sentence in row for span in sentence.spans)
    return replace(row[0], spans=tuple(longest_non_overlapping(spans)))
