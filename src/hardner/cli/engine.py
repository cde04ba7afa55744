"""The options that say where a command computes, and tagging on Ray."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardner.cli.terminal import bar, stderr
from hardner.errors import HardnerError

if TYPE_CHECKING:
    from hardner.scale import ShardProgress


class EngineChoice(StrEnum):
    """Where the work is done; the output is the same."""

    local = "local"
    ray = "ray"


ENGINE = Annotated[
    EngineChoice, typer.Option(help="local, or ray: on all machines of a Ray cluster.")
]
ADDRESS = Annotated[
    str | None,
    typer.Option(
        envvar="RAY_ADDRESS",
        show_envvar=False,
        metavar="HOST:PORT",
        help="Of the Ray cluster; by default one on this machine.",
    ),
]


def tag_on_ray(
    files: Sequence[str],
    out: str | None,
    *,
    model: Path | None,
    address: str | None,
    workers: int,
    device: str,
    labels: Sequence[str] | None,
    min_score: float,
    source_format: str | None,
    target_format: str | None,
    batch_size: int | None,
) -> None:
    """A folder of shards; the same command again makes those that are missing."""
    from hardner.scale import tag_files

    if out is None:
        raise HardnerError("--engine ray writes a folder of shards; name it with --out")
    with _listening() as on_progress:
        made = tag_files(
            files,
            out,
            model=model,
            engine="ray",
            address=address,
            workers=workers,
            device=device,
            labels=labels,
            min_score=min_score,
            format=source_format,
            to=target_format or "jsonl",
            batch_size=batch_size,
            on_progress=on_progress,
        )
    for reason, count in made.notes.items():
        stderr.print(f"warning: {reason}: {count:,}", markup=False)
    if made.bad:
        stderr.print(f"warning: {made.bad:,} bad documents: {Path(out, 'bad.jsonl')}", markup=False)
    said = f"{made.documents:,} documents, {made.entities:,} mentions, {made.shards:,} shards"
    stderr.print(f"{said} -> {out}", markup=False)


@contextmanager
def _listening() -> "Iterator[Callable[[ShardProgress], None]]":
    progress = bar()
    task = progress.add_task("starting Ray", total=None)

    def on_progress(done: "ShardProgress") -> None:
        what = f"{done.documents:,} documents; shards"
        progress.update(task, description=what, completed=done.shards, total=done.of)

    with progress:
        yield on_progress
