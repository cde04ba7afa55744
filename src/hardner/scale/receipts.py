"""What is done: inputs whose outputs lie finished, and a receipt for each shard of a folder."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from hardner.errors import FileError
from hardner.files import atomic_write, file_errors, read_json
from hardner.scale.plan import Shard, ShardPlan, is_leftover

_JOURNAL = ".hardner-tag"
"""The file of a folder of outputs that says which inputs are done."""
_RECEIPTS, _ATTEMPTS = "receipts", "attempts"
_BLOCK = 1 << 20


def fingerprint(path: str | Path) -> str:
    """Of a file or folder: where it is, and its sizes and times; nothing of it is read."""
    path = Path(path).resolve()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    with file_errors(path):
        seen = [(str(f), s.st_size, s.st_mtime_ns) for f in files if (s := f.stat())]
    return sha256(json.dumps([str(path), seen]).encode()).hexdigest()


class FinishedInputs:
    """The inputs whose outputs lie finished in a folder, for the same settings."""

    def __init__(self, folder: Path, settings: str, resume: bool) -> None:
        """Args: ``resume`` says whether what an earlier run has finished counts."""
        self._path, self._settings = folder / _JOURNAL, settings
        with file_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if not resume:
                self._path.unlink(missing_ok=True)
            lines = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
        self._done = set(lines)

    def holds(self, source: str, target: Path) -> bool:
        """Whether an input, as it is now, is done and its output still there."""
        return self._line(source) in self._done and target.exists()

    def add(self, source: str) -> None:
        """Call it when the output is in its place."""
        with file_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(self._line(source) + "\n")
            # On the disk before the next input is begun, so that a crash repeats one at most.
            file.flush()
            os.fsync(file.fileno())

    def _line(self, source: str) -> str:
        # Folders of earlier versions are gone on with, so these names stay.
        held = {"input": source, "job": self._settings, "stamp": fingerprint(source)}
        return json.dumps(held)


@contextmanager
def growing_file(path: Path, settings: str, resume: bool) -> Iterator[tuple[BinaryIO, int]]:
    """A file of lines, and how many an earlier run has written, to go on with.

    It takes its place when the block ends well. Until then it is ``NAME.part``, and
    ``NAME.part.job`` holds the settings.
    """
    part, note = (path.with_name(path.name + ending) for ending in (".part", ".part.job"))
    with file_errors(path):
        done = _whole_lines(part, note, settings) if resume and part.exists() else 0
        note.write_text(settings, "utf-8")
        with part.open("ab" if done else "wb") as file:
            yield file, done
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        note.unlink()


def _whole_lines(part: Path, note: Path, settings: str) -> int:
    """How many there are; half a line behind them is cut off."""
    if not note.exists() or note.read_text("utf-8") != settings:
        message = "was begun for other inputs or settings; without --resume it is begun anew"
        raise FileError(part, message)
    count = end = at = 0
    with part.open("r+b") as file:
        while block := file.read(_BLOCK):
            count += block.count(b"\n")
            end = at + last + 1 if (last := block.rfind(b"\n")) >= 0 else end
            at += len(block)
        file.truncate(end)
    return count


class ShardAttempts:
    """How often a shard was begun, to find and leave out a document that ends its process.

    The first two attempts go ahead as usual. From the third on, documents are tagged one by one,
    and each is written down before; one at which two attempts ended is to blame.
    """

    def __init__(self, out: Path, shard: Shard) -> None:
        self._path = out / _ATTEMPTS / f"{shard.name}.json"
        held = read_json(self._path) if self._path.exists() else {}
        self._begun = int(held.get("begun", 0)) + 1
        self._deaths: dict[str, int] = dict(held.get("deaths", {}))
        # A document that is still written down as begun was the last thing its process did.
        if (last := held.get("at")) is not None:
            self._deaths[last] = self._deaths.get(last, 0) + 1
        self._write(None)

    @property
    def one_by_one(self) -> bool:
        """Whether documents are tagged one by one."""
        return self._begun > 2

    def blames(self, number: int) -> bool:
        """Whether a document has ended its process before."""
        return self._deaths.get(str(number), 0) >= 2

    def begin(self, number: int) -> None:
        """A document is about to be tagged."""
        self._write(str(number))

    def finish(self) -> None:
        """The shard is there."""
        self._path.unlink(missing_ok=True)

    def _write(self, at: str | None) -> None:
        with atomic_write(self._path) as file:
            file.write(json.dumps({"begun": self._begun, "deaths": self._deaths, "at": at}))


@dataclass(frozen=True, slots=True)
class BadDocument:
    """A document that could not be read or tagged."""

    file: str
    number: int
    """Which one of the file, from 1."""
    id: str
    error: str
    text: str
    """The document's, or the line that holds it."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A shard that is there, and what it holds."""

    name: str
    source: str
    first: int
    """Which document of the source it begins with, from 1."""
    documents: int
    entities: int
    bad: tuple[BadDocument, ...]
    notes: Mapping[str, int]
    """What could not be kept in reading and writing, counted by reason."""
    bytes: int
    sha256: str
    worker: str
    """Host and process."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A finished folder of shards."""

    shards: int
    documents: int
    entities: int
    bad: int
    notes: Mapping[str, int]


def make_receipt_folders(out: Path) -> None:
    """The folders that receipts and attempts lie in."""
    with file_errors(out):
        for name in (_RECEIPTS, _ATTEMPTS):
            (out / name).mkdir(exist_ok=True)


def write_receipt(out: Path, receipt: Receipt) -> None:
    """From now on the shard is done."""
    with atomic_write(out / _RECEIPTS / f"{receipt.name}.json") as file:
        file.write(json.dumps(asdict(receipt), ensure_ascii=False) + "\n")


def _read_receipt(out: Path, shard: Shard) -> dict[str, Any]:
    return read_json(out / _RECEIPTS / f"{shard.name}.json")


def missing_shards(out: Path, shards: Sequence[Shard]) -> list[Shard]:
    """Shards without a receipt, or whose file is not as its receipt says."""
    return [shard for shard in shards if not _is_intact(out, shard)]


def _is_intact(out: Path, shard: Shard) -> bool:
    file = out / shard.name
    if not (out / _RECEIPTS / f"{shard.name}.json").exists() or not file.exists():
        return False
    # The size tells a shard that was cut short; its checksum would take reading all of it.
    return bool(file.stat().st_size == _read_receipt(out, shard)["bytes"])


def write_manifest(out: Path, plan: ShardPlan) -> Summary:
    """Writes the manifest, and the bad documents as one file, from the receipts."""
    total: Counter[str] = Counter()
    notes: Counter[str] = Counter(plan.notes)
    rows: list[dict[str, Any]] = []
    bad: list[dict[str, Any]] = []
    for shard in plan.shards():
        receipt = _read_receipt(out, shard)
        bad += (own := receipt.pop("bad"))
        notes.update(receipt.pop("notes"))
        total.update(documents=receipt["documents"], entities=receipt["entities"])
        rows.append({**receipt, "bad": len(own)})
    if bad:
        with atomic_write(out / "bad.jsonl") as file:
            file.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in bad)
    counts = len(rows), total["documents"], total["entities"], len(bad)
    summary = Summary(*counts, dict(sorted(notes.items())))
    table = {**asdict(summary), "settings": asdict(plan.settings), "shards": rows}
    with atomic_write(out / "manifest.json") as file:
        file.write(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    # All is done, so no other process can be writing one of these.
    for path in filter(is_leftover, out.rglob("*")):
        path.unlink(missing_ok=True)
    return summary
