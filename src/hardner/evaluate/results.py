"""Results as JSON lines: one a method, cell and sample, appended whole, never twice."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any

from hardner.errors import FileError, HardnerError
from hardner.evaluate.protocols import Size
from hardner.evaluate.score import Score
from hardner.files import atomic_write, lines, read_text
from hardner.renamed import with_first_names, with_new_names

ResultConfig = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """The score of a method on a corpus after it learnt from a sample."""

    protocol: str
    method: str
    encoder: str
    preset: str
    target_domain: str
    corpus: str
    shots: int
    """Sentences of the sample."""
    share: float | None
    """Of all sentences, if that was what the protocol set."""
    sample: int
    natural: bool
    tp: int
    fp: int
    fn: int
    kinds: Mapping[str, int]
    """False positives and negatives parted, as in `hardner.evaluate.score.Breakdown`."""
    labels: Mapping[str, Sequence[int]]
    """tp, fp and fn of each label, if there are several."""
    unlabelled: int
    """Sentences that were learnt from without their labels."""
    seed: int
    config: str
    """Of its configuration, the key in ``configs.json`` beside the file."""
    versions: Mapping[str, str]
    commit: str
    seconds: float

    @property
    def score(self) -> Score:
        """The counts as a score."""
        return Score(self.tp, self.fp, self.fn)

    @property
    def size(self) -> Size:
        """What the protocol set."""
        return self.shots if self.share is None else self.share

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two results the same."""
        return tuple(getattr(self, name) for name in KEY)


KEY = (
    "protocol",
    "method",
    "encoder",
    "preset",
    "corpus",
    "shots",
    "share",
    "sample",
    "natural",
    "unlabelled",
    "seed",
    "config",
)
_FIELDS = {field.name for field in fields(Result)}


class ResultFile:
    """A file of results; what a killed writer left of a line is cut off when it is opened."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _mend(self.path)
        except OSError as error:
            raise FileError(path, f"cannot be written: {error.strerror}") from None
        self._held = (
            {result.key for result in read_results(self.path)} if self.path.exists() else set()
        )

    def holds(self, key: tuple[Any, ...]) -> bool:
        """Whether there is such a result."""
        return key in self._held

    def append(self, results: Sequence[Result]) -> None:
        """Add what is not there yet, in one write, and see it to the disk."""
        new = {r.key: r for r in results if r.key not in self._held}
        text = "".join(json.dumps(asdict(r), ensure_ascii=False) + "\n" for r in new.values())
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(handle, text.encode())
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise FileError(self.path, f"cannot be written: {error.strerror}") from None
        self._held |= new.keys()


def _mend(path: Path) -> None:
    if path.exists() and (text := path.read_bytes()) and not text.endswith(b"\n"):
        os.truncate(path, text.rfind(b"\n") + 1)


def read_results(path: str | Path) -> Iterator[Result]:
    """The results of a file; a last line that is not whole is left out."""
    for number, line in lines(path):
        try:
            record = json.loads(line)
        except ValueError:
            if _unfinished(path):
                return
            raise FileError(path, "not a line of JSON", number) from None
        if not isinstance(record, dict) or (lacking := _FIELDS - record.keys()):
            name = min(lacking) if isinstance(record, dict) else "everything"
            raise FileError(path, f"not a result: {name} is missing", number)
        yield Result(**{name: record[name] for name in _FIELDS})


def _unfinished(path: str | Path) -> bool:
    with Path(path).open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


def record_config(folder: Path, config: ResultConfig) -> str:
    """Keep a configuration beside the results; returns the key that they name it by."""
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
    if not path.is_file():
        return {}
    try:
        return dict(with_new_names(json.loads(read_text(path))))
    except ValueError as error:
        raise FileError(path, f"damaged, not JSON: {error}") from None


def gather_results(paths: Sequence[str | Path]) -> list[Result]:
    """The results of some files, each once."""
    found = {result.key: result for path in paths for result in read_results(path)}
    if not found:
        raise HardnerError(f"no results in {', '.join(map(str, paths))}")
    return list(found.values())
