"""Results as JSON lines, one for each system, cell and sample: appended whole, never twice."""

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar

from hardner import __version__
from hardner.config import Bounds, make, with_first_names, with_new_names
from hardner.errors import FileError, HardnerError
from hardner.evaluate.protocols import Size
from hardner.evaluate.score import ErrorCounts, Score
from hardner.files import append_lines, atomic_write, file_errors, read_json, read_text

ResultConfig = Mapping[str, Any]
_Count = Annotated[int, Bounds(0, 1e12)]
_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Result:
    """The score of a system on a corpus after it learnt from a sample."""

    protocol: str
    method: str
    encoder: str
    preset: str
    target_domain: str
    corpus: str
    shots: _Count
    """Sentences of the sample."""
    share: float | None
    """Of all sentences, if the protocol sets that."""
    sample: _Count
    natural: bool
    """Whether the sample was drawn regardless of entities."""
    tp: _Count
    fp: _Count
    fn: _Count
    kinds: Mapping[str, _Count]
    """False positives and negatives by kind, as in `hardner.evaluate.score.ErrorCounts`."""
    labels: Mapping[str, tuple[_Count, ...]]
    """tp, fp and fn of each label, if there are several."""
    unlabelled: _Count
    """Sentences learnt from without their labels."""
    seed: int
    config: str
    """The key of its configuration in ``configs.json`` beside the file."""
    versions: Mapping[str, str]
    commit: str
    seconds: float
    vectors_hash: str = ""
    """Of the file of word vectors; empty where there is none, and in lines older than this."""
    encoder_hash: str = ""
    """Of the weights that were there at first: the model's, or those that its training began with;
    empty where training began at random, and in lines older than this."""
    bearing: tuple[_Count, ...] = ()
    """tp, fp and fn on those sentences that hold a mention."""
    expected: tuple[float, ...] = ()
    """The F1 that was forecast, with the ends of its interval, if it was."""
    expected_on_text: tuple[float, ...] = ()
    """The same for text as it runs, if there was some without labels."""
    tested: _Count = 0
    """Sentences that it was scored on; 0 in lines older than this."""

    @property
    def score(self) -> Score:
        return Score(self.tp, self.fp, self.fn)

    @property
    def size(self) -> Size:
        return self.shots if self.share is None else self.share

    @property
    def key(self) -> tuple[Any, ...]:
        """Two results with the same key are the same measurement."""
        return tuple(getattr(self, name) for name in RESULT_KEY)


RESULT_KEY = (
    *("protocol", "method", "encoder", "preset", "corpus", "shots", "share"),
    *("sample", "natural", "unlabelled", "seed", "config"),
)
_ERROR_KINDS = {field.name for field in fields(ErrorCounts)} - {"tp"}


class ResultFile:
    """A file of results to append to; a line that a killed writer left unfinished is cut off."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with file_errors(path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            cut_partial_line(self.path)
        self._held = {r.key for r in read_results(path)} if self.path.exists() else set()

    def holds(self, result: Result) -> bool:
        """Whether this measurement is in the file already."""
        return result.key in self._held

    def append(self, results: Sequence[Result]) -> None:
        """Add the results that are not in the file yet, and flush them to disk."""
        new = {r.key: r for r in results if r.key not in self._held}
        append_lines(self.path, map(asdict, new.values()))
        self._held |= new.keys()


def cut_partial_line(path: Path) -> None:
    """Cut off a last line without its end, which a killed writer leaves."""
    if path.exists() and (text := path.read_bytes()) and not text.endswith(b"\n"):
        os.truncate(path, text.rfind(b"\n") + 1)


def json_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines with their line numbers.

    A last line without its end is left out where it is no JSON: another process may be writing it.
    """
    *whole, last = read_text(path).split("\n")
    for number, line in enumerate([*whole, last] if last else whole, 1):
        try:
            held = json.loads(line)
            if "\\u" in line:
                json.dumps(held, ensure_ascii=False).encode()  # refuses half a surrogate pair
        except (ValueError, RecursionError):
            if number > len(whole):
                return
            raise FileError(path, "not a line of JSON", number) from None
        if not isinstance(held, dict):
            raise FileError(path, "not a JSON object", number)
        yield number, held


def checked_record(
    kind: type[_Record], held: Mapping[str, Any], path: str | Path, number: int
) -> _Record:
    """The record that a line holds; values of other types than its fields' are an error."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    try:
        return make(kind, {name: value for name, value in held.items() if name in known})
    except HardnerError as error:
        raise FileError(path, f"not a {kind.__name__}: {error}", number) from None


def read_results(path: str | Path) -> Iterator[Result]:
    """The results of a file; an unfinished last line is left out."""
    for number, held in json_lines(path):
        # The first lines ever written say false where nothing was learnt from without labels.
        whole = held | {"unlabelled": held.get("unlabelled") or 0}
        result = checked_record(Result, whole, path, number)
        if (
            result.kinds.keys() != _ERROR_KINDS
            or not 0 < (1 if result.share is None else result.share) <= 1
        ):
            raise FileError(path, "not a result: no such kinds of errors or share", number)
        yield result


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
    command = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
    here, quiet = Path(__file__).parent, subprocess.DEVNULL
    try:
        return subprocess.check_output(command, cwd=here, stderr=quiet, timeout=10).decode().strip()
    except (OSError, subprocess.SubprocessError):
        return ""
