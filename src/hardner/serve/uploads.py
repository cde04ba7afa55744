"""Files that users bring: kept aside under names of our own, and read as any file of a format."""

import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

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
Silent = Literal["auto", "none", "open"]
"""Documents without a mention hold none, or are still open; or it is found out."""
_ODD = re.compile(r"[^A-Za-z0-9._+-]")
_DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error)


def safe_name(name: str) -> str:
    """A file name of the same ending that means nothing to a file system."""
    last = PurePosixPath(name.replace("\\", "/")).name
    return _ODD.sub("_", last).lstrip(".")[-100:] or "upload"


def documents(
    path: Path, format: str | None, silent: Silent, limits: Limits, report: Report
) -> tuple[list[tuple[Document, bool]], list[str]]:
    """The documents of an uploaded file, each with whether it is labelled; and what to tell.

    Args:
        path: Lies alone in a folder of its own, where a zip is unpacked.
        format: A name of a format, if it is not to be found out.
        silent: What a document without a mention means.
        limits: What it may hold.
        report: Where to count what cannot be kept.
    """
    found: list[tuple[Document, bool]] = []
    room = limits.text_characters
    try:
        source = _unzipped(path, limits) if zipfile.is_zipfile(path) else path
        for part in _parts(source):
            own = _bounded(part, format, room, limits, report)
            tagged = (FORMATS[format] if format else detect(part)).tagged
            none = _holds_none(own, silent, tagged)
            found += [(document, none or bool(document.entities)) for document in own]
            room -= sum(len(document.text) for document in own)
    except HardnerError as error:
        kind = type(error) if isinstance(error, Refused) else Refused
        raise kind(_without(str(error), path)) from None
    lines = [_without(line, path) for line in report.lines()]
    return found, [*_assumed(found), *lines][:SHOWN]


def _holds_none(found: Sequence[Document], silent: Silent, tagged: bool) -> bool:
    """Whether a document without a mention was labelled as holding none.

    In a file of tagged tokens it was, if anything was labelled; in others, if most were.
    """
    if silent != "auto":
        return silent == "none"
    mentioned = sum(bool(document.entities) for document in found)
    return mentioned > 0 and (tagged or 2 * mentioned >= len(found))


def _assumed(found: Sequence[tuple[Document, bool]]) -> Iterator[str]:
    if not any(document.entities for document, _ in found):
        return
    silent = [labelled for document, labelled in found if not document.entities]
    for state, meaning in ((True, "taken as holding none"), (False, "left to be labelled")):
        if count := silent.count(state):
            yield f"{count:,} documents without a label: {meaning}"


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
