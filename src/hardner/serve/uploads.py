"""Files that users bring: kept aside under names of our own, and read as any file of a format."""

import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from hardner.errors import HardnerError
from hardner.formats import FORMATS, Report, detect, read
from hardner.serve.errors import Refused, TooLarge
from hardner.serve.workbench import Limits
from hardner.types import Document

SHOWN = 20
"""Warnings of one upload that are passed on."""
FILES = 10_000
"""Files in a zip."""
PIECE = 1 << 20
_ODD = re.compile(r"[^A-Za-z0-9._+-]")
_DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error)


def safe_name(name: str) -> str:
    """A file name of the same ending that means nothing to a file system."""
    last = PurePosixPath(name.replace("\\", "/")).name
    return _ODD.sub("_", last).lstrip(".")[-100:] or "upload"


def documents(
    path: Path, format: str | None, limits: Limits, report: Report
) -> list[tuple[Document, bool]]:
    """The documents of an uploaded file, each with whether its silence means that it has no label.

    That is so of all documents of a file of tagged tokens that has any label. ``path`` lies alone
    in a folder of its own, where a zip is unpacked.
    """
    try:
        source = _unzipped(path, limits) if zipfile.is_zipfile(path) else path
        found: list[tuple[Document, bool]] = []
        room = limits.text_characters
        for part in _parts(source):
            own = _bounded(part, format, room, limits, report)
            tagged = (FORMATS[format] if format else detect(part)).tagged
            labelled = tagged and any(document.entities for document in own)
            found += [(document, labelled) for document in own]
            room -= sum(len(document.text) for document in own)
    except HardnerError as error:
        kind = type(error) if isinstance(error, Refused) else Refused
        raise kind(_without(str(error), path)) from None
    return found


def _parts(source: Path) -> list[Path]:
    """What is read as one: a file, or a folder of files that belong together."""
    if source.is_file():
        return [source]
    files = sorted(source.iterdir())
    paired = any(file.name.endswith((".ann", ".apf.xml", ".sgm")) for file in files)
    return [source] if paired else files


def _bounded(
    part: Path, format: str | None, room: int, limits: Limits, report: Report
) -> list[Document]:
    if part.is_file():
        _check_size(part, limits)
    found = []
    for document in read(part, format, report=report):
        room -= len(document.text)
        if room < 0:
            raise TooLarge(f"more than {limits.text_characters:,} characters of text; split it")
        found.append(document)
    return found


def _check_size(path: Path, limits: Limits) -> None:
    """Refuses a compressed file that would fill the memory."""
    with path.open("rb") as file:
        magic = file.read(6)
    try:
        if magic.startswith(b"\x1f\x8b"):
            with gzip.open(path) as packed:
                _count(iter(lambda: packed.read(PIECE), b""), limits)
        elif magic.startswith(b"\xfd7zXZ\x00"):
            with lzma.open(path) as packed:
                _count(iter(lambda: packed.read(PIECE), b""), limits)
        elif magic[:1] == b"\x78":
            _count(_inflated(path), limits)
    except _DAMAGED:
        return  # whoever reads it says what is wrong


def _inflated(path: Path) -> Iterator[bytes]:
    unpack = zlib.decompressobj()
    with path.open("rb") as file:
        while data := file.read(PIECE):
            while data:
                yield unpack.decompress(data, PIECE)
                data = unpack.unconsumed_tail


def _count(pieces: Iterable[bytes], limits: Limits) -> None:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > 4 * limits.text_characters:
            raise TooLarge(f"more than {4 * limits.text_characters:,} bytes when decompressed")


def _unzipped(path: Path, limits: Limits) -> Path:
    """The files of a zip in a flat folder; their names are made safe, their folders go."""
    folder = path.with_name("unpacked")
    folder.mkdir()
    room = 4 * limits.text_characters
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(entries) > FILES:
                raise TooLarge(f"more than {FILES:,} files in the zip")
            for entry in entries:
                if _is_clutter(entry.filename):
                    continue
                target = folder / safe_name(entry.filename.strip("/").replace("/", "_"))
                if target.exists():
                    raise Refused(f"{entry.filename} is there twice in the zip")
                with archive.open(entry) as file, target.open("wb") as out:
                    while data := file.read(PIECE):
                        room -= len(data)
                        if room < 0:
                            raise TooLarge("the zip holds too much when unpacked; split it")
                        out.write(data)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, *_DAMAGED):
        raise Refused(f"{path.name}: a zip that is damaged or encrypted") from None
    if not any(folder.iterdir()):
        raise Refused(f"{path.name}: the zip holds no files")
    return folder


def _is_clutter(name: str) -> bool:
    """What systems put into zips beside the user's files."""
    return name.startswith("__MACOSX/") or PurePosixPath(name).name.startswith(".")


def lines(report: Report, path: Path) -> list[str]:
    """What a report says, as the user is told."""
    return [_without(line, path) for line in report.lines()[:SHOWN]]


def _without(line: str, path: Path) -> str:
    """A message that names the user's file and not where we keep it."""
    return line.replace(f"{path.parent / 'unpacked'}/", "").replace(f"{path.parent}/", "")


def formats() -> list[dict[str, object]]:
    """The formats, as the page offers them."""
    return [
        {
            "name": row.name,
            "about": row.about,
            "endings": list(row.endings),
            "readable": row.read is not None,
            "writable": row.write is not None,
            "keeps": sorted(row.holds),
            "tagged": row.tagged,
        }
        for row in FORMATS.values()
    ]
