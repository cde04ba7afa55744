"""Why a request is refused, and the HTTP status of the answer."""

import errno
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from hardner.errors import HardnerError

_Row = TypeVar("_Row")


class Refused(HardnerError):
    """The request cannot be done; ``extra`` is sent beside the error message."""

    status = 422
    headers: Mapping[str, str] | None = None

    def __init__(self, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.extra = extra


class Missing(Refused):
    status = 404  # there is no such thing


def only(rows: Iterable[_Row], what: str) -> _Row:
    """The only row there can be; where there is none, the answer is that it is missing."""
    for row in rows:
        return row
    raise Missing(f"there is no {what}")


class Conflict(Refused):
    status = 409  # not in the project's current state


class TooLarge(Refused):
    status = 413  # over a limit


class Busy(Refused):
    status = 429  # too much work is queued

    def __init__(self, message: str, retry_after: int = 1) -> None:
        """Args: ``retry_after`` is in how many seconds it may be done."""
        super().__init__(message)
        self.headers = {"retry-after": str(max(1, retry_after))}


class NotReady(Busy):
    status = 503  # a model is being loaded


def is_disk_full(error: BaseException) -> bool:
    """Whether that is what an error of the system or of SQLite says."""
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


DISK_FULL = "the disk is full; free some space, until then nothing more can be saved"
