"""What long commands share: a bar on stderr, and a Ctrl-C that asks them to stop."""

import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

stderr = Console(stderr=True, highlight=False, soft_wrap=True)


def bar() -> Progress:
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


@contextmanager
def warned() -> Iterator[None]:
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
def spoken(said: str) -> Iterator[None]:
    """An interrupt, with a line that says what it leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        stderr.print(said, markup=False)
        raise
