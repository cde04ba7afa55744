"""Files that users upload: stored under safe names, unpacked, and read as any file of a format."""

import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from hardner.errors import FileError, HardnerError
from hardner.files import open_binary
from hardner.formats import FORMATS, Report, detect, read
from hardner.serve.errors import Refused, TooLarge, is_disk_full
from hardner.serve.workbench import Limits
from hardner.types import Document

MOST_WARNINGS = 20
"""Warnings of one upload that are passed on."""
_MOST_FILES = 10_000  # in a zip
_BLOCK = 1 << 20
Silent = Literal["auto", "none", "open"]
"""Documents without a mention hold none, or are open; or the file decides."""
_DAMAGED = (zipfile.BadZipFile, EOFError, OSError, lzma.LZMAError, zlib.error)
_ODD = re.compile(r"[^A-Za-z0-9._+-]")


def safe_name(name: str) -> str:
    """A file name of the same ending that means nothing to a file system."""
    last = PurePosixPath(name.replace("\\", "/")).name
    return _ODD.sub("_", last).lstrip(".")[-100:] or "upload"


def split_files(path: Path, names: Sequence[str], sizes: Sequence[int]) -> Path:
    """Cut a file into those that it was made of; returns a folder of them."""
    if len(sizes) != len(names) - 1:
        raise Refused(
            f"{len(names)} names and {len(sizes)} sizes; say the size of all but the last"
        )
    folder = path.with_name("unpacked")
    folder.mkdir()
    with path.open("rb") as file:
        for name, size in zip(names, [*sizes, -1], strict=True):
            target = folder / safe_name(name)
            if target.exists():
                raise Refused(f"{name} is there twice")
            target.write_bytes(file.read(size))
    return folder


def read_upload(
    path: Path, format: str | None, silent: Silent, limits: Limits
) -> tuple[list[tuple[Document, bool]], list[str]]:
    """The documents of a file, each with whether it counts as labelled, and warnings.

    Args:
        path: Lies alone in a folder of its own, in which a zip is unpacked; or a folder of files.
        format: The name of the format; None detects it.
        silent: What a document without a mention means.
        limits: What the file may hold.
    """
    report = Report()
    found: list[tuple[Document, bool]] = []
    room = limits.text_characters
    try:
        source = _unzip(path, limits) if zipfile.is_zipfile(path) else path
        for part in _parts(source):
            own = _read_bounded(part, format, room, limits, report)
            tagged = (FORMATS[format] if format else detect(part)).tagged
            none = _holds_none(own, silent, tagged)
            found += [(document, none or bool(document.entities)) for document in own]
            room -= sum(len(document.text) for document in own)
    except HardnerError as error:
        kind = type(error) if isinstance(error, Refused) else Refused
        raise kind(_without_folder(str(error), path)) from None
    lines = [_without_folder(line, path) for line in report.lines()]
    return found, [*_assumptions(found), *lines][:MOST_WARNINGS]


def _holds_none(found: Sequence[Document], silent: Silent, tagged: bool) -> bool:
    """Whether documents without a mention were labelled as holding none.

    A file of tagged tokens says so, if anything in it is labelled; in others, most must be.
    """
    if silent != "auto":
        return silent == "none"
    mentioned = sum(bool(document.entities) for document in found)
    return mentioned > 0 and (tagged or 2 * mentioned >= len(found))


def _assumptions(found: Sequence[tuple[Document, bool]]) -> Iterator[str]:
    if not any(document.entities for document, _ in found):
        return
    silent = [
        labelled
        for document, labelled in found
        if not document.entities and not any(one.state for one in document.sentences)
    ]
    for state, meaning in ((True, "taken as holding none"), (False, "left to be labelled")):
        if count := silent.count(state):
            yield f"{count:,} documents without a label: {meaning}"


def _parts(source: Path) -> list[Path]:
    """What to read one by one: files, or a folder whose files belong together."""
    if source.is_file():
        return [source]
    files = sorted(source.iterdir())
    paired = any(file.name.endswith((".ann", ".apf.xml", ".sgm")) for file in files)
    return [source] if paired else files


def _read_bounded(
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
    """Refuse a compressed file that would fill the memory."""
    room = most = 4 * limits.text_characters
    try:
        for block in _decompressed(path):
            room -= len(block)
            if room < 0:
                raise TooLarge(f"more than {most:,} bytes when decompressed")
    except (FileError, zlib.error):
        return  # the reader of the format says what is wrong


def _decompressed(path: Path) -> Iterator[bytes]:
    with open_binary(path) as file:
        # spaCy's DocBin is compressed by zlib itself; bounded output keeps a bomb from bursting.
        inflater = zlib.decompressobj() if file.peek(1)[:1] == b"\x78" else None
        while data := file.read(_BLOCK):
            if inflater is None:
                yield data
                continue
            while data:
                yield inflater.decompress(data, _BLOCK)
                data = inflater.unconsumed_tail


def _unzip(path: Path, limits: Limits) -> Path:
    """Unpack a zip into a flat folder; names are made safe, folders become part of them."""
    folder = path.with_name("unpacked")
    folder.mkdir()
    room = 4 * limits.text_characters
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(entries) > _MOST_FILES:
                raise TooLarge(f"more than {_MOST_FILES:,} files in the zip")
            for entry in entries:
                if _is_clutter(entry.filename):
                    continue
                target = folder / safe_name(entry.filename.strip("/").replace("/", "_"))
                if target.exists():
                    raise Refused(f"{entry.filename} is there twice in the zip")
                with archive.open(entry) as file, target.open("wb") as out:
                    while data := file.read(_BLOCK):
                        room -= len(data)
                        if room < 0:
                            raise TooLarge("the zip holds too much when unpacked; split it")
                        out.write(data)
    except (*_DAMAGED, NotImplementedError, RuntimeError) as error:
        if is_disk_full(error):
            raise
        raise Refused(f"{path.name}: a zip that is damaged or encrypted") from None
    if not any(folder.iterdir()):
        raise Refused(f"{path.name}: the zip holds no files")
    return folder


def _is_clutter(name: str) -> bool:
    """Whether a system put it into the zip beside the user's files."""
    return name.startswith("__MACOSX/") or PurePosixPath(name).name.startswith(".")


def _without_folder(line: str, path: Path) -> str:
    """A message without the temporary folder and the options of commands, unknown to the user."""
    for said, meant in (
        (f"{path.parent / 'unpacked'}/", ""),
        (f"{path.parent}/", ""),
        ("say which with --from", "choose it as “Format of the files”"),
    ):
        line = line.replace(said, meant)
    return line
