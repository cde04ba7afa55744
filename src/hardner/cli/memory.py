"""What a command asks of the C library's memory."""

import ctypes
import sys

TRIM, MAP = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h."""


def keep_freed() -> None:
    """Keep what is freed for the next step of a fit, instead of handing it back and forth.

    Where the C library is not glibc, nothing changes.
    """
    adjust = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if adjust is not None:
        adjust(MAP, 32 << 20)  # the most that it takes
        adjust(TRIM, 1 << 30)
