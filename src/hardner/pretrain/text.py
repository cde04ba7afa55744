"""Plain text as a stream of lines, without the sentences that models are tested on."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from hardner import files
from hardner.corpora import Corpora
from hardner.errors import FileError
from hardner.formats.format import Report


class PlainText:
    """The lines of some files, as often as they are asked for."""

    def __init__(self, paths: Iterable[Path], without: Collection[str] = frozenset()) -> None:
        """Args: ``without`` are sentences, as `plain`, that never come out."""
        self.paths, self.without = tuple(paths), without
        self.lines = 0
        """How many came out when they were last asked for."""
        self.left_out = 0
        """How many did not, as they were among ``without``."""

    def __iter__(self) -> Iterator[str]:
        self.lines = self.left_out = 0
        for path in self.paths:
            for _, line in files.lines(path):
                text = line.strip()
                if not text:
                    continue
                if self.without and plain(text) in self.without:
                    self.left_out += 1
                else:
                    self.lines += 1
                    yield text

    def identity(self) -> dict[str, str]:
        """What tells this text from any other: a hash of the files, one of what is left out."""
        hashes = "".join(map(files.sha256, self.paths)).encode()
        held = "\n".join(sorted(self.without)).encode()
        return {"text": short_hash(hashes), "without": short_hash(held) if self.without else ""}


def plain(text: str) -> str:
    """A sentence without its spaces, so that tokenised and running text compare equal."""
    return "".join(text.split())


def held_out(root: Path) -> frozenset[str]:
    """Every devel and test sentence of the catalogue's corpora under a root, as `plain`."""
    corpora = Corpora.under(root)
    rows = corpora.present()
    if not rows:
        raise FileError(root, "holds none of the corpora that `hardner corpora` knows")
    found = (corpora.load(row.name, Report()) for row in rows)
    return frozenset(plain("".join(s.tokens)) for c in found for s in (*c.devel, *c.test))


def short_hash(data: bytes) -> str:
    """A hash that still can be read."""
    return hashlib.sha256(data).hexdigest()[:16]
