"""What the routes share: the workbench they work on, and how files are sent."""

from collections.abc import Iterable
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.responses import Response, StreamingResponse

from hardner.serve.workbench import Workbench


def _bench(request: Request) -> Workbench:
    found = request.app.state.bench
    assert isinstance(found, Workbench)
    return found


Bench = Annotated[Workbench, Depends(_bench)]


def attached(name: str, kind: str, data: bytes | Iterable[bytes]) -> Response:
    """A file to be saved, not shown."""
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
    }
    if isinstance(data, bytes):
        return Response(data, media_type=kind, headers=headers)
    return StreamingResponse(iter(data), media_type=kind, headers=headers)
