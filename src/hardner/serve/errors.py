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
    """There is no such thing."""

    status = 404


class Conflict(Refused):
    """Not in the project's current state."""

    status = 409


class TooLarge(Refused):
    """Over a limit."""

    status = 413


class Busy(Refused):
    """Too much work is queued."""

    status = 429
