"""Results as JSON lines, one for each system, cell and sample: appended whole, never twice."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hardner import __version__
from hardner.errors import FileError, HardnerError
from hardner.evaluate.protocols import Size
from hardner.evaluate.score import Score
from hardner.files import atomic_write, file_errors, lines, read_json
from hardner.renamed import with_first_names, with_new_names

ResultConfig = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """The score of a system on a corpus after it learnt from a sample."""

    protocol: str
    method: str
    encoder: str
    preset: str
    target_domain: str
    corpus: str
    shots: int
    """Sentences of the sample."""
    share: float | None
    """Of all sentences, if the protocol sets that."""
    sample: int
    natural: bool
    """Whether the sample was drawn regardless of entities."""
    tp: int
    fp: int
    fn: int
    kinds: Mapping[str, int]
    """False positives and negatives by kind, as in `hardner.evaluate.score.ErrorCounts`."""
    labels: Mapping[str, Sequence[int]]
    """tp, fp and fn of each label, if there are several."""
    unlabelled: int
    """Sentences learnt from without their labels."""
    seed: int
    config: str
    """The key of its configuration in ``configs.json`` beside the file."""
    versions: Mapping[str, str]
    commit: str
    seconds: float

    @property
    def score(self) -> Score:
        """The counts as a score."""
        return Score(self.tp, self.fp, self.fn)

    @property
    def size(self) -> Size:
        """What the protocol set: shots, or a share of the data."""
        return self.shots if self.share is None else self.share

    @property
    def key(self) -> tuple[Any, ...]:
        """Two results with the same key are the same measurement."""
        return tuple(getattr(self, name) for name in RESULT_KEY)


RESULT_KEY = (
    *("protocol", "method", "encoder", "preset", "corpus", "shots", "share"),
    *("sample", "natural", "unlabelled", "seed", "config"),
)
_FIELDS = {field.name for field in fields(Result)}


class ResultFile:
    """A file of results to append to; a line that a killed writer left unfinished is cut off."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with file_errors(path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            cut_partial_line(self.path)
        self._held = {r.key for r in read_results(path)} if self.path.exists() else set()

    def holds(self, key: tuple[Any, ...]) -> bool:
        """Whether a result is in the file already."""
        return key in self._held

    def append(self, results: Sequence[Result]) -> None:
        """Add the results that are not in the file yet, and flush them to disk."""
        new = {r.key: r for r in results if r.key not in self._held}
        append_lines(self.path, map(asdict, new.values()))
        self._held |= new.keys()


def append_lines(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Append JSON lines in a single write, so that writers do not interleave, and flush to disk."""
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    with file_errors(path), Path(path).open("ab", buffering=0) as file:
        file.write(text.encode())
        os.fsync(file.fileno())


def cut_partial_line(path: Path) -> None:
    """Cut off a last line without its end, which a killed writer leaves."""
    if path.exists() and (text := path.read_bytes()) and not text.endswith(b"\n"):
        os.truncate(path, text.rfind(b"\n") + 1)


def json_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines with their line numbers, but for an unfinished last."""
    for number, line in lines(path):
        try:
            record = json.loads(line)
        except ValueError:
            # Another process may be writing the line.
            if not Path(path).read_bytes().endswith(b"\n"):
                return
            raise FileError(path, "not a line of JSON", number) from None
        yield number, record if isinstance(record, dict) else {}


def read_results(path: str | Path) -> Iterator[Result]:
    """The results of a file; an unfinished last line is left out."""
    for number, record in json_lines(path):
        if lacking := _FIELDS - record.keys():
            raise FileError(path, f"not a result: {min(lacking)} is missing", number)
        yield Result(**{name: record[name] for name in _FIELDS})


def load_results(paths: Sequence[str | Path]) -> list[Result]:
    """The results of some files, each once; at least one must be there."""
    found = {result.key: result for path in paths for result in read_results(path)}
    if not found:
        raise HardnerError(f"no results in {', '.join(map(str, paths))}")
    return list(found.values())


def record_config(folder: Path, config: ResultConfig) -> str:
    """Keep a configuration in ``configs.json``; returns its key, a hash of its content."""
    # Hashed by the names that keys had first, so that a renamed key makes no new configuration.
    text = json.dumps(with_first_names(config), sort_keys=True)
    key = blake2b(text.encode(), digest_size=6).hexdigest()
    held = read_configs(folder)
    if key not in held:
        folder.mkdir(parents=True, exist_ok=True)
        held[key] = config
        with atomic_write(folder / "configs.json") as file:
            file.write(json.dumps(held, indent=1, sort_keys=True) + "\n")
    return key


def read_configs(folder: Path) -> dict[str, ResultConfig]:
    """The configurations of the results in a folder, by key."""
    path = folder / "configs.json"
    return dict(with_new_names(read_json(path))) if path.is_file() else {}


@lru_cache(maxsize=1)
def software_versions() -> dict[str, str]:
    """Versions of the package and of what decides its numbers."""
    others = {name: version(name) for name in ("torch", "numpy")}
    return {"hardner": __version__, "python": platform.python_version(), **others}


@lru_cache(maxsize=1)
def code_commit() -> str:
    """The git commit of the code that runs, with a ``+`` if it was changed; empty if unknown.

    HARDNER_COMMIT names it where the code was copied without its history.
    """
    if given := os.environ.get("HARDNER_COMMIT"):
        return given
    try:
        head = _git("rev-parse", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(*arguments: str) -> str:
    command, here = ["git", *arguments], Path(__file__).parent
    return subprocess.check_output(
        command, cwd=here, stderr=subprocess.DEVNULL, text=True, timeout=10
    ).strip()
