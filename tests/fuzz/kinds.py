"""What is read: a kind of file or folder, its undamaged seeds, and how hardner takes one in."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from formats.test_ace import PLAIN, SGM, apf
from formats.test_ontonotes import CONTENT
from fuzz.mutate import Files

from hardner.errors import HardnerError
from hardner.formats import FORMATS, Place, Report, read, write
from hardner.formats.format import check_document
from hardner.text import sentences
from hardner.types import Document, Entity, Passage


class Unsound(Exception):
    """No exception was raised, but what came out is not what may come out."""


@dataclass(frozen=True)
class Kind:
    """A kind of input."""

    name: str
    seeds: Sequence[Files]
    take: Callable[[Path], object]
    """Takes in an input: a file, or a folder where there are several files."""
    share: float = 1.0
    """How many inputs of it there are, against a kind of files."""
    mend: Callable[[dict[str, bytes]], Files] = lambda files: files
    """Makes sums agree with what they are of, so that not they alone are looked at."""


def _document(name: str, text: str, *marks: tuple[str, str]) -> Document:
    """Args: ``marks`` are a label and what it marks, whose pieces are split by ``..``."""
    found = []
    for label, quoted in marks:
        at, pieces = 0, []
        for piece in quoted.split(".."):
            at = text.index(piece, at)
            pieces.append((at, at := at + len(piece)))
        whole = " ".join(text[start:end] for start, end in pieces)
        fragments = tuple(pieces) if len(pieces) > 1 else ()
        number = f"D:{len(found)}"
        found.append(Entity(pieces[0][0], at, label, whole, 0.5, fragments, number))
    return Document(name, text, tuple(found))


TITLED = "Aspirin in asthma."
DOCUMENTS = (
    Document(
        "1",
        f"{TITLED}\nIt failed in mice.",
        (Entity(0, 7, "Drug", "Aspirin", identifier="MESH:1"), Entity(32, 36, "Species", "mice")),
        passages=(Passage(0, 18, "title"), Passage(19, 37, "abstract")),
    ),
    _document(
        "2",
        "Breast and ovarian cancer of β-cells (漢字) 😀 in mice.",
        ("Disease", "Breast..cancer"),
        ("Disease", "ovarian cancer"),
        ("Anatomy", "β-cells"),
        ("X", "漢字) 😀"),
    ),
    _document(
        "3",
        "The BRCA1 gene product.",
        ("Gene", "BRCA1"),
        ("Gene", "BRCA1 gene"),
        ("P", "gene product"),
    ),
    Document("4", "Nothing here."),
)
_TOKENS = tuple(
    Document(d.id, d.text, d.entities, tuple(sentences(Document(d.id, d.text)))) for d in DOCUMENTS
)
_NAMES = {
    **{"pubtator": "x.pubtator", "conll": "x.tsv", "brat": "x.ann", "bioc": "x.xml"},
    **{"biocjson": "x.bioc.json", "docbin": "x.spacy", "parquet": "x.parquet", "text": "x.txt"},
}
_MEDLINE = Path(__file__).parents[1] / "formats" / "pubmed-fixture.xml"
_GIVEN: dict[str, list[Files]] = {
    "ontonotes": [{"x.gold_conll": CONTENT.encode()}],
    "medline": [{"x.xml": _MEDLINE.read_bytes()}],
    "ace": [{"X1.sgm": SGM.encode(), "X1.apf.xml": apf(PLAIN).encode()}],
}


_SEEDS = Path(__file__).with_name("seeds")
"""What other tools write, by format, with what hardner leaves out: a file or a folder each."""


def file_kinds(work: Path) -> list[Kind]:
    """A kind for each format that can be read."""
    return [
        Kind(name, seeds, lambda path, name=name: _read(path, name))
        for name, format in FORMATS.items()
        if format.read
        and (seeds := _GIVEN.get(name) or _written(name, work / name) + of_others(name))
    ]


def of_others(format: str) -> list[Files]:
    """What other tools write, as it lies beside this file."""
    found = sorted(_SEEDS.glob(f"{format}/*"))
    return [contents(p) if p.is_dir() else {p.name: p.read_bytes()} for p in found]


def _written(format: str, folder: Path) -> list[Files]:
    seeds = []
    for number, documents in enumerate((DOCUMENTS, DOCUMENTS[:1], DOCUMENTS[1:2], _TOKENS)):
        for packed in ("", ".gz", ".xz") if number == 0 and format != "brat" else ("",):
            made = folder / f"{number}{packed}"
            made.mkdir(parents=True)
            own = documents if format != "brat" else documents[number % 4 :][:1]
            path = made / (_NAMES.get(format, "x.jsonl") + packed)
            write(own, path, format, report=Report())
            seeds.append(contents(made))
    return seeds


def contents(folder: Path) -> Files:
    """The files of a folder by name."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _read(path: Path, format: str) -> None:
    """Read it; what was read is sound, and can be written and read again."""
    if path.is_dir() and not FORMATS[format].folder:
        raise HardnerError("a folder")
    documents = list(read(path, format, report=Report()))
    for document in documents:
        try:
            check_document(document, Place(path))
        except HardnerError as error:
            raise Unsound(f"read, but not a document: {_said(error)}") from None
    writers = [name for name, row in FORMATS.items() if row.read and row.write]
    to = writers[zlib.crc32(repr(documents).encode("utf-8", "backslashreplace")) % len(writers)]
    again = path.with_name("again")
    try:
        write(documents, target := again / _NAMES.get(to, "x.jsonl"), to, report=Report())
    except HardnerError:
        return  # it cannot hold them
    try:
        list(read(target, to, report=Report()))
    except HardnerError as error:
        raise Unsound(f"written as {to}, refused by its reader: {_said(error)}") from None


def _said(error: HardnerError) -> str:
    """A message without what differs from input to input."""
    return str(error).rpartition(": ")[2][:60]
