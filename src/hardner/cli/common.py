"""What commands share: options, progress bars, a Ctrl-C that is heard, and checks before work."""

import ctypes
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

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

from hardner.errors import FileError
from hardner.formats import FORMATS
from hardner.schemes import ALIASES, SCHEMES

if TYPE_CHECKING:
    from hardner.jobs.progress import RunProgress

stderr = Console(stderr=True, highlight=False, soft_wrap=True)
_PATIENCE = 2.0
"""Seconds before a counter of documents is shown."""


class EngineChoice(StrEnum):
    """Where the work is done; the output is the same."""

    local = "local"
    ray = "ray"


def check_format(name: str | None) -> str | None:
    """Refuse a name that no format has."""
    if name is not None and name not in FORMATS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(FORMATS)}.")
    return name


def check_scheme(name: str | None) -> str | None:
    """Refuse a name that no tag scheme has."""
    if name is not None and name not in {**SCHEMES, **ALIASES}:
        raise typer.BadParameter(f"{name!r} is none of {', '.join((*SCHEMES, *ALIASES))}.")
    return name


ENGINE_OPTION = Annotated[
    EngineChoice, typer.Option(help="local, or ray: on all machines of a Ray cluster.")
]
ADDRESS_OPTION = Annotated[
    str | None,
    typer.Option(
        envvar="RAY_ADDRESS",
        show_envvar=False,
        metavar="HOST:PORT",
        help="Of the Ray cluster; by default one on this machine.",
    ),
]
SOURCE_FORMAT_OPTION = Annotated[
    str | None,
    typer.Option("--from", callback=check_format, help="Format of the input, if not as it looks."),
]
DEVICE_OPTION = Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")]
MODEL_OPTION = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="A model folder; by default the model that comes along."),
]


def check_model_folder(out: Path, force: bool) -> None:
    """Before any work, whether a model can be written there."""
    from hardner.checkpoint import CONFIG

    if out.exists() and not force:
        raise FileError(out, "exists already; name another folder, or replace it with --force")
    # --force replaces models, not whatever else a mistyped name may hit.
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / CONFIG).is_file())):
        raise FileError(out, "is not a hardner model, so it is not replaced; name another folder")


def keep_freed_memory() -> None:
    """Keep what is freed for the next step of a fit, instead of handing it back and forth.

    Where the C library is not glibc, nothing changes.
    """
    trim_threshold, mmap_threshold = -1, -3  # of glibc's malloc.h
    adjust = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if adjust is not None:
        adjust(mmap_threshold, 32 << 20)  # the most that it takes
        adjust(trim_threshold, 1 << 30)


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
            stderr.print(f"{told.done:,} of {told.total:,}: {said}", markup=False)

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

    def say(message: Warning | str, *_: object, **__: object) -> None:
        stderr.print(f"warning: {message}", markup=False)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = say
        yield


@contextmanager
def interruptible(ready: Callable[[], bool] = lambda: True) -> Iterator[Callable[[], bool]]:
    """Whether the user has asked to stop.

    Asked twice, or while there is nothing yet to save (not ``ready``), it stops where it is.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked or not ready():
            raise KeyboardInterrupt
        asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def message_on_interrupt(said: str) -> Iterator[None]:
    """An interrupt, with a line that says what it leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        stderr.print(said, markup=False)
        raise
