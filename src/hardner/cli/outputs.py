"""Where tagged documents go: standard output, a file or a folder of files, in some format."""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.text import Text

from hardner.cli.common import check_not_read
from hardner.errors import FileError, HardnerError
from hardner.files import atomic_write, file_errors, is_standard, plain_name
from hardner.formats import FORMATS, Report, format_to_write, write
from hardner.formats.format import Place
from hardner.formats.html import HIGHLIGHT_COLOURS, visible
from hardner.formats.jsonl import encode_document
from hardner.types import Document, Entity


@dataclass(frozen=True)
class Output:
    """A place, and the form in which documents are written there."""

    place: Path | None
    """None for standard output."""
    folder: bool
    """Whether the place is a folder in which each input has a file of its own."""
    format: str
    """A name in `FORMATS`; ``text`` is text with its mentions marked."""
    scheme: str | None
    report: Report

    @classmethod
    def of(
        cls, out: str | None, format: str | None, scheme: str | None, report: Report
    ) -> "Output":
        """Find out what is meant; what cannot be written is refused."""
        place = None if out is None or is_standard(out) else Path(out)
        folder = place is not None and (str(out).endswith("/") or place.is_dir())
        row = FORMATS[format or _usual(place, folder)]
        if row.write is None:
            raise HardnerError(f"{row.name} can be read but not written; choose another --to")
        if scheme is not None and not row.tagged:
            raise HardnerError(f"{row.name} has no tags, so no --scheme {scheme}")
        return cls(place, folder and not row.folder, row.name, scheme, report)

    @property
    def growing(self) -> Path | None:
        """The plain file with a document a line, which can be gone on with; None if it is none."""
        if self.place is None or self.folder or self.format != "jsonl":
            return None
        # A compressed file cannot be cut back to whole lines, and JSON lists have an end.
        plain = not self.place.name.lower().endswith((".json", ".gz", ".xz"))
        return self.place if plain and (self.place.is_file() or not self.place.exists()) else None

    def files(self, sources: Sequence[str], folders: Sequence[str] = ()) -> dict[str, Path]:
        """The output of each input; one file stands for all unless there is a folder.

        Of inputs below one of ``folders`` that share a name, the later ones keep their path.
        """
        if self.place is None:
            return {}
        owners: dict[Path, str] = {}
        for source in sources:
            path = self.place / self._name(source) if self.folder else self.place
            above = next((f for f in folders if Path(f) in Path(source).parents), None)
            if self.folder and path in owners and above is not None:
                path = self.place / Path(source).parent.relative_to(above) / path.name
            # a/x.txt and b/x.txt would overwrite each other's output.
            if self.folder and path in owners:
                message = f"{owners[path]} and {source} would both be written here; rename one"
                raise FileError(path, message)
            check_not_read(path, source)
            owners[path] = source
        return {source: path for path, source in owners.items()}

    def write(
        self, documents: Iterable[Document], path: Path | None, labels: Sequence[str]
    ) -> None:
        """Write documents to a file, whole or not at all, or to standard output.

        Args:
            documents: Their scores are left out without a word where the format has no place.
            path: None for standard output.
            labels: Those of the model, in order, which gives them colours.
        """
        if path is not None and self.folder:
            with file_errors(path.parent):
                path.parent.mkdir(exist_ok=True, parents=True)
        if path is None and self.format in ("text", "jsonl"):
            with file_errors("<standard output>"):
                self._stream(documents, labels)
        elif path is not None and self.format == "text":
            with atomic_write(path) as file:
                file.writelines(f"{_marked(d, labels).plain}\n" for d in documents)
        else:
            scored = "scores" in FORMATS[self.format].holds
            fitting = documents if scored else map(_unscored, documents)
            target = path or "-"
            write(fitting, target, self.format, scheme=self.scheme, report=self.report)

    def _stream(self, documents: Iterable[Document], labels: Sequence[str]) -> None:
        console = Console(highlight=False, soft_wrap=True)
        for document in documents:
            if self.format == "jsonl":
                sys.stdout.buffer.write(self.line(document).encode() + b"\n")
            else:
                console.print(_marked(document, labels))

    def line(self, document: Document) -> str:
        """The document as a line of JSON."""
        record = encode_document(
            document, self.report, Place(self.place or "-", document=document.id)
        )
        return json.dumps(record, ensure_ascii=False, allow_nan=False)

    def _name(self, source: str) -> str:
        ending = next(iter(FORMATS[self.format].endings), ".jsonl")
        return ("stdin" if is_standard(source) else Path(plain_name(source)).stem) + ending


def _usual(place: Path | None, folder: bool) -> str:
    """The format where none is named."""
    if place is None:
        return "text" if sys.stdout.isatty() else "jsonl"
    return "jsonl" if folder else format_to_write(place).name


def _unscored(document: Document) -> Document:
    bare = (replace(entity, score=1.0) for entity in document.entities)
    return replace(document, entities=tuple(bare))


def _marked(document: Document, labels: Sequence[str]) -> Text:
    """The text with its mentions marked; ``labels`` gives each its colour, by its place."""
    hues = {label: HIGHLIGHT_COLOURS[i % len(HIGHLIGHT_COLOURS)] for i, label in enumerate(labels)}
    starting: dict[int, list[Entity]] = defaultdict(list)
    ending: dict[int, list[Entity]] = defaultdict(list)
    for entity in sorted(document.entities, key=lambda e: (-e.start, e.label)):
        starting[entity.start].append(entity)
        ending[entity.end].append(entity)
    # Piece by piece: rich leaves carriage returns out, so that offsets into the whole would shift.
    made, inside = Text(), list[Entity]()
    for start, end in pairwise(sorted({0, len(document.text), *starting, *ending})):
        inside = [e for e in (*inside, *starting[start]) if e.end > start]
        style = f"underline {hues[inside[-1].label]}" if inside else ""
        made.append(visible(document.text[start:end]), style)
        for entity in ending[end]:
            made.append(_tag(entity), f"dim {hues[entity.label]}")
    return made


def _tag(entity: Entity) -> str:
    score = "" if entity.score == 1.0 else f" {entity.score:.2f}"
    return f"[{visible(entity.label)}{score}]"
