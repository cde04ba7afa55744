"""Train what a protocol needs, from one experiment: a run a target, or a run a sample."""

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
from hardner.jobs.device import resolve_device
from hardner.jobs.progress import ProgressCallback
from hardner.jobs.run_folder import MODEL_FOLDER
from hardner.meta.experiment import Experiment
from hardner.meta.methods import BASELINES
from hardner.meta.network import build_network
from hardner.meta.run import run_experiment
from hardner.meta.source_data import corpora_of, load_source_data
from hardner.model.describe import load_model
from hardner.model.tagger import Model
from hardner.schemes import spans_to_tags
from hardner.types import Corpus, Sentence

_Domains = Mapping[str, Sequence[Sequence[Sentence]]]
"""By name, sentences to train on, devel sentences and perhaps test sentences."""
StopWatcher = Callable[[], AbstractContextManager[Callable[[], bool]]]
"""Looks out, while a training lasts, for what is to stop it."""


def system_of_experiment(
    experiment: Experiment,
    protocol: Protocol,
    runs: Path,
    name: str = "",
    preset: str = "",
    on_progress: ProgressCallback = lambda _: None,
    watch: StopWatcher = lambda: nullcontext(lambda: False),
) -> System:
    """A contender that is trained when it is needed; its runs are kept, and gone on with.

    Args:
        experiment: How to train. Its target, and its corpora if it names none, are set as the
            protocol needs.
        protocol: What it will be put through.
        runs: The folder for its runs.
        name: Of its row; one of `BASELINES` also says what to train on and whether to adapt.
        preset: Of the adaptation; by default the experiment's own.
        heard: Told of the training.
        watch: What it gives is asked after each iteration whether to stop.
    """
    plan = BASELINES.get(name)
    if plan and plan.merged and experiment.way().draw != "split":  # which needs several domains
        experiment = replace(experiment, decoder=replace(experiment.decoder, per="all"))
    device = resolve_device(experiment.device)
    made = make_system(experiment, experiment.encoder.kind, protocol, name, preset, device)
    trainer = Trainer(experiment, protocol, runs, made.train, device, on_progress, watch)
    return replace(made, start=trainer, cache=runs / "vectors")


@dataclass
class Trainer:
    """Trains a model for some targets; the last one is kept at hand."""

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
        found: Sequence[Corpus],
        drawn: Mapping[str, Sequence[Sentence]],
        sample: SampleDraw | None,
    ) -> Model:
        """The model for some targets, of which it may see what is drawn."""
        name = self._name(found, sample)
        if self._last is None or self._last[0] != name:
            experiment = self._with_target(found, drawn, self.runs / name)
            if sample:  # all samples of a whole corpus are the same
                experiment = replace(experiment, seed=experiment.seed + sample.number)
            self._last = name, self._model(experiment, self.runs / name)
        return self._last[1]

    def _name(self, found: Sequence[Corpus], sample: SampleDraw | None) -> str:
        """Of a run; one on the sources alone serves all targets that leave the same ones out."""
        if sample:
            return "-".join([*(corpus.name for corpus in found), *map(str, sample)])
        return found[0].domain if self._leaves_out(found) else "sources"

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

    def _with_target(
        self, found: Sequence[Corpus], drawn: Mapping[str, Sequence[Sentence]], folder: Path
    ) -> Experiment:
        """The experiment on the sources alone, or on sentences written for it."""
        e = self.experiment
        if not drawn:
            target = found[0].domain if self._leaves_out(found) else ""
            data = replace(e.data, corpora=self._sources(found))
            return replace(e, target=target, data=data)
        root = folder.with_name(folder.name + "-data")
        domains = self._domains(found, drawn)
        write_folders(root, domains)
        devel = e.devel if any(d for _, d in domains.values()) else replace(e.devel, every=0)
        data = replace(e.data, root=str(root), layout="folders", corpora=())
        return replace(e, target="", data=data, devel=devel)

    def _sources(self, found: Sequence[Corpus]) -> tuple[str, ...]:
        """The corpora that are trained on beside the targets."""
        own = {c.name for c in found} | {c.domain for c in found}
        domain_of = self._corpora.domain_of
        return tuple(n for n in self._candidates() if own.isdisjoint((n, domain_of(n))))

    @property
    def _corpora(self) -> Corpora:
        return corpora_of(self.experiment)

    def _candidates(self) -> tuple[str, ...]:
        """The experiment's own corpora, else the protocol's, else all folders of a root of them."""
        data, p = self.experiment.data, self.protocol
        there = {name for name in p.sources if self._corpora.holds(name)}
        if data.corpora:
            return data.corpora
        if data.layout == "folders" and not there:
            return tuple(sorted(path.name for path in Path(data.root).iterdir() if path.is_dir()))
        return tuple(name for name in p.sources if name not in p.optional or name in there)

    def _leaves_out(self, found: Sequence[Corpus]) -> bool:
        """Whether any source is of a target's domain."""
        domains = {corpus.domain for corpus in found}
        domain_of = self._corpora.domain_of
        return any(domain_of(name) in domains for name in self._candidates())

    def _domains(
        self, found: Sequence[Corpus], drawn: Mapping[str, Sequence[Sentence]]
    ) -> _Domains:
        """What to train on, under the names of the decoders."""
        parts = [(c, drawn[c.name], self._devel(c)) for c in found]
        if self.train == "sources and target" and not self.protocol.together:
            for name in self._sources(found):
                corpus = self._corpora.load(name)
                parts.append((corpus, corpus.train, corpus.devel))
        merged: dict[str, tuple[list[Sentence], list[Sentence]]] = {}
        for corpus, train, devel in parts:
            per = corpus.name if self.experiment.decoder.per == "corpus" else corpus.domain
            held = merged.setdefault(per, ([], []))
            held[0].extend(train)
            held[1].extend(devel)
        return merged

    def _devel(self, corpus: Corpus) -> Sequence[Sentence]:
        return () if "devel" in self.protocol.splits else corpus.devel


def write_folders(root: Path, domains: _Domains) -> None:
    """Sentences as a folder a domain, for an experiment whose layout is ``folders``."""
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
