"""What is to be done, fixed before it is begun: inputs, settings and a list of shards."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hardner import __version__
from hardner.errors import FileError
from hardner.files import atomic_write, file_errors, read_text, sha256
from hardner.formats import detect
from hardner.tag.predictor import BUNDLED_MODEL
from hardner.unfinished import TEMPORARY

PLAN = "plan.json"
_GROUPS = 256
"""Of shards that a worker makes in one go, if there are as many: enough for any number of workers
to be busy, and few enough that inputs are not read in vain up to each shard's start."""


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
    min_score: float
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
        """In the order of the documents; names sort the same way."""
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
    """Of all files of a model folder; of the bundled one where none is named."""
    # By content and not by place: the model may lie elsewhere on another machine.
    files = sorted(Path(model or BUNDLED_MODEL).glob("*"))
    listed = "".join(f"{path.name}:{sha256(path)}\n" for path in files)
    return hashlib.sha256(listed.encode()).hexdigest()


def write_plan(plan: ShardPlan, out: Path) -> None:
    """Beside the shards to be."""
    with atomic_write(out / PLAN) as file:
        file.write(json.dumps(asdict(plan), indent=1, ensure_ascii=False) + "\n")


def read_plan(out: Path) -> ShardPlan | None:
    """The plan that a folder was begun with, if it was; other files there are an error."""
    path = out / PLAN
    if not path.exists():
        # A killed process may have left half a plan, and this one its lock.
        own = out.is_dir() and all(p.name.startswith(TEMPORARY) for p in out.iterdir())
        if out.exists() and not own:
            raise FileError(out, f"exists and holds no {PLAN}; name a new folder for the output")
        return None
    try:
        raw = json.loads(read_text(path))
        settings = raw["settings"]
        labels, inputs = settings["labels"], settings["inputs"]
        settings["labels"] = None if labels is None else tuple(labels)
        settings["inputs"] = tuple(Input(**source) for source in inputs)
        counts = tuple(map(int, raw["counts"]))
        return ShardPlan(TagSettings(**settings), counts, dict(raw["notes"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(path, f"damaged: {error!r}") from None


def refuse_other_settings(out: Path, before: TagSettings, now: TagSettings) -> None:
    """Shards of two settings must not lie side by side."""
    old, new = asdict(before), asdict(now)
    if differing := [name for name in new if old[name] != new[name]]:
        reasons = ", ".join(_difference(name, old[name], new[name]) for name in differing)
        message = f"was begun with other settings ({reasons}); use those again or another folder"
        raise FileError(out, message)


def _difference(name: str, old: Any, new: Any) -> str:
    if name == "inputs":
        return _other_inputs(old, new)
    return (
        "another model" if name == "model" else f"{name} {json.dumps(old)}, now {json.dumps(new)}"
    )


def _other_inputs(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> str:
    then, now = ({source["path"]: source for source in inputs} for inputs in (old, new))
    if then.keys() == now.keys():
        changed = next((path for path in now if then[path] != now[path]), None)
        return f"{changed} has changed since" if changed else "the inputs in another order"
    added, gone = sorted(now.keys() - then.keys()), sorted(then.keys() - now.keys())
    return f"without {added[0]}" if added else f"with {gone[0]}"
