"""Why a request is refused, and the HTTP status of the answer."""

from typing import Any

from hardner.errors import HardnerError


class Refused(HardnerError):
    """The request cannot be done; ``extra`` is sent beside the error message."""

    status = 422

    def __init__(self, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.extra = extra


class Missing(Refused):
    status = 404  # there is no such thing


class Conflict(Refused):
    status = 409  # not in the project's current state


class TooLarge(Refused):
    status = 413  # over a limit


class Busy(Refused):
    status = 429  # too much work is queued
