"""What a request can be refused for, and the status it is answered with."""

from typing import Any

from hardner.errors import HardnerError


class Refused(HardnerError):
    """A request that cannot be done; ``extra`` is sent along with the line."""

    status = 422

    def __init__(self, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.extra = extra


class Missing(Refused):
    """What it is about is not there."""

    status = 404


class Conflict(Refused):
    """The project's state stands in the way."""

    status = 409


class TooLarge(Refused):
    """More than the limits allow."""

    status = 413


class Busy(Refused):
    """Too much is waiting already."""

    status = 429
