"""One process at a time: a lock file that the system frees however its holder ends."""

import os
import sys
from contextlib import suppress
from pathlib import Path


class FileLock:
    """Held from when it is made until `release`, which removes the file."""

    def __init__(self, path: Path) -> None:
        """Create and lock the file; a `BlockingIOError` says that another process holds it."""
        self.path = path
        self._handle = _locked(path)

    def release(self) -> None:
        """Let the next one in."""
        # Unlinked while still held, so that no other process locks a file about to disappear.
        # Windows does not delete open files: there it goes last, unless someone was faster.
        if sys.platform != "win32":
            self.path.unlink(missing_ok=True)
        os.close(self._handle)
        if sys.platform == "win32":
            with suppress(OSError):
                self.path.unlink()


def _locked(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(handle)
        except OSError:
            os.close(handle)
            raise BlockingIOError(f"{path} is locked") from None
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # its last holder removed it between our open and our lock


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
