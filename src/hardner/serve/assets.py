"""The files of the page, read once: a request names a key of a table, never a path."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class Asset:
    """A file of the page."""

    data: bytes
    type: str
    tag: str
    """Another one where the data are others."""


def read(folder: Path = FOLDER) -> dict[str, Asset]:
    """The files by their path within the folder, as long as their ending is known."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in TYPES:
            data = path.read_bytes()
            tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
            found[path.relative_to(folder).as_posix()] = Asset(data, TYPES[path.suffix], tag)
    return found
