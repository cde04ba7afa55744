"""What commands share: messages, progress bars, interrupts, and checks before work."""

import ctypes
import json
import signal
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, pairwise
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from hardner.errors import FileError
from hardner.files import is_encoding, is_standard
from hardner.formats import FORMATS
from hardner.formats.html import HIGHLIGHT_COLOURS, visible
from hardner.schemes import ALIASES, SCHEMES
from hardner.types import Document, Entity

if TYPE_CHECKING:
    from hardner.jobs import RunProgress

stderr = Console(stderr=True, highlight=False, soft_wrap=True)
_PATIENCE = 2.0
"""Seconds before a counter of documents is shown."""


def say(message: str) -> None:
    """A line on stderr."""
    stderr.print(message, markup=False)


def warn(lines: Iterable[str]) -> None:
    """Warnings on stderr, such as the lines of a `Report`."""
    for line in lines:
        say(f"warning: {line}")


def print_json(record: Any) -> None:
    """A result on stdout, for other programs."""
    typer.echo(json.dumps(record, indent=1, ensure_ascii=False))


def plain_table(*headings: str, right: Collection[str] = ()) -> Table:
    """An empty table without lines; the columns named in ``right`` are numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        numeric = heading in right
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=numeric)
    return table


def marked_text(document: Document, labels: Sequence[str]) -> Text:
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
            made.append(_mark(entity), f"dim {hues[entity.label]}")
    return made


def _mark(entity: Entity) -> str:
    score = "" if entity.score == 1.0 else f" {entity.score:.2f}"
    return f"[{visible(entity.label)}{score}]"


def check_format(name: str | None) -> str | None:
    """Refuse a name that no format has."""
    if name is not None and name not in FORMATS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(FORMATS)}.")
    return name


def check_encoding(name: str | None) -> str | None:
    """Refuse a name that no encoding of text has."""
    if name is not None and not is_encoding(name):
        raise typer.BadParameter(f"{name!r} is no encoding of text, such as latin-1 or utf-16.")
    return name


def check_scheme(name: str | None) -> str | None:
    """Refuse a name that no tag scheme has."""
    if name is not None and name not in {**SCHEMES, **ALIASES}:
        raise typer.BadParameter(f"{name!r} is none of {', '.join((*SCHEMES, *ALIASES))}.")
    return name


def check_not_read(out: str | Path, *sources: str | Path) -> None:
    """Before any work, whether what is to be written is to be read as well."""
    written = [path for path in _files_of(out) if path.exists()]
    endings = tuple(end for row in FORMATS.values() if row.folder for end in row.endings)
    for read in filter(Path.exists, chain.from_iterable(map(_files_of, sources))):
        for path in written:
            inside = read.is_dir() and path.is_relative_to(read) and path.name.endswith(endings)
            if inside or path.samefile(read):
                raise FileError(out, "is read, so it cannot be written as well; name another")


def _files_of(path: str | Path) -> list[Path]:
    """The path itself, and of a BRAT file also the text that belongs to it."""
    if is_standard(path):
        return []
    whole = Path(path).resolve()
    return [whole, whole.with_suffix(".txt")] if whole.suffix == ".ann" else [whole]


def check_model_folder(out: Path, force: bool) -> None:
    """Before any work, whether a model can be written there."""
    from hardner.manifest import CONFIG

    if out.exists() and not force:
        raise FileError(out, "exists already; name another folder, or replace it with --force")
    # --force replaces models, not whatever else a mistyped name may hit.
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / CONFIG).is_file())):
        raise FileError(out, "is not a hardner model, so it is not replaced; name another folder")


def keep_freed_memory() -> None:
    """Keep what is freed for the next step of a fit, instead of handing it back and forth.

    Where the C library is not glibc, nothing changes.
    """
    trim_threshold, mmap_threshold, most_arenas = -1, -3, -8  # of glibc's malloc.h
    adjust = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if adjust is not None:
        adjust(mmap_threshold, 32 << 20)  # the most that it takes
        adjust(trim_threshold, 1 << 30)
        adjust(most_arenas, 1)  # threads would each keep their own


def progress_bar() -> Progress:
    """Seen on a terminal alone, and gone when it is done."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=stderr,
        transient=True,
        disable=not stderr.is_terminal,
    )


class RunBar:
    """The progress callback of a run: a bar on a terminal, else a line for each milestone."""

    def __init__(self, unit: str = "") -> None:
        """Args: ``unit`` is what the run's speed counts."""
        self.bar, self.unit = progress_bar(), unit
        self.task = self.bar.add_task("reading", total=None)
        self.training = False

    def __call__(self, told: "RunProgress") -> None:
        if told.stage:
            self.bar.update(self.task, description=told.stage)
            return
        if not self.training:  # the time left is reckoned from here
            self.bar.reset(self.task, total=told.total, completed=told.done)
        self.training = True
        found = [] if told.loss is None else [f"loss {told.loss:.4f}"]
        found += [] if told.devel is None else [f"devel {told.devel:.4f}"]
        found += [f"{told.speed:,.0f} {self.unit}/s"] if told.speed else []
        said = ", ".join(found)
        self.bar.update(self.task, description=said or "starting", completed=told.done)
        if told.milestone and self.bar.disable:
            say(f"{told.done:,} of {told.total:,}: {said}")

    def reading(self, done: int, total: int | None) -> None:
        """The callback for word vectors being read."""
        self.bar.update(self.task, description="reading word vectors", completed=done, total=total)


@contextmanager
def document_counter() -> Iterator[Callable[[int], None]]:
    """A function to tell how many documents are done; it shows a bar once that takes long."""
    started = time.monotonic()
    columns = (BarColumn(), TextColumn("{task.completed:,} documents"), TimeElapsedColumn())
    bar = Progress(*columns, console=stderr, transient=True)
    task = bar.add_task("", total=None)
    with ExitStack() as stack:

        def tick(done: int) -> None:
            if bar.live.is_started:
                bar.update(task, completed=done)
            elif stderr.is_terminal and time.monotonic() - started > _PATIENCE:
                stack.enter_context(bar)

        yield tick


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Python's warnings as lines on stderr."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        warn([str(message)])

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


_received: list[int] = []
"""The signals that have asked this process to end."""


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """End by SIGTERM as by Ctrl-C, which tidies up first."""
    _received.clear()

    def interrupt(number: int, frame: FrameType | None) -> None:
        _received.append(number)
        raise KeyboardInterrupt

    with _handling(interrupt):
        yield


def interrupted_code() -> int:
    """The exit code of a process that a signal has ended."""
    return 128 + (_received[0] if _received else signal.SIGINT)


@contextmanager
def interruptible(ready: Callable[[], bool] = lambda: True) -> Iterator[Callable[[], bool]]:
    """Whether the user has asked to stop.

    Asked twice, or while there is nothing yet to save (not ``ready``), it stops where it is.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        _received.append(number)
        if asked or not ready():
            raise KeyboardInterrupt
        asked = True

    with _handling(ask):
        yield lambda: asked


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def message_on_interrupt(said: str) -> Iterator[None]:
    """An interrupt, with a line that says what it leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        say(said)
        raise


class _PlainFlags:
    """Help without a type behind options that take no value."""

    def get_params(self, context: Any) -> list[Any]:
        found: list[Any] = super().get_params(context)  # type: ignore[misc]
        for parameter in found:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return found


class PlainCommand(_PlainFlags, TyperCommand):
    """A command whose help shows flags as they are typed."""


class PlainGroup(_PlainFlags, TyperGroup):
    """As `PlainCommand`, for commands with commands of their own."""
