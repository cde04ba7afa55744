"""``hardner evaluate``: score models under a protocol, as far as that is not done yet."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from hardner.cli.common import (
    interruptible,
    message_on_interrupt,
    progress_bar,
    say,
    warnings_on_stderr,
)
from hardner.cli.options import (
    ADDRESS_OPTION,
    CATALOGUE_OPTION,
    DEVICE_OPTION,
    ENGINE_OPTION,
    PLUGIN_OPTION,
    PRESET_OPTION,
    ROOT_OPTION,
    EngineChoice,
)
from hardner.errors import HardnerError

if TYPE_CHECKING:
    from hardner.corpora import Corpora
    from hardner.evaluate.execute import CellDone, EvaluationFolders
    from hardner.evaluate.protocols import Protocol, Size
    from hardner.evaluate.system import LabelText, System
    from hardner.jobs import ProgressCallback, RunProgress


class LabelChoice(StrEnum):
    """What new decoders are told of their labels."""

    nothing = ""
    names = "names"
    descriptions = "descriptions"


_PROTOCOLS = (
    "few-shot, heterogeneous, homogeneous, ratios, homogeneous-ratios, full, multitask-3, "
    "multitask-4, shares, running, running-devel"
)
_KEPT = "interrupted; what was scored and trained is kept, and the same command goes on"


def parse_sizes(text: str) -> "tuple[Size, ...]":
    """``5,10`` are sentences, ``0.1,1.0`` shares of all sentences."""
    sizes: list[Size] = []
    for part in text.split(","):
        try:
            size: Size = int(part) if part.strip().isdecimal() else float(part)
        except ValueError:
            raise typer.BadParameter(f"{part!r} is no number of sentences and no share.") from None
        if size < 0 or (isinstance(size, float) and not 0 < size <= 1):
            raise typer.BadParameter(f"{part} is no number of sentences and no share up to 1.0.")
        sizes.append(size)
    return tuple(sizes)


def evaluate_command(
    systems: Annotated[
        list[Path],
        Argument(metavar="MODEL_OR_RUN...", help="Folders, or experiments, which are trained."),
    ],
    protocol: Annotated[str, Option(help=f"One of {_PROTOCOLS}.")] = "few-shot",
    corpora: Annotated[
        str | None, Option(metavar="NAME,NAME,...", help="Target corpora; default: the protocol's.")
    ] = None,
    shots: Annotated[
        str | None, Option(help="Sizes as 5,10 (sentences) or 0.1,1.0 (shares of the data).")
    ] = None,
    samples: Annotated[int | None, Option(min=1, help="Samples of each size.")] = None,
    root: ROOT_OPTION = None,
    catalogue: CATALOGUE_OPTION = "",
    plugin: PLUGIN_OPTION = None,
    out: Annotated[Path, Option(help="Folder of results.")] = Path("results"),
    name: Annotated[
        str, Option(help="Name of the row; a baseline's (D-Shift, AGG, ...) also says what to do.")
    ] = "",
    preset: PRESET_OPTION = "",
    vectors: Annotated[
        str, Option(metavar="FILE", help="Word vectors, for words that a model does not know.")
    ] = "",
    device: DEVICE_OPTION = "auto",
    natural: Annotated[
        bool, Option("--natural", help="Draw samples from all sentences, entities or not.")
    ] = False,
    unlabelled: Annotated[
        int, Option(min=0, help="Unlabelled sentences of the target to self-train on.")
    ] = 0,
    predictions: Annotated[
        bool, Option("--predictions", help="Keep predictions for `hardner errors`.")
    ] = False,
    labels: Annotated[
        LabelChoice, Option(help="What new decoders are told: names, or the catalogue's texts.")
    ] = LabelChoice.nothing,
    engine: ENGINE_OPTION = EngineChoice.local,
    address: ADDRESS_OPTION = None,
) -> None:
    """Score models under a paper's protocol.

    Results are appended to a file of JSON lines named after the protocol, one line per sample. What
    is there already is not computed again, so the same command goes on after an interruption.

    With --labels, new decoders begin with what their labels mean where that helps, as by `hardner
    adapt --description`; the model must have been trained with label names. 0 sentences are then
    a size too.

    Examples:

    - `hardner evaluate runs/hgda-disease runs/hgda-gene --root ../shared/corpora`
    - `hardner evaluate runs/hgda-disease --corpora NCBI-disease --shots 5,10 --samples 3`
    - `hardner evaluate runs/hgda-disease --unlabelled 1200`
    - `hardner evaluate runs/types-described-disease --shots 0,1,5 --labels descriptions`
    - `hardner evaluate MODEL --protocol running --preset quick --shots 20`
    - `hardner evaluate multitask/heterogeneous --protocol ratios --name In-Domain`
    - `hardner evaluate runs/hgda-disease --engine ray --address 10.0.0.1:6379`
    """
    from hardner.corpora import Corpora
    from hardner.evaluate.execute import EvaluationFolders
    from hardner.evaluate.protocols import protocol as named

    if texts := [path for path in systems if path.is_file() and path.suffix != ".toml"]:
        model = next((str(path) for path in systems if path.is_dir()), "MODEL")
        raise HardnerError(
            f"{texts[0]}: evaluate runs the papers' protocols on known corpora; to score a file of "
            f"your own: {shlex.join(['hardner', 'score', model, str(texts[0])])}"
        )
    plan = named(protocol)
    plan = replace(
        plan,
        targets=tuple(corpora.split(",")) if corpora else plan.targets,
        sizes=parse_sizes(shots) if shots is not None else plan.sizes,
        samples=samples or plan.samples,
        natural=natural,
        unlabelled=unlabelled,
    )
    for path in systems:
        told: LabelText = labels.value
        given = path, out, name, preset, vectors, device, root, catalogue, plugin
        loader = SystemLoader(*given, told)
        board = _EvaluationBar()
        with message_on_interrupt(_KEPT), warnings_on_stderr(), board.bar:
            system = loader(plan, board.training)
            where = root or Path(system.root)
            folders = EvaluationFolders(where, out, predictions, catalogue or system.catalogue)
            own = _allowed(plan, system, path, Corpora.under(where, folders.catalogue))
            board.start(system.method, own)
            for done in _scored(own, loader, system, folders, engine, address):
                board.scored(done)
    file = out / f"{plan.name}.jsonl"
    say(f"{file}; next: hardner table {file}")


@dataclass(frozen=True)
class SystemLoader:
    """Loads a system, here or on a worker of another machine."""

    path: Path
    out: Path
    name: str
    preset: str
    vectors: str
    device: str
    root: Path | None
    catalogue: str
    plugins: list[Path] | None
    labels: "LabelText" = ""

    def __call__(self, plan: "Protocol", on_progress: "ProgressCallback | None" = None) -> "System":
        """The system; with ``on_progress``, Ctrl-C stops its training where it can go on."""
        from hardner.evaluate.system import told_labels

        return told_labels(self._load(plan, on_progress), self.labels, self.name)

    def _load(self, plan: "Protocol", on_progress: "ProgressCallback | None") -> "System":
        from hardner.evaluate.system import system_of_folder
        from hardner.evaluate.training import system_of_experiment
        from hardner.meta.experiment import load_experiment, run_name
        from hardner.meta.methods import load_plugins
        from hardner.model.layers import resolve_device

        load_plugins(self.plugins)
        if not self.trains:
            where = resolve_device(self.device)
            return system_of_folder(self.path, plan, self.name, self.preset, self.vectors, where)
        data = {"root": str(self.root or ""), "catalogue": self.catalogue}
        overrides: dict[str, object] = {"data": {k: v for k, v in data.items() if v}}
        overrides |= {"device": self.device} if self.device != "auto" else {}
        overrides |= {"encoder": {"vectors": self.vectors}} if self.vectors else {}
        experiment = load_experiment(self.path, overrides)
        parts = (plan.name, run_name(self.path), self.name.replace("/", ""))
        runs = self.out / "runs" / "-".join(filter(None, parts))
        watched = (on_progress, interruptible) if on_progress else ()
        return system_of_experiment(experiment, plan, runs, self.name, self.preset, *watched)

    @property
    def trains(self) -> bool:
        """Whether an experiment is to be trained first."""
        return self.path.suffix == ".toml" or not self.path.exists()


def _scored(
    plan: "Protocol",
    loader: SystemLoader,
    system: "System",
    folders: "EvaluationFolders",
    engine: EngineChoice,
    address: str | None,
) -> "Iterator[CellDone]":
    from hardner.evaluate.execute import execute

    if engine is EngineChoice.local:
        return execute(plan, system, folders)
    from hardner.scale.evaluation import execute_on_ray

    # Workers run in a folder of their own, so that all paths must be absolute.
    root, out = folders.root.resolve(), folders.out.resolve()
    catalogue = str(Path(folders.catalogue).resolve()) if folders.catalogue else ""
    remote = replace(
        loader,
        path=loader.path.resolve() if loader.path.exists() else loader.path,
        out=out,
        device=system.device,
        root=root,
        catalogue=catalogue,
        plugins=[file.resolve() for file in loader.plugins or ()],
    )
    there = replace(folders, root=root, out=out, catalogue=catalogue)
    return execute_on_ray(plan, remote, loader.trains, there, address)


def _allowed(plan: "Protocol", system: "System", path: Path, corpora: "Corpora") -> "Protocol":
    """The protocol with those targets alone that the model did not train on."""
    if not system.target:
        return plan
    wanted = system.target.casefold()
    own = tuple(n for n in plan.targets if corpora.domain_of(n).casefold() == wanted)
    if not own:
        named = ", ".join(plan.targets)
        raise HardnerError(f"{path} left {system.target} out, and none of {named} is of it")
    return replace(plan, targets=own)


class _EvaluationBar:
    """A bar on a terminal, else a line for each scored cell."""

    def __init__(self) -> None:
        self.bar, self.method = progress_bar(), ""
        self.task = self.bar.add_task("reading", total=None)

    def start(self, method: str, plan: "Protocol") -> None:
        self.method = method
        total = len(plan.targets) * len(plan.sizes) * plan.samples
        self.bar.update(self.task, description=method, total=total)

    def training(self, told: "RunProgress") -> None:
        what = f"{self.method}, training, {told.done:,} iterations"
        self.bar.update(self.task, description=what)

    def scored(self, done: "CellDone") -> None:
        size = f"{done.size} shots" if isinstance(done.size, int) else f"{done.size:.0%}"
        what = f"{self.method}, {done.corpus}, {size}"
        self.bar.update(self.task, advance=len(done.samples), description=what)
        if done.f1 is not None and self.bar.disable:
            many = f"{len(done.samples)} sample{'s' if len(done.samples) > 1 else ''}"
            say(f"{what}: F1 {done.f1:.3f} ({many})")
