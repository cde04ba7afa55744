"""An evaluation on Ray: each worker scores some cells of the table, and the results are merged."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from hardner.corpora import Corpora
from hardner.evaluate.execute import CellDone, EvaluationFolders, execute
from hardner.evaluate.protocols import Protocol, SampleBook
from hardner.evaluate.results import ResultFile, read_configs, read_results, record_config
from hardner.evaluate.system import System
from hardner.files import read_text
from hardner.scale.engines import running

LoadSystem = Callable[[Protocol], System]
"""Loads the system, wherever it is called."""


def execute_on_ray(
    protocol: Protocol,
    load_system: LoadSystem,
    trains: bool,
    folders: EvaluationFolders,
    address: str | None = None,
) -> Iterator[CellDone]:
    """As `hardner.evaluate.execute.execute`, with the cells spread over a cluster.

    Args:
        protocol: What is run; its cells are a target and a size each.
        load_system: Loads the system; it must be of a kind that can be sent to a worker.
        trains: Whether the system trains its models when it needs them.
        folders: Where all nodes find the corpora and the results.
        address: Of the cluster; by default one on this machine.
    """
    system = load_system(protocol)
    corpora = Corpora.under(folders.root, folders.catalogue)
    parts = independent_parts(protocol, system, trains, corpora)
    with running("ray", system.device, 0, address) as (run, _):
        for scored in run(_PartWorker(protocol, load_system, folders), parts):
            _merge_results(scored.folder, protocol.name, folders.out)
            yield from scored.done


def independent_parts(
    protocol: Protocol, system: System, trains: bool, corpora: Corpora
) -> list[Protocol]:
    """Parts that share no training: cells, or all cells of the targets that a run serves."""
    if protocol.together and system.train == "sources and target":
        return [protocol]
    if trains and system.train == "sources":
        domain_of = corpora.domain_of
        known = {domain_of(name) for name in protocol.sources}
        domains = dict.fromkeys(map(domain_of, protocol.targets))
        if not known.issuperset(domains):
            return [protocol]
        return [
            replace(protocol, targets=tuple(t for t in protocol.targets if domain_of(t) == domain))
            for domain in domains
        ]
    return [
        replace(protocol, targets=(target,), sizes=(size,))
        for target in protocol.targets
        for size in protocol.sizes
    ]


class _Scored(NamedTuple):
    folder: Path
    done: list[CellDone]


@dataclass
class _PartWorker:
    """Scores parts of a protocol into folders of their own, with which a second attempt goes on."""

    protocol: Protocol
    load_system: LoadSystem
    folders: EvaluationFolders
    _system: System | None = None

    def __call__(self, part: Protocol) -> _Scored:
        key = f"{part}{self.load_system}{self.folders}"
        digest = blake2b(key.encode(), digest_size=6).hexdigest()
        folder = self.folders.out / "cells" / digest
        if self._system is None:
            self._system = self.load_system(self.protocol)
        # What is scored already is not scored again.
        before = self.folders.out / f"{part.name}.jsonl"
        if before.exists():
            ResultFile(folder / before.name).append(list(read_results(before)))
        return _Scored(folder, list(execute(part, self._system, replace(self.folders, out=folder))))


def _merge_results(folder: Path, name: str, out: Path) -> None:
    """Adds what a worker found to the results, and removes its folder."""
    for config in read_configs(folder).values():
        record_config(out, config)
    if (folder / "samples.json").exists():
        book = SampleBook(out / "samples.json")
        for key, ids in json.loads(read_text(folder / "samples.json")).items():
            corpus, shots, sample, *natural = key.split("/")
            book.add(corpus, int(shots), {int(sample): ids}, natural=bool(natural))
    for file in (folder / "predictions").glob("*"):
        (out / "predictions").mkdir(exist_ok=True)
        shutil.copy(file, out / "predictions")
    if (folder / f"{name}.jsonl").exists():
        ResultFile(out / f"{name}.jsonl").append(list(read_results(folder / f"{name}.jsonl")))
    shutil.rmtree(folder)
