"""Text in and out: the table of formats, and reading and writing by it; plain text itself.

A new format is one file that makes a :class:`Format` and registers it; see ``docs/formats.md``.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from hardner.errors import FileError, HardnerError
from hardner.files import (
    PathLike,
    atomic_write,
    decoded_as,
    head,
    is_encoding,
    is_standard,
    plain_name,
    read_text,
    shown_path,
    stem,
)
from hardner.formats.ace import ACE_2005
from hardner.formats.annotation_tools import DOCCANO, LABELSTUDIO, PRODIGY
from hardner.formats.bioc import BIOC_JSON, BIOC_XML
from hardner.formats.brat import BRAT
from hardner.formats.conll import CONLL, TABLE_HINT
from hardner.formats.csv import CSV
from hardner.formats.docbin import DOCBIN
from hardner.formats.format import (
    HOLDABLE,
    Format,
    Place,
    Report,
    fit_document,
    make_mention,
    reporting,
)
from hardner.formats.html import HTML
from hardner.formats.jsonl import JSONL
from hardner.formats.medline import MEDLINE
from hardner.formats.ontonotes import ONTONOTES
from hardner.formats.parquet import PARQUET
from hardner.formats.pubtator import PUBTATOR
from hardner.types import Document

__all__ = [
    "FORMATS",
    "HOLDABLE",
    "Format",
    "Place",
    "Report",
    "detect",
    "format_to_write",
    "make_mention",
    "read",
    "register",
    "write",
]


def _read_plain(path: PathLike, report: Report) -> Iterator[Document]:
    text = read_text(path)  # every character kept as it is
    if not text.strip():
        raise Place(path).error("holds no text")
    yield Document(stem(path), text)


def _write_plain(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    with atomic_write(path) as file:
        for number, document in enumerate(documents):
            place = Place(path, document=document.id)
            if number:
                report.note("bound between two documents written as a line break", place)
                file.write("\n")
            for _ in document.entities:
                report.add("mention left out", place)
            file.write(document.text)


PLAIN_TEXT = Format(
    name="text",
    endings=(".txt",),
    about="plain text: a file is a document",
    read=_read_plain,
    write=_write_plain,
    holds=frozenset({"overlaps"}),
)

# Of formats that share an ending, the last is written, and read where no other knows the content.
_BUILT_IN = (
    *(ONTONOTES, PUBTATOR, CONLL, BRAT, ACE_2005, MEDLINE, BIOC_XML, BIOC_JSON, PRODIGY, DOCCANO),
    *(LABELSTUDIO, JSONL, DOCBIN, PARQUET, CSV, HTML, PLAIN_TEXT),
)


class _Table(Mapping[str, Format]):
    """Formats by name; those of installed packages are loaded when a look-up needs them.

    Not at import, as a package that adds a format itself imports this module.
    """

    def __init__(self, formats: Iterable[Format]) -> None:
        self._formats = {format.name: format for format in formats}
        self._complete = False

    def add(self, format: Format) -> None:
        if self._formats.get(format.name, format) is not format:
            raise HardnerError(f"there is a format {format.name!r} already; choose another name")
        # In front, so that it never takes an ending away from a built-in format.
        self._formats = {format.name: format, **self._formats}

    def _loaded(self) -> dict[str, Format]:
        if not self._complete:
            for point in entry_points(group="hardner.formats"):
                self.add(_load_plugin(point))
            self._complete = True
        return self._formats

    def __getitem__(self, name: str) -> Format:
        return self._formats[name] if name in self._formats else self._loaded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())


def _load_plugin(point: EntryPoint) -> Format:
    package = point.dist.name if point.dist else point.value
    try:
        format = point.load()
    except Exception as error:
        message = f"{package} is installed, but its format {point.name!r} cannot be loaded"
        raise HardnerError(f"{message} ({error}); mend or uninstall it") from None
    if not isinstance(format, Format):
        raise HardnerError(f"{package}: the entry point {point.name!r} is not a hardner Format")
    return format


FORMATS = _Table(_BUILT_IN)
"""Every known format by its name."""


def register(format: Format) -> Format:
    """Add a format to :data:`FORMATS`, for this process; returns it.

    An installed package has its formats added for it, commands included, by naming them in the
    entry-point group ``hardner.formats``.
    """
    FORMATS.add(format)
    return format


def read(
    path: PathLike,
    format: str | None = None,
    *,
    scheme: str | None = None,
    strict: bool = False,
    report: Report | None = None,
    encoding: str | None = None,
) -> Iterator[Document]:
    """The documents of a file or folder, one at a time.

    Args:
        format: A name in :data:`FORMATS`; by default, what the path's ending or content shows.
        scheme: The tag scheme, for a format with tags.
        strict: Raise an error at an annotation that a :class:`Document` cannot hold and at an
            invalid tag sequence; otherwise they are counted.
        report: Keeps the counts; without one, they become Python warnings at the end.
        encoding: Of text, UTF-8 by default; formats that say their own encoding keep to that.
    """
    if encoding is not None and not is_encoding(encoding):
        raise HardnerError(f"unknown encoding {encoding!r}; latin-1 and utf-16 are some")
    with decoded_as(encoding):
        chosen = _named(format) if format is not None else detect(path)
    if chosen.read is None:
        raise FileError(shown_path(path), f"{chosen.name} can be written but not read")
    options = _options(chosen, scheme)
    empty = True
    with reporting(strict, report) as used:
        before = dict(used.counts)
        for document in _decoded(chosen.read(path, used, **options), encoding):
            empty = False
            yield document
        if empty:
            left_out = Counter(used.counts) - Counter(before)
            why = "".join(f"; {count:,} times: {reason}" for reason, count in left_out.items())
            raise FileError(shown_path(path), f"holds no documents{why}")


def _decoded(documents: Iterator[Document], encoding: str | None) -> Iterator[Document]:
    """Documents that are read in an encoding, which does not outlast their reader's turn."""
    while True:
        with decoded_as(encoding):
            document = next(documents, None)
        if document is None:
            return
        yield document


def write(
    documents: Iterable[Document],
    path: PathLike,
    format: str | None = None,
    *,
    scheme: str | None = None,
    strict: bool = False,
    report: Report | None = None,
) -> None:
    """Write the documents, all of them or nothing.

    Args:
        format: A name in :data:`FORMATS`; by default, what the path's ending says.
        scheme: The tag scheme, for a format with tags; IOB2 by default.
        strict: Raise an error at an annotation that the format cannot hold; otherwise it is
            left out and counted.
        report: Keeps the counts; without one, they become Python warnings at the end.
    """
    chosen = _named(format) if format is not None else format_to_write(path)
    if chosen.write is None:
        raise HardnerError(f"{chosen.name} can be read but not written")
    options = _options(chosen, scheme)
    where = "<standard output>" if is_standard(path) else path
    with reporting(strict, report) as used:
        fitted = (fit_document(d, chosen, used, Place(where, document=d.id)) for d in documents)
        chosen.write(fitted, path, used, **options)


def _named(name: str) -> Format:
    if name not in FORMATS:
        raise HardnerError(f"unknown format {name!r}; known are {', '.join(FORMATS)}")
    return FORMATS[name]


def _options(format: Format, scheme: str | None) -> dict[str, str]:
    if scheme is not None and not format.tagged:
        raise HardnerError(f"{format.name} has no tags, so no scheme ({scheme})")
    return {} if scheme is None else {"scheme": scheme}


def detect(path: PathLike) -> Format:
    """The format of a file or folder, by its ending, then by its content.

    Standard input whose content shows no other format is plain text.
    """
    if not is_standard(path) and Path(path).is_dir():
        return _of_folder(Path(path))
    if plain_name(path).lower().endswith(".csv"):
        raise FileError(path, f"CSV is not read{TABLE_HINT}")
    candidates = _with_ending(path)
    if len(candidates) == 1:
        return candidates[0]
    start = head(path)
    sniffed = (format for format in candidates or FORMATS.values() if format.sniff(start))
    found = next(sniffed, candidates[-1] if candidates else None)
    if found is None and is_standard(path):
        return PLAIN_TEXT
    if found is None:
        raise FileError(shown_path(path), "cannot tell its format; say which with --from")
    return found


def _of_folder(path: Path) -> Format:
    names = [plain_name(file).lower() for file in path.rglob("*")]
    for format in FORMATS.values():
        if format.folder and any(name.endswith(format.endings) for name in names):
            return format
    raise FileError(path, "a folder without files of a known format; name a file")


def format_to_write(path: PathLike) -> Format:
    """The format that the ending of an output's name says."""
    if not is_standard(path) and (str(path).endswith(("/", os.sep)) or Path(path).is_dir()):
        return BRAT
    written = [format for format in _with_ending(path) if format.write is not None]
    if not written:
        raise FileError(path, "cannot tell the format to write; say which with --to")
    return written[-1]


def _with_ending(path: PathLike) -> list[Format]:
    """The formats that claim the longest ending that the path has."""
    name = "" if is_standard(path) else plain_name(path).lower()
    endings = {ending for format in FORMATS.values() for ending in format.endings}
    longest = max((ending for ending in endings if name.endswith(ending)), key=len, default=None)
    return [format for format in FORMATS.values() if longest in format.endings]
