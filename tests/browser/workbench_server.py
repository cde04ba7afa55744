"""The workbench as a process of its own, which can be killed and started again."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

CHILDREN = "/proc/{0}/task/{0}/children"


class Server:
    """Answers on the same port in each of its lives."""

    def __init__(self, project: Path, model: Path, *options: str) -> None:
        self._command = [sys.executable, "-m", "hardner", "serve", str(project), "--no-browser"]
        self._command += ["--model", str(model), *options]
        self._log = project.with_suffix(".log")
        self._port = 0
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "--port", str(self._port)],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                text=True,
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        if not said.startswith("http"):
            self._process.kill()
            self._close()
            raise AssertionError(f"no server: {said} {self._log.read_text('utf-8')[-2000:]}")
        self.entrance = said
        self.url, _, self.token = said.partition("?token=")
        self._port = int(self.url.rstrip("/").rpartition(":")[2])

    def kill(self) -> None:
        """As kill -9 does; what it had started must go, too."""
        children = self._children()
        self._process.kill()
        self._close()
        deadline = time.monotonic() + 10
        while any(_alive(child) for child in children) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not [child for child in children if _alive(child)], "a child outlived the server"

    def _close(self) -> None:
        self._process.wait(timeout=20)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _children(self) -> list[int]:
        try:
            found = Path(CHILDREN.format(self._process.pid)).read_text("ascii")
        except FileNotFoundError:
            return []
        return [int(number) for number in found.split()]

    def ask(self, path: str, body: object = None, method: str | None = None) -> Any:
        """What the server itself says, past the page."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url.rstrip('/')}{path}", data=data, method=method)
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode()}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.kill()


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
