"""The cells of a table on Ray: each worker scores some, and the results are brought together."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path

from hardner.corpora import Corpora
from hardner.errors import HardnerError
from hardner.evaluate.execute import CellDone, EvaluationFolders, execute
from hardner.evaluate.protocols import Protocol
from hardner.evaluate.results import ResultFile, read_configs, read_results, record_config
from hardner.evaluate.samples import SampleBook
from hardner.evaluate.system import System
from hardner.files import read_text
from hardner.scale.cluster import cluster, map_on_ray

_CELLS = "cells"
Enter = Callable[[Protocol], System]
"""Makes the contender, wherever it is called."""


@dataclass(frozen=True, slots=True)
class CellWork:
    """What a worker needs to know beside the cells."""

    protocol: Protocol
    enter: Enter
    desk: EvaluationFolders


def spread_cells(
    protocol: Protocol,
    enter: Enter,
    trains: bool,
    desk: EvaluationFolders,
    address: str | None = None,
) -> Iterator[CellDone]:
    """As `hardner.evaluate.execute.execute`, with the cells spread over a cluster.

    Args:
        protocol: What is run; its cells are a target and a size each.
        enter: Makes the contender; it must be of a kind that can be sent to a worker.
        trains: Whether the contender trains its models when it needs them.
        desk: Where all nodes find the corpora and the results.
        address: Of the cluster; by default one on this machine.
    """
    system = enter(protocol)
    corpora = Corpora.under(desk.root, desk.catalogue)
    rows = [
        json.dumps({"targets": part.targets, "sizes": part.sizes})
        for part in independent_parts(protocol, system, trains, corpora)
    ]
    work = CellWork(protocol, enter, desk)
    with cluster(address) as ray:
        gpu = system.device.startswith("cuda")
        for row in map_on_ray(ray, rows, CellWorker, (work,), 0, gpu):
            answer = json.loads(row)
            if "failed" in answer:
                raise HardnerError(answer["failed"])
            _bring_in(Path(answer["folder"]), protocol.name, desk.out)
            for done in answer["done"]:
                yield CellDone(**{**done, "samples": tuple(done["samples"])})


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


class CellWorker:
    """Scores cells into a folder of their own, which a second attempt goes on with."""

    def __init__(self, work: CellWork) -> None:
        self._work = work
        self._contender: System | None = None

    def __call__(self, row: str) -> str:
        protocol, desk = self._work.protocol, self._work.desk
        cells = json.loads(row)
        digest = blake2b(f"{self._work}{row}".encode(), digest_size=6).hexdigest()
        folder = desk.out / _CELLS / digest
        try:
            if self._contender is None:
                self._contender = self._work.enter(protocol)
            _hand_on(desk.out, folder, protocol.name)
            part = replace(protocol, targets=tuple(cells["targets"]), sizes=tuple(cells["sizes"]))
            found = list(execute(part, self._contender, replace(desk, out=folder)))
        except (HardnerError, OSError) as error:
            return json.dumps({"failed": str(error)})
        return json.dumps({"folder": str(folder), "done": [asdict(done) for done in found]})


def _hand_on(out: Path, folder: Path, name: str) -> None:
    """What is scored already is not scored again."""
    before = out / f"{name}.jsonl"
    if before.exists():
        ResultFile(folder / before.name).append(list(read_results(before)))


def _bring_in(folder: Path, name: str, out: Path) -> None:
    """Adds what a worker found to the results, and then lets go of its folder."""
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
