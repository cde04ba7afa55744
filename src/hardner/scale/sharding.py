"""Tag files, folders and patterns into a folder of shards, here or on Ray."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hardner.errors import HardnerError
from hardner.scale.engines import Backend, RunUnits, running
from hardner.scale.plan import (
    Input,
    ShardPlan,
    TagSettings,
    group_shards,
    model_checksum,
    read_plan,
    write_plan,
)
from hardner.scale.receipts import Summary, missing_shards, write_manifest
from hardner.scale.resume import sole_writer
from hardner.scale.shard_worker import ShardWorker, count_documents
from hardner.scale.tagging import TagJob, list_inputs

_FORMATS = ("jsonl", "parquet")
_SMALL = 64 << 20
"""Bytes of input that are counted before a worker would have started."""


class ShardProgress(NamedTuple):
    """How far it is."""

    shards: int
    total: int
    documents: int
    """In the shards of this run."""


def tag_files(
    given: Sequence[str | Path],
    out: str | Path,
    job: TagJob,
    *,
    engine: Backend = "local",
    address: str | None = None,
    workers: int = 0,
    format: str | None = None,
    to: str = "jsonl",
    shard: int = 2000,
    on_progress: Callable[[ShardProgress], None] = lambda _: None,
) -> Summary:
    """Tags documents into shards with a manifest; called again, it does what is missing.

    Args:
        given: Files, folders and patterns.
        out: A new folder, or one that was begun with the same settings.
        job: What to find, and with which model.
        engine: Where the work is done; the output is the same.
        address: Of a Ray cluster, all of whose nodes see the inputs, the model and ``out`` under
            the same paths; by default one on this machine.
        workers: Processes at most; 0 for one here, and all that a cluster has room for.
        format: Of the inputs; by default, what each ending or content shows.
        to: ``jsonl`` or ``parquet``.
        shard: Documents of a shard, at most.
        on_progress: Called whenever a shard is done.
    """
    if to not in _FORMATS:
        raise HardnerError(f"shards are {' or '.join(_FORMATS)}, not {to}")
    if "-" in map(str, given):
        raise HardnerError("standard input cannot be cut into shards; name files or folders")
    folder = Path(out).resolve()
    paths = dict.fromkeys(Path(path).resolve() for path in list_inputs(given, format, folder))
    # A label that the model does not know is refused before a cluster is asked for anything.
    here = job if engine == "local" else replace(job, device="cpu")
    here.predictor.check_labels(job.labels)
    settings = TagSettings(
        model=model_checksum(job.model),
        labels=None if job.labels is None else tuple(sorted(set(job.labels))),
        min_score=here.threshold_setting,
        to=to,
        shard=shard,
        inputs=tuple(Input.of(path, format) for path in paths),
    )
    begun = read_plan(folder, settings)
    with running(engine, job.device, workers, address) as (run, device):
        plan = begun or _planned(settings, run)
        if engine != "local":
            model = None if job.model is None else str(Path(job.model).resolve())
            job = replace(job, model=model, device=device)
        with sole_writer(folder, is_dir=True):
            if read_plan(folder, settings) is None:  # else another process was faster
                write_plan(plan, folder)
            _make_shards(plan, job, folder, run, on_progress)
            return write_manifest(folder, plan)


def _planned(settings: TagSettings, run: RunUnits) -> ShardPlan:
    """Counts the documents of all inputs; nothing is written where one cannot be read."""
    small = sum(source.bytes for source in settings.inputs) < _SMALL
    counts: dict[str, int] = {}
    notes: Counter[str] = Counter()
    # Units come back in any order, so counts are kept by path.
    for path, count, own in (map if small else run)(count_documents, settings.inputs):
        counts[path] = count
        notes.update(own)
    found = tuple(counts[source.path] for source in settings.inputs)
    return ShardPlan(settings, found, dict(notes))


def _make_shards(
    plan: ShardPlan,
    job: TagJob,
    out: Path,
    run: RunUnits,
    on_progress: Callable[[ShardProgress], None],
) -> None:
    """Makes the shards that are not there; inputs that cannot be read do not stop the others."""
    shards = plan.shards()
    missing = missing_shards(out, shards)
    done, documents = len(shards) - len(missing), 0
    on_progress(ShardProgress(done, len(shards), documents))
    failed: list[str] = []
    worker = ShardWorker(job, out, plan.settings.to)
    for made in run(worker, group_shards(missing)) if missing else ():
        done, documents = done + made.shards, documents + made.documents
        on_progress(ShardProgress(done, len(shards), documents))
        failed += [made.failed] if made.failed else []
    if failed:
        many = (
            f"{len(shards) - done} of {len(shards)} shards could not be made, the others are done"
        )
        raise HardnerError(f"{min(failed)} ({many}; mend it and run the same command again)")
