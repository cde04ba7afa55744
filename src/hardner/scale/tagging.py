"""Tag files, folders and patterns into a folder of shards, here or on Ray."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from hardner.errors import FileError, HardnerError
from hardner.scale import inputs, ledger, plan
from hardner.scale.cluster import cluster, map_on_ray
from hardner.scale.inputs import Input
from hardner.scale.ledger import Summary
from hardner.scale.plan import Shard, ShardPlan, TagSettings
from hardner.scale.reading import Stream, count_input
from hardner.scale.shard import ShardJob, perform
from hardner.tag.predictor import Predictor

Backend = Literal["local", "ray"]
SHARDS = ("jsonl", "parquet")
"""The formats that shards may have."""
SMALL = 64 << 20
"""Bytes of input that are counted before a worker would have started."""


@dataclass(frozen=True, slots=True)
class ShardProgress:
    """How far it is."""

    shards: int
    of: int
    documents: int
    """In the shards of this run."""


def tag_files(
    given: Sequence[str | Path],
    out: str | Path,
    *,
    model: str | Path | None = None,
    engine: Backend = "local",
    address: str | None = None,
    workers: int = 0,
    device: str = "cpu",
    labels: Sequence[str] | None = None,
    min_score: float = 0.0,
    format: str | None = None,
    to: str = "jsonl",
    shard: int = 2000,
    batch_size: int | None = None,
    on_progress: Callable[[ShardProgress], None] = lambda _: None,
) -> Summary:
    """Tags documents into shards with a manifest; called again, it does what is missing.

    Args:
        given: Files, folders and patterns.
        out: A new folder, or one that was begun with the same settings.
        model: Its folder; by default the model that comes with the package.
        engine: Where the work is done; the output is the same.
        address: Of a Ray cluster, all of whose nodes see the inputs, the model and ``out`` under
            the same paths; by default one on this machine.
        workers: On Ray, how many at most; 0 for all that the cluster has room for.
        device: ``cpu``, ``cuda`` or ``auto``.
        labels: Only these.
        min_score: Only entities that are as probable as that.
        format: Of the inputs; by default, what each ending or content shows.
        to: ``jsonl`` or ``parquet``.
        shard: Documents of a shard, at most.
        batch_size: Sentences computed at once; by default what suits the device.
        heard: Told whenever a shard is done.
    """
    if to not in SHARDS:
        raise HardnerError(f"shards are {' or '.join(SHARDS)}, not {to}")
    folder = Path(out).resolve()
    begun = plan.read_plan(folder)
    found = inputs.find_inputs(given, format, outside=folder)
    settings = TagSettings(
        model=plan.checksum(model),
        labels=_known(labels, model),
        min_score=min_score,
        to=to,
        shard=shard,
        inputs=tuple(found),
    )
    if begun is not None:
        plan.refuse_others(folder, begun.settings, settings)
    where = str(Path(model).resolve()) if model is not None else None
    with _engine(engine, address, workers, device) as (run, there):
        job = ShardJob(str(folder), where, settings, there, batch_size)
        made = begun or _planned(settings, folder, run)
        _fill(job, made, folder, run, on_progress)
    return ledger.conclude(folder, made)


def _known(labels: Sequence[str] | None, model: str | Path | None) -> tuple[str, ...] | None:
    """The labels, if the model, which must be there, has them."""
    own = Predictor.load(model).labels
    if unknown := sorted(set(labels or ()) - set(own)):
        known = ", ".join(own) or "none"
        raise HardnerError(f"the model has no label {unknown[0]!r}; its labels are {known}")
    return None if labels is None else tuple(sorted(set(labels)))


class MapRows(Protocol):
    """A way to have rows worked on: ``worker(*arguments)(row)`` for each, in any order."""

    def __call__(
        self, rows: Sequence[str], worker: type, arguments: tuple[Any, ...]
    ) -> Iterator[str]: ...


@contextmanager
def _engine(
    engine: Backend, address: str | None, workers: int, device: str
) -> Iterator[tuple[MapRows, str]]:
    """A way to run, and the device that there is for it."""
    if engine == "local":
        yield _here, device
        return
    with cluster(address) as ray:
        if device == "auto":
            device = "cuda" if ray.cluster_resources().get("GPU") else "cpu"
        gpu = device != "cpu"
        yield (
            (lambda rows, worker, given: map_on_ray(ray, rows, worker, given, workers, gpu)),
            device,
        )


def _here(rows: Sequence[str], worker: type, arguments: tuple[Any, ...]) -> Iterator[str]:
    return map(worker(*arguments), rows)


def _planned(settings: TagSettings, folder: Path, run: MapRows) -> ShardPlan:
    """Counts the documents of all inputs; nothing is written where one cannot be read."""
    rows = [json.dumps(asdict(source)) for source in settings.inputs]
    small = sum(source.bytes for source in settings.inputs) < SMALL
    counts: dict[str, int] = {}
    notes: Counter[str] = Counter()
    for row in (_here if small else run)(rows, CountWorker, ()):
        answer = json.loads(row)
        if "failed" in answer:
            raise HardnerError(answer["failed"])
        counts[answer["path"]] = answer["documents"]
        notes.update(answer["notes"])
    made = ShardPlan(
        settings, tuple(counts[source.path] for source in settings.inputs), dict(notes)
    )
    plan.write_plan(made, folder)
    return made


def _fill(
    job: ShardJob,
    made: ShardPlan,
    folder: Path,
    run: MapRows,
    on_progress: Callable[[ShardProgress], None],
) -> None:
    """Makes the shards that are not there; inputs that cannot be read do not stop the others."""
    ledger.make_receipt_folders(folder)
    shards = made.shards()
    wanted = ledger.missing(folder, shards)
    done, documents = len(shards) - len(wanted), 0
    on_progress(ShardProgress(done, len(shards), documents))
    rows = [json.dumps([asdict(shard) for shard in group]) for group in plan.grouped(wanted)]
    failed: list[str] = []
    for row in run(rows, TagWorker, (job,)) if rows else ():
        answer = json.loads(row)
        done, documents = done + answer["shards"], documents + answer["documents"]
        on_progress(ShardProgress(done, len(shards), documents))
        if answer["failed"] and not answer["unreadable"]:
            raise HardnerError(answer["failed"])
        failed += [answer["failed"]] if answer["failed"] else []
    if failed:
        lost = len(shards) - done
        many = f"{lost} of {len(shards)} shards could not be made, the others are done"
        raise HardnerError(f"{min(failed)} ({many}; mend it and run the same command again)")


class CountWorker:
    """How many documents an input holds."""

    def __call__(self, row: str) -> str:
        source = Input(**json.loads(row))
        try:
            return json.dumps({"path": source.path, **count_input(source)._asdict()})
        except (HardnerError, OSError) as error:
            return json.dumps({"failed": str(error)})


class TagWorker:
    """Makes shards, with a model that is loaded for the first of them."""

    def __init__(self, job: ShardJob) -> None:
        self._job = job

    @cached_property
    def _predictor(self) -> Predictor:
        return self._job.predictor()

    def __call__(self, row: str) -> str:
        raw: list[dict[str, Any]] = json.loads(row)
        group = [Shard(**{**one, "source": Input(**one["source"])}) for one in raw]
        source, made, documents = group[0].source, 0, 0
        failed, unreadable = "", False
        try:
            # A worker before this one may have died in the middle of the group.
            left = ledger.missing(Path(self._job.out), group)
            made = len(group) - len(left)
            if left:
                stream = Stream(source, left[0].start, left[-1].stop)
            for shard in left:
                documents += perform(self._job, self._predictor, shard, stream).documents
                made += 1
        except (HardnerError, OSError) as error:
            failed = str(error)
            unreadable = isinstance(error, FileError) and error.path.is_relative_to(source.path)
        return json.dumps(
            {"shards": made, "documents": documents, "failed": failed, "unreadable": unreadable}
        )
