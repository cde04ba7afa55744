"""What is to be done, fixed before it is begun: inputs, settings and a list of shards."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hardner import __version__
from hardner.errors import FileError
from hardner.files import atomic_write, file_errors, read_json, sha256
from hardner.folders import TEMPORARY
from hardner.formats import detect
from hardner.tag.predictor import BUNDLED_MODEL

PLAN, RECEIPTS, ATTEMPTS = "plan.json", "receipts", "attempts"
_GROUPS = 256
"""Of shards that a worker makes in one go, if there are as many: enough for any number of workers
to be busy, and few enough that inputs are not read in vain up to each shard's start."""
_MOST_SHARDS = 10_000_000


@dataclass(frozen=True, slots=True)
class Input:
    """A file, or a folder that is one corpus, and what identifies its content."""

    path: str
    format: str
    bytes: int
    modified: int
    """Its time of change, in nanoseconds."""

    @classmethod
    def of(cls, path: Path, format: str | None) -> "Input":
        """Look at a file or folder."""
        if not path.exists():
            raise FileError(path, "no such file or folder")
        with file_errors(path):
            parts = [p.stat() for p in ([path] if path.is_file() else sorted(path.rglob("*")))]
        size, modified = sum(p.st_size for p in parts), max(p.st_mtime_ns for p in parts)
        return cls(str(path), format or detect(path).name, size, modified)


@dataclass(frozen=True, slots=True)
class TagSettings:
    """All that the output depends on; where and how fast it is made is not among it."""

    model: str
    """A checksum of its folder."""
    labels: tuple[str, ...] | None
    """Only these; all of the model's if None."""
    min_score: float | dict[str, float]
    """As `TagJob.threshold_setting` has it."""
    to: str
    """``jsonl`` or ``parquet``."""
    shard: int
    """Documents of a shard, at most."""
    inputs: tuple[Input, ...]
    hardner: str = __version__


@dataclass(frozen=True, slots=True)
class Shard:
    """A unit of work: some documents of an input, and the file that they become."""

    name: str
    source: Input
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """Settings and what is known of the inputs."""

    settings: TagSettings
    counts: tuple[int, ...]
    """How many documents each holds."""
    notes: Mapping[str, int]
    """What could not be kept in reading them, counted by reason."""

    def shards(self) -> list[Shard]:
        """All shards in the order of the documents; their names sort the same way."""
        size = self.settings.shard
        pieces = [
            (source, start, min(start + size, count))
            for source, count in zip(self.settings.inputs, self.counts, strict=True)
            for start in range(0, count, size)
        ]
        ending = self.settings.to
        # Shards follow from the plan alone, so that a second run means the same by each name.
        return [Shard(f"part-{n:06}.{ending}", *piece) for n, piece in enumerate(pieces)]


def group_shards(shards: Sequence[Shard]) -> list[list[Shard]]:
    """Neighbours of one input, which a worker makes while it reads the input once."""
    size = max(1, len(shards) // _GROUPS)
    groups: list[list[Shard]] = []
    for shard in shards:
        if groups and groups[-1][0].source == shard.source and len(groups[-1]) < size:
            groups[-1].append(shard)
        else:
            groups.append([shard])
    return groups


def model_checksum(model: str | Path | None) -> str:
    """A checksum of all files of a model folder; of the bundled one where none is named."""
    # By content and not by place: the model may lie elsewhere on another machine.
    files = sorted(Path(model or BUNDLED_MODEL).glob("*"))
    listed = "".join(f"{path.name}:{sha256(path)}\n" for path in files)
    return hashlib.sha256(listed.encode()).hexdigest()


def write_plan(plan: ShardPlan, out: Path) -> None:
    """Beside the shards to be, with folders for what is known of each."""
    with file_errors(out):
        for name in (RECEIPTS, ATTEMPTS):
            (out / name).mkdir(exist_ok=True)
    with atomic_write(out / PLAN) as file:
        file.write(json.dumps(asdict(plan), indent=1, ensure_ascii=False) + "\n")


def _is_unplanned(path: Path) -> bool:
    """Whether it may lie in a folder without a plan, as a process was killed before it wrote one.

    It is half a plan, the lock of this process, or a folder that has nothing in it yet.
    """
    ready = path.name in (RECEIPTS, ATTEMPTS) and path.is_dir() and not any(path.iterdir())
    return ready or path.name.startswith(TEMPORARY)


def read_plan(out: Path, settings: TagSettings) -> ShardPlan | None:
    """The plan that a folder was begun with, if it was; other settings or files are an error."""
    path = out / PLAN
    if not path.exists():
        if out.exists() and not (out.is_dir() and all(map(_is_unplanned, out.iterdir()))):
            raise FileError(out, f"exists and holds no {PLAN}; name a new folder for the output")
        return None
    raw = read_json(path)
    try:
        json.dumps(raw, ensure_ascii=False).encode()  # no half of a character
        # Shards of two settings must not lie side by side.
        differing = ", ".join(
            _differences(raw["settings"], json.loads(json.dumps(asdict(settings))))
        )
        counts = tuple(map(int, raw["counts"]))
        notes = {reason: int(count) for reason, count in raw["notes"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise FileError(path, f"damaged: {error!r}; name a new folder for the output") from None
    if differing:
        message = f"was begun with other settings ({differing}); use those again or another folder"
        raise FileError(out, message)
    possible = len(counts) == len(settings.inputs) and min(counts, default=0) >= 0
    if not possible or sum(counts) > settings.shard * _MOST_SHARDS:
        raise FileError(path, "damaged: impossible counts; name a new folder for the output")
    return ShardPlan(settings, counts, notes)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name, new in now.items():
        if before[name] == new:
            continue
        if name == "model":
            yield "another model"
        elif name == "inputs":
            yield _other_inputs(before[name], new)
        else:
            yield f"{name} {json.dumps(before[name])}, now {json.dumps(new)}"


def _other_inputs(before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> str:
    old, new = ({source["path"]: source for source in inputs} for inputs in (before, now))
    for path in old.keys() | new.keys():
        if path not in old:
            return f"without {path}"
        if path not in new:
            return f"with {path}"
        if old[path] != new[path]:
            return f"{path} has changed since"
    return "the inputs in another order"
