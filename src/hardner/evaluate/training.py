"""Train the models that a protocol needs from one experiment: one for each target, or sample."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from hardner.catalogue import SPLITS
from hardner.corpora import Corpora
from hardner.errors import HardnerError
from hardner.evaluate.protocols import Protocol, TrainOn
from hardner.evaluate.system import SampleDraw, System, make_system
from hardner.files import atomic_write
from hardner.jobs import MODEL_FOLDER, ProgressCallback
from hardner.meta.experiment import Experiment
from hardner.meta.methods import BASELINES
from hardner.meta.network import build_network
from hardner.meta.run import run_experiment
from hardner.meta.source_data import corpora_of, load_source_data
from hardner.model.describe import load_model
from hardner.model.layers import resolve_device
from hardner.model.tagger import Model
from hardner.schemes import spans_to_tags
from hardner.types import Corpus, Sentence

_Splits = Mapping[str, Sequence[Sequence[Sentence]]]
"""By domain, the sentences of train, devel and perhaps test."""
StopWatcher = Callable[[], AbstractContextManager[Callable[[], bool]]]
"""A context for the time of a training, which gives a function that says whether to stop."""


def system_of_experiment(
    experiment: Experiment,
    protocol: Protocol,
    runs: Path,
    name: str = "",
    preset: str = "",
    on_progress: ProgressCallback = lambda _: None,
    watch: StopWatcher = lambda: nullcontext(lambda: False),
) -> System:
    """A system that is trained when it is needed; its runs are kept, and gone on with.

    The experiment's target, and its corpora if it names none, are set as the protocol needs. A name
    of `BASELINES` also says what to train on and whether to adapt. ``watch`` says after each
    iteration whether to stop.
    """
    plan = BASELINES.get(name)
    if plan and plan.merged and experiment.build_method().draw != "split":
        # One decoder for all domains; methods that split the domains need several, though.
        experiment = replace(experiment, decoder=replace(experiment.decoder, per="all"))
    train = plan.train if plan else protocol.train
    device = resolve_device(experiment.device)
    return make_system(
        experiment,
        experiment.encoder.kind,
        protocol,
        name,
        preset,
        device,
        start=Trainer(experiment, protocol, runs, train, device, on_progress, watch),
        weights=experiment.encoder.folder,
        cache=runs / "vectors",
    )


@dataclass
class Trainer:
    """Trains a model for some targets, and keeps the last one in memory."""

    experiment: Experiment
    protocol: Protocol
    runs: Path
    train: TrainOn
    device: str
    on_progress: ProgressCallback
    watch: StopWatcher
    _last: tuple[str, Model] | None = None

    def __call__(
        self,
        targets: Sequence[Corpus],
        drawn: Mapping[str, Sequence[Sentence]],
        sample: SampleDraw | None,
    ) -> Model:
        """The model for some targets, trained on their drawn sentences too, if there are any."""
        corpora = corpora_of(self.experiment)
        joins_sources = self.train == "sources and target" and not self.protocol.together
        candidates = self._candidates(corpora) if joins_sources or not drawn else ()
        # Sources of a target's domain are left out, and so are the targets themselves.
        domains = {corpus.domain for corpus in targets}
        own = domains | {corpus.name for corpus in targets}
        sources = [n for n in candidates if own.isdisjoint((n, corpora.domain_of(n)))]
        leaves_out = any(corpora.domain_of(name) in domains for name in candidates)
        if sample:
            name = "-".join([*(corpus.name for corpus in targets), *map(str, sample)])
        else:  # a run on the sources alone serves all targets that leave the same ones out
            name = targets[0].domain if leaves_out else "sources"
        if self._last is None or self._last[0] != name:
            folder = self.runs / name
            if drawn:
                loaded = [corpora.load(name) for name in sources]
                experiment = self._on_folders(targets, drawn, loaded, folder)
            else:
                data = replace(self.experiment.data, corpora=tuple(sources))
                target = targets[0].domain if leaves_out else ""
                experiment = replace(self.experiment, target=target, data=data)
            if sample:  # samples of a whole corpus are all the same, so that seeds must differ
                experiment = replace(experiment, seed=experiment.seed + sample.number)
            self._last = name, self._model(experiment, folder)
        return self._last[1]

    def _candidates(self, corpora: Corpora) -> tuple[str, ...]:
        """The experiment's own corpora, else the protocol's, else all folders under its root."""
        data, protocol = self.experiment.data, self.protocol
        there = {name for name in protocol.sources if corpora.holds(name)}
        if data.corpora:
            return data.corpora
        if data.layout == "folders" and not there:
            return tuple(sorted(path.name for path in Path(data.root).iterdir() if path.is_dir()))
        return tuple(n for n in protocol.sources if n not in protocol.optional or n in there)

    def _model(self, experiment: Experiment, folder: Path) -> Model:
        if self.train == "nothing":
            model = Model(*build_network(experiment, load_source_data(experiment)))
        else:
            with self.watch() as stop:
                standing = run_experiment(experiment, folder, self.on_progress, stop)
            if not standing.finished:
                raise KeyboardInterrupt
            model = Model(*load_model(folder / MODEL_FOLDER))
        return Model(model.tagger, {n: p.to(self.device) for n, p in model.params.items()})

    def _on_folders(
        self,
        targets: Sequence[Corpus],
        drawn: Mapping[str, Sequence[Sentence]],
        sources: Sequence[Corpus],
        folder: Path,
    ) -> Experiment:
        """The experiment on a folder of sentences, which is written for it."""
        e = self.experiment
        # Where samples are drawn from the devel split too, none of it is left to stop by.
        devel = "devel" not in self.protocol.splits
        parts = [(c, drawn[c.name], c.devel if devel else ()) for c in targets]
        parts += [(corpus, corpus.train, corpus.devel) for corpus in sources]
        domains: dict[str, tuple[list[Sentence], list[Sentence]]] = {}  # by names of decoders
        for corpus, train, own_devel in parts:
            name = corpus.name if e.decoder.per == "corpus" else corpus.domain
            splits = domains.setdefault(name, ([], []))
            splits[0].extend(train)
            splits[1].extend(own_devel)
        root = folder.with_name(folder.name + "-data")
        write_folders(root, domains)
        every = e.devel.every if any(d for _, d in domains.values()) else 0
        data = replace(e.data, root=str(root), layout="folders", corpora=())
        return replace(e, target="", data=data, devel=replace(e.devel, every=every))


def write_folders(root: Path, domains: _Splits) -> None:
    """Write each domain's sentences as a folder, for an experiment whose layout is ``folders``."""
    for name, splits in domains.items():
        if "/" in name:
            raise HardnerError(f"{name!r} cannot be the name of a folder")
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for split, sentences in zip(SPLITS, splits, strict=False):
            if sentences:
                with atomic_write(folder / f"{split}.tsv") as file:
                    file.writelines(_lines(sentence) for sentence in sentences)


def _lines(sentence: Sentence) -> str:
    tags = spans_to_tags(sentence.spans, len(sentence))
    return "".join(f"{w}\t{t}\n" for w, t in zip(sentence.tokens, tags, strict=True)) + "\n"
