"""What is done: a receipt for each shard, and from all of them the manifest."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hardner.errors import FileError
from hardner.files import atomic_write, read_text
from hardner.scale.plan import Shard, ShardPlan, leftover
from hardner.scale.reading import Bad

RECEIPTS, ATTEMPTS = "receipts", "attempts"
MANIFEST, BAD = "manifest.json", "bad.jsonl"


@dataclass(frozen=True, slots=True)
class Receipt:
    """A shard that is there, and what it holds."""

    name: str
    source: str
    first: int
    """Which document of the source it begins with, from 1."""
    documents: int
    entities: int
    bad: tuple[Bad, ...]
    notes: Mapping[str, int]
    """What could not be kept in reading and writing, counted by reason."""
    bytes: int
    sha256: str
    worker: str
    """Host and process."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A finished folder."""

    shards: int
    documents: int
    entities: int
    bad: int
    notes: Mapping[str, int]


def make_receipt_folders(out: Path) -> None:
    """The folders that receipts and attempts lie in."""
    try:
        for name in (RECEIPTS, ATTEMPTS):
            (out / name).mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(out, f"cannot be written: {error.strerror}") from None


def hand_in(out: Path, receipt: Receipt) -> None:
    """From now on the shard is done."""
    with atomic_write(out / RECEIPTS / f"{receipt.name}.json") as file:
        file.write(json.dumps(asdict(receipt), ensure_ascii=False) + "\n")


def missing(out: Path, shards: Sequence[Shard]) -> list[Shard]:
    """Shards without a receipt, or whose file is not as its receipt says."""
    return [shard for shard in shards if not _intact(out, shard)]


def _intact(out: Path, shard: Shard) -> bool:
    file = out / shard.name
    if not (out / RECEIPTS / f"{shard.name}.json").exists() or not file.exists():
        return False
    return bool(file.stat().st_size == _receipt(out, shard)["bytes"])


def _receipt(out: Path, shard: Shard) -> dict[str, Any]:
    path = out / RECEIPTS / f"{shard.name}.json"
    try:
        return dict(json.loads(read_text(path)))
    except ValueError as error:
        raise FileError(path, f"damaged, not JSON: {error}") from None


def conclude(out: Path, plan: ShardPlan) -> Summary:
    """Writes the manifest, and the bad documents as one file, from the receipts."""
    shards = plan.shards()
    total: Counter[str] = Counter()
    notes: Counter[str] = Counter(plan.notes)
    rows: list[dict[str, Any]] = []
    for receipt in _receipts(out, shards):
        bad = len(receipt.pop("bad"))
        notes.update(receipt.pop("notes"))
        total.update(documents=receipt["documents"], entities=receipt["entities"], bad=bad)
        rows.append({**receipt, "bad": bad})
    if total["bad"]:
        with atomic_write(out / BAD) as file:
            for receipt in _receipts(out, shards):
                for one in receipt["bad"]:
                    file.write(json.dumps(one, ensure_ascii=False) + "\n")
    summary = Summary(
        len(rows), total["documents"], total["entities"], total["bad"], dict(sorted(notes.items()))
    )
    table = {**asdict(summary), "settings": asdict(plan.settings), "shards": rows}
    with atomic_write(out / MANIFEST) as file:
        file.write(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    for path in filter(leftover, out.rglob("*")):
        path.unlink(missing_ok=True)
    return summary


def _receipts(out: Path, shards: Sequence[Shard]) -> Iterator[dict[str, Any]]:
    return (_receipt(out, shard) for shard in shards)
