"""Plain text: a file is one document, every character kept as it is."""

from collections.abc import Iterable, Iterator

from hardner.files import PathLike, atomic_write, read_text, stem
from hardner.formats.format import Format, Place, Report
from hardner.types import Document


def _read(path: PathLike, report: Report) -> Iterator[Document]:
    text = read_text(path)
    if not text.strip():
        raise Place(path).error("holds no text")
    yield Document(stem(path), text)


def _write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
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
    read=_read,
    write=_write,
    holds=frozenset({"overlaps"}),
)
