"""BRAT standoff: a text in ``NAME.txt`` and its annotations in ``NAME.ann``, alone or in a folder.

Of an .ann file the text-bound annotations (T) and their concepts (N) are read.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from hardner.errors import FileError
from hardner.files import (
    LINE_LIMIT,
    PathLike,
    Utf8Writer,
    atomic_write,
    is_standard,
    lines,
    plain_name,
    read_text,
)
from hardner.folders import atomic_folder
from hardner.formats.format import (
    Format,
    Place,
    Report,
    make_mention,
    on_one_line,
    parse_offset,
    short,
)
from hardner.types import Document, Entity

_LEFT_OUT = {
    **dict.fromkeys("R*", "relation left out"),
    **dict.fromkeys("AM", "attribute left out"),
    **{"E": "event left out", "#": "note left out"},
}
_TEXT_BOUND = re.compile(r"(\S+) ([0-9]+ [0-9]+(?:;[0-9]+ [0-9]+)*)")
_CONCEPT = re.compile(r"Reference (\S+) (\S+)")


def bases(path: PathLike, *endings: str) -> list[Path]:
    """What the names of each pair of files share: of one pair, or of all in a folder."""
    path = _named(path)
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    shared = (
        file.with_name(plain_name(file).removesuffix(ending))
        for file in found
        for ending in endings
        if plain_name(file).endswith(ending)
    )
    return list(dict.fromkeys(shared))


def _named(path: PathLike) -> Path:
    if is_standard(path):
        raise FileError(path, "this format is a pair of files or a folder: it needs a name")
    return Path(path)


def file_beside(base: Path, ending: str) -> Path:
    """The file with this ending, plain or compressed; the plain name where there is none."""
    names = [base.with_name(base.name + ending + packed) for packed in ("", ".gz", ".xz")]
    return next((name for name in names if name.exists()), names[0])


def _read(path: PathLike, report: Report) -> Iterator[Document]:
    folder = Path(path).is_dir()
    for base in bases(path, ".txt", ".ann") or ([] if folder else [Path(path)]):
        name = base.relative_to(path).as_posix() if folder else base.name
        yield _document(base, name, report)


def _document(base: Path, name: str, report: Report) -> Document:
    source, ann = file_beside(base, ".txt"), file_beside(base, ".ann")
    text = read_text(source)
    if not ann.exists():
        report.note("text without an .ann file beside it", Place(source))
        return Document(name, text)
    found: dict[str, Entity] = {}
    concepts: dict[str, list[str]] = {}
    size = 0
    for number, line in lines(ann):
        place = Place(ann, number)
        size += len(line)
        if size > LINE_LIMIT:
            raise place.error(f"more than {LINE_LIMIT:,} characters of annotations of one text")
        key, _, rest = line.partition("\t")
        if key.startswith("T"):
            if key in found:
                raise place.error(f"a second {key}: two entities with one id")
            found[key] = _entity(rest, text, place)
        elif key.startswith("N"):
            if (parts := _CONCEPT.fullmatch(rest.partition("\t")[0])) is None:
                raise place.error(f"not a concept of an entity: {short(rest)}")
            concepts.setdefault(parts[1], []).append(parts[2])
        elif key[:1] in _LEFT_OUT:
            report.add(_LEFT_OUT[key[:1]], place)
        elif line.strip():
            raise place.error(f"not an annotation: {short(line)}")
    if unknown := concepts.keys() - found.keys():
        raise FileError(ann, f"a concept of {min(unknown)}, but there is no {min(unknown)}")
    for key, names in concepts.items():
        found[key] = replace(found[key], identifier="|".join(names))
    return Document(name, text, tuple(found.values()))


def _entity(rest: str, text: str, place: Place) -> Entity:
    head, _, quoted = rest.partition("\t")
    if (parts := _TEXT_BOUND.fullmatch(head)) is None:
        raise place.error(f"not a label and its offsets: {short(head)}")
    edges = [parse_offset(edge, place) for edge in re.split("[ ;]", parts[2])]
    ranges = list(zip(edges[::2], edges[1::2], strict=True))
    return make_mention(place, text, ranges, parts[1], quoted=quoted)


def _write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    target = _named(path)
    if plain_name(target).endswith(".ann"):
        _write_pair(documents, target, report)
        return
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileError(path, "is there already; name a new folder")
    with atomic_folder(target.resolve(), durable=False) as folder:
        for document in documents:
            place = Place(path, document=document.id)
            if any(part in ("", ".", "..") for part in document.id.split("/")):
                raise place.error("this id cannot be the name of a file")
            base = folder / document.id
            base.parent.mkdir(parents=True, exist_ok=True)
            parts = {".txt": document.text, ".ann": _ann(document, report, place)}
            for ending, content in parts.items():
                file = base.with_name(base.name + ending)
                if file.exists():
                    raise place.error("a second document with this id")
                with file.open("wb") as raw:
                    Utf8Writer(raw).write(content)


def _write_pair(documents: Iterable[Document], path: Path, report: Report) -> None:
    base, _, packed = path.name.rpartition(".ann")
    with atomic_write(path.with_name(f"{base}.txt{packed}")) as text, atomic_write(path) as ann:
        for number, document in enumerate(documents):
            place = Place(path, document=document.id)
            if number:
                raise place.error("one .ann file holds one document; name a folder for more")
            text.write(document.text)
            ann.write(_ann(document, report, place))


def _ann(document: Document, report: Report, place: Place) -> str:
    rows: list[str] = []
    concepts: list[str] = []
    for number, entity in enumerate(document.entities, 1):
        label = "_".join(entity.label.split()) or "_"
        if label != entity.label:
            report.add(f"label {short(entity.label)} written as {label}", place)
        where = ";".join(f"{start} {end}" for start, end in entity.ranges)
        quoted = on_one_line(entity.text)
        rows.append(f"T{number}\t{label} {where}\t{quoted}\n")
        if entity.identifier:
            identifier = "_".join(entity.identifier.split()) or "_"
            if identifier != entity.identifier:
                report.add("concept identifier written without spaces", place)
            concepts.append(f"N{len(concepts) + 1}\tReference T{number} {identifier}\t{quoted}\n")
    return "".join(rows + concepts)


BRAT = Format(
    "brat",
    (".ann",),
    "BRAT standoff: a folder of .txt and .ann files, or one pair",
    _read,
    _write,
    holds=frozenset({"ids", "identifiers", "overlaps", "fragments"}),
    folder=True,
)
