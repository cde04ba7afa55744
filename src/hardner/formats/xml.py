"""XML read as a stream: nothing fetched from outside, memory bounded."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from hardner.files import LINE_LIMIT, PathLike, open_binary
from hardner.formats.format import Place, boundary, bounded

# lxml is imported when a file is read, as it takes a while; it has no types.
_SAFE = {
    **{"resolve_entities": False, "no_network": True, "load_dtd": False},
    **{"remove_comments": True, "remove_pis": True},
}
"""For lxml: fetch nothing from outside the file, expand no entity, keep text in one piece."""


def iterate_xml(path: PathLike, *tags: str) -> Iterator[tuple[Any, Place]]:
    """The elements with these tags and their places; each is freed when the next is asked for."""
    with open_binary(path) as file:
        source = _Metered(file, Place(path))
        for _, element in bounded(_parsed(source, tags), Place(path), "not XML"):
            yield element, Place(path, element.sourceline)
            source.size = 0
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]


def parse_xml(path: PathLike) -> Any:
    """The root of a file that is held as a whole."""
    from lxml import etree

    with open_binary(path) as file, boundary(Place(path), "not XML"):
        return etree.parse(_Metered(file, Place(path)), etree.XMLParser(**_SAFE)).getroot()


def _parsed(source: "_Metered", tags: tuple[str, ...]) -> Iterator[Any]:
    from lxml import etree

    events = etree.iterparse(source, tag=tags, **_SAFE)
    try:
        yield from events
    except etree.XMLSyntaxError as error:
        for first in events.error_log:  # the error itself may lack line and reason
            raise etree.XMLSyntaxError(
                first.message, first.type, first.line, first.column
            ) from None
        raise error from None


class _Metered:
    """A file of which only so much is read, as lxml holds it all, until an element is there."""

    def __init__(self, file: BinaryIO, place: Place) -> None:
        self._file, self._place = file, place
        self.size = 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.size += len(data)
        if self.size > LINE_LIMIT:
            raise self._place.error(f"a document of more than {LINE_LIMIT:,} bytes of XML")
        return data


def element_text(element: Any, place: Place) -> str:
    """All text within an element."""
    from lxml import etree

    if (entity := next(element.iter(etree.Entity), None)) is not None:
        raise place.error(
            f"holds the XML entity {entity.text}, which is not expanded; write the character itself"
        )
    return "".join(element.itertext())
