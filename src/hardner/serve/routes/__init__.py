"""The HTTP routes, and what they share: the workbench, request bodies and how files are sent."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import AfterValidator, BaseModel, Field

from hardner.serve.workbench import Workbench


def _bench(request: Request) -> Workbench:
    bench: Workbench = request.app.state.bench
    return bench


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds a lone surrogate, which is half a character") from None
    return text


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must be printable and not blank")
    return text.strip()


Bench = Annotated[Workbench, Depends(_bench)]

_BLOCK = 1 << 20  # bytes of a download that are sent at once
BIGGEST = 2**53 - 1
"""The largest integer that every reader of JSON reads exactly."""
Number = Annotated[int, Field(ge=1, le=BIGGEST, strict=True)]
PathNumber = Annotated[int, Field(ge=1, le=BIGGEST)]
Index = Annotated[int, Field(ge=0, le=BIGGEST, strict=True)]
Text = Annotated[str, AfterValidator(_storable)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]


class Nothing(BaseModel, extra="forbid"):
    """An empty object."""


def attachment(name: str, kind: str, data: bytes | Iterable[bytes]) -> Response:
    """A file that the browser saves instead of showing it."""
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    if isinstance(data, bytes):
        return Response(data, media_type=kind, headers=headers)
    return StreamingResponse(iter(data), media_type=kind, headers=headers)


def written_blocks(write: Callable[[Path], None]) -> Iterator[bytes]:
    """What is written into a temporary file, in blocks.

    A slow download must neither fill the memory nor keep a snapshot of the project open.
    """
    with tempfile.TemporaryDirectory(prefix="hardner-download-") as folder:
        path = Path(folder, "file")
        write(path)
        with path.open("rb") as file:
            yield from iter(lambda: file.read(_BLOCK), b"")
