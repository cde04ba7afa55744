"""Annotated text in and out: one table of formats, and reading and writing by it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from hardner.errors import FileError, HardnerError
from hardner.files import PathLike, head, is_standard, plain_name, shown_path
from hardner.formats.fit import fit
from hardner.formats.format import Format
from hardner.formats.mention import check
from hardner.formats.report import Place, Report, reporting
from hardner.formats.table import FORMATS
from hardner.types import Document

__all__ = ["FORMATS", "Format", "Report", "detect", "format_to_write", "read", "write"]


def read(
    path: PathLike,
    format: str | None = None,
    *,
    scheme: str | None = None,
    strict: bool = False,
    report: Report | None = None,
) -> Iterator[Document]:
    """The documents of a file or folder, one at a time.

    Args:
        format: A name in :data:`FORMATS`; by default, what the path's ending or content shows.
        scheme: That of the tags, where the format has tags.
        strict: An annotation that a :class:`Document` cannot hold, or a tag sequence that is not
            valid, is an error; otherwise it is counted.
        report: Where to count; without one, the counts become Python warnings at the end.
    """
    row = _row(format) if format is not None else detect(path)
    if row.read is None:
        raise FileError(shown_path(path), f"{row.name} can be written but not read")
    options = _options(row, scheme)
    nothing = True
    with reporting(strict, report) as used:
        for document in row.read(path, used, **options):
            nothing = False
            yield document
    if nothing:
        raise FileError(shown_path(path), "holds no documents")


def write(
    documents: Iterable[Document],
    path: PathLike,
    format: str | None = None,
    *,
    scheme: str | None = None,
    strict: bool = False,
    report: Report | None = None,
) -> None:
    """Writes the documents, all of them or nothing.

    Args:
        format: A name in :data:`FORMATS`; by default, what the path's ending says.
        scheme: That of the tags, where the format has tags; by default IOB2.
        strict: An annotation that the format cannot hold is an error; otherwise it is counted.
        report: Where to count; without one, the counts become Python warnings at the end.
    """
    row = _row(format) if format is not None else format_to_write(path)
    if row.write is None:
        raise HardnerError(f"{row.name} can be read but not written")
    options = _options(row, scheme)
    with reporting(strict, report) as used:
        row.write(_fitted(documents, path, row.holds, used), path, used, **options)


def _fitted(
    documents: Iterable[Document], path: PathLike, holds: frozenset[str], report: Report
) -> Iterator[Document]:
    where = "<standard output>" if is_standard(path) else path
    for document in documents:
        place = Place(where, document=document.id)
        check(document, place)
        yield fit(document, holds, report, place)


def _options(row: Format, scheme: str | None) -> dict[str, str]:
    if scheme is not None and not row.tagged:
        raise HardnerError(f"{row.name} has no tags, so no scheme ({scheme})")
    return {} if scheme is None else {"scheme": scheme}


def _row(name: str) -> Format:
    try:
        return FORMATS[name]
    except KeyError:
        raise HardnerError(f"unknown format {name!r}; known are {', '.join(FORMATS)}") from None


def detect(path: PathLike) -> Format:
    """The format of a file or folder, by its ending, then by its content.

    Standard input that looks like nothing else is plain text.
    """
    if not is_standard(path) and Path(path).is_dir():
        return _of_folder(Path(path))
    candidates = _with_ending(path)
    if len(candidates) == 1:
        return candidates[0]
    start = head(path)
    sniffed = (row for row in candidates or FORMATS.values() if row.sniff(start))
    found = next(sniffed, candidates[-1] if candidates else None)
    if found is None and is_standard(path):
        return FORMATS["text"]
    if found is None:
        raise FileError(shown_path(path), "cannot tell its format; say which with --from")
    return found


def _of_folder(path: Path) -> Format:
    names = [plain_name(file).lower() for file in path.rglob("*")]
    for row in FORMATS.values():
        if row.folder and any(name.endswith(row.endings) for name in names):
            return row
    raise FileError(path, "a folder without files of a known format; name a file")


def format_to_write(path: PathLike) -> Format:
    """The format that the ending of a path says."""
    if not is_standard(path) and (str(path).endswith("/") or Path(path).is_dir()):
        return FORMATS["brat"]
    written = [row for row in _with_ending(path) if row.write is not None]
    if not written:
        raise FileError(path, "cannot tell the format to write; say which with --to")
    return written[-1]


def _with_ending(path: PathLike) -> list[Format]:
    """The formats that claim the longest ending that the path has."""
    name = "" if is_standard(path) else plain_name(path).lower()
    endings = {ending for row in FORMATS.values() for ending in row.endings}
    longest = max((ending for ending in endings if name.endswith(ending)), key=len, default=None)
    return [row for row in FORMATS.values() if longest in row.endings]
