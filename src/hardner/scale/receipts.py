"""What is done of a folder of shards: a receipt for each, and the manifest that sums them up."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hardner.errors import FileError
from hardner.files import atomic_write, read_json, sha256
from hardner.folders import remove_stale
from hardner.scale.plan import ATTEMPTS, RECEIPTS, Shard, ShardPlan


class ShardAttempts:
    """How often a shard was begun, to find and leave out a document that ends its process.

    The first two attempts go ahead as usual. From the third on, documents are tagged one by one,
    and each is written down before; one at which two attempts ended is to blame.
    """

    def __init__(self, out: Path, shard: Shard) -> None:
        self._path = out / ATTEMPTS / f"{shard.name}.json"
        held = read_json(self._path) if self._path.exists() else {}
        try:
            self._begun = int(held.get("begun", 0)) + 1
            deaths = {str(number): int(count) for number, count in held.get("deaths", {}).items()}
        except (AttributeError, TypeError, ValueError, OverflowError):
            raise FileError(self._path, "damaged; remove it") from None
        self._deaths = Counter(deaths)
        # A document that is still written down as begun was the last thing its process did.
        if (last := held.get("at")) is not None:
            self._deaths[str(last)] += 1
        self._write(None)

    @property
    def one_by_one(self) -> bool:
        """Whether documents are tagged one by one."""
        return self._begun > 2

    def blames(self, number: int) -> bool:
        """Whether a document has ended its process before."""
        return self._deaths[str(number)] >= 2

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
    bad: Sequence[BadDocument]
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


def write_receipt(out: Path, receipt: Receipt) -> None:
    """From now on the shard is done."""
    with atomic_write(out / RECEIPTS / f"{receipt.name}.json") as file:
        file.write(json.dumps(asdict(receipt), ensure_ascii=False) + "\n")


def _read_receipt(out: Path, shard: Shard) -> Receipt | None:
    """The receipt of a shard, if it has one."""
    path = out / RECEIPTS / f"{shard.name}.json"
    if not path.exists():
        return None
    try:
        raw = read_json(path)
        raw["bad"] = [BadDocument(**one) for one in raw["bad"]]
        raw["notes"] = {reason: int(count) for reason, count in raw["notes"].items()}
        json.dumps(raw, ensure_ascii=False, default=asdict).encode()  # no half of a character
        raw |= {name: int(raw[name]) for name in ("first", "documents", "entities", "bytes")}
        return Receipt(**raw)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        message = "damaged; remove it, and the same command makes its shard again"
        raise FileError(path, message) from None


def missing_shards(out: Path, shards: Sequence[Shard]) -> list[Shard]:
    """Shards without a receipt, or whose file is not as its receipt says."""
    return [
        shard for shard in shards if not _is_intact(out / shard.name, _read_receipt(out, shard))
    ]


def _is_intact(file: Path, receipt: Receipt | None) -> bool:
    if receipt is None or not file.exists() or file.stat().st_size != receipt.bytes:
        return False
    return sha256(file) == receipt.sha256


def write_manifest(out: Path, plan: ShardPlan) -> Summary:
    """Writes the manifest, and the bad documents as one file, from the receipts."""
    receipts = [receipt for shard in plan.shards() if (receipt := _read_receipt(out, shard))]
    bad = [asdict(document) for receipt in receipts for document in receipt.bad]
    if bad:
        with atomic_write(out / "bad.jsonl") as file:
            file.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in bad)
    notes = sum((Counter(receipt.notes) for receipt in receipts), Counter(plan.notes))
    summary = Summary(
        shards=len(receipts),
        documents=sum(receipt.documents for receipt in receipts),
        entities=sum(receipt.entities for receipt in receipts),
        bad=len(bad),
        notes=dict(sorted(notes.items())),
    )
    table = {
        **asdict(summary),
        "settings": asdict(plan.settings),
        "shards": [_row(receipt) for receipt in receipts],
    }
    with atomic_write(out / "manifest.json") as file:
        file.write(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    for folder in (out, out / RECEIPTS, out / ATTEMPTS):
        remove_stale(folder)  # of workers that were killed meanwhile
    return summary


def _row(receipt: Receipt) -> dict[str, Any]:
    """A receipt as the manifest shows it: without texts."""
    row = {**asdict(receipt), "bad": len(receipt.bad)}
    del row["notes"]
    return row
