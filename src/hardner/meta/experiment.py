"""An experiment: all settings of a training run, and the tables of those that have a name.

Every field is checked when it is made. Paths are relative to the folder of the command.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from hardner.config import (
    Bounds,
    ConfigTable,
    NonNegative,
    Section,
    Share,
    check_fields,
    make,
    merged,
    with_new_names,
)
from hardner.errors import FileError, HardnerError
from hardner.files import read_json, read_toml
from hardner.meta.inner import label_term
from hardner.meta.loop import Training
from hardner.meta.methods import METHODS, Few, InnerSection, Method, MethodSettings, method, scaled
from hardner.meta.optim import Optimizer
from hardner.model.decoders import DecoderKind
from hardner.model.heads import Pooling

_FewOrNone = Annotated[int, Bounds(0, 10_000)]
_Times = Annotated[int, Bounds(1, 10**9)]
_TimesOrNever = Annotated[int, Bounds(0, 10**9)]


@dataclass(frozen=True)
class DataSection(Section):
    """``[data]``: what is learnt from."""

    root: str = "../shared/corpora"
    """The folder that holds the corpora's folders."""
    catalogue: str = ""
    """A TOML file of corpora of your own, beside the built-in catalogue."""
    layout: Literal["catalogue", "folders"] = "catalogue"
    """Corpora of the catalogue, or folders of ``train.tsv`` and ``devel.tsv`` that are named after
    their domains."""
    corpora: tuple[str, ...] = ()
    """Their names; by default the eight benchmark corpora, or every folder."""
    shares: tuple[str, ...] = ()
    """Loss weights by domain or corpus, such as ``BC2GM=0.5``; 1 by default (MT-BioNER)."""
    labels: tuple[str, ...] = ()
    """The labels that are learnt; by default all."""
    joined: Share = 0.0
    """The share of each corpus's devel sentences, from the first on, that is trained on too."""


@dataclass(frozen=True)
class EncoderSection(Section):
    """``[encoder]``: from words to vectors."""

    kind: Literal["bilstm", "bigru", "transformer", "bert"] = "bilstm"
    folder: str = ""
    """Of a pre-trained transformer, or of a BERT-like Hugging Face model."""
    limit: Few = 256
    """Subwords that a transformer or BERT reads at once."""
    frozen: bool = False
    """Whether multi-task training leaves the encoder as it is."""
    vectors: str = ""
    """A file of word vectors for a BiLSTM or BiGRU; without one they start at random."""
    dimension: Few = 200
    """Of a word vector."""
    train_words: bool = False
    """Whether word vectors are trained."""
    unknown: Literal["own", "shared", "zero"] = "own"
    """What words of the sources that the file of vectors lacks start from: random vectors of their
    own; one random vector for them all, which words of the target without a vector share, so that
    training has met it; or that one of zeros."""
    hidden: Few = 128
    """Units of one direction of the BiLSTM or BiGRU."""
    skip: bool = False
    """Whether decoders also read the word vectors, past the BiLSTM or BiGRU."""
    letters: Few = 50
    """Dimension of a character vector."""
    letters_from_words: bool = False
    """Whether character vectors start as the mean of the vectors of the words that hold them, and
    have their dimension (MetaBioNER)."""
    filters: _FewOrNone = 50
    """Of the convolution over characters; 0 for none."""
    recurrent: _FewOrNone = 50
    """Units of the BiLSTM over characters, both directions together; 0 for none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.letters_from_words and not self.vectors:
            raise HardnerError("encoder.letters_from_words: name a file of encoder.vectors")
        if self.unknown != "own" and not self.vectors:
            raise HardnerError("encoder.unknown: name a file of encoder.vectors")
        if self.recurrent % 2:
            raise HardnerError(
                f"encoder.recurrent: two directions share it, so it is even; got {self.recurrent}"
            )


@dataclass(frozen=True)
class DecoderSection(Section):
    """``[decoder]``: from vectors to tags."""

    kind: DecoderKind = "crf"
    scheme: Literal["IOB2", "IOBES"] = "IOB2"
    per: Literal["domain", "corpus", "type", "all"] = "domain"
    """What has a decoder of its own; ``type`` is each label of each corpus."""


@dataclass(frozen=True)
class TrainSection(Section):
    """``[train]``: the outer loop, or plain training."""

    iterations: _Times = 10_000
    tasks: Few = 8
    """Of an iteration: m."""
    shots: Few = 5
    """Sentences of a support, a query or a mini-batch: K."""
    per_iteration: Annotated[int, Bounds(0, 1_000_000)] = 0
    """Sentences of an iteration, supports and queries of all tasks together, so that methods whose
    tasks differ learn from equally many; it sets the number of tasks. 0: as many as they need."""
    rate: NonNegative = 1e-2
    scaled: bool = True
    """Whether both rates are for 32 shots, and scale with the root of the shots (HGDA, Eq. 3)."""
    optimizer: Literal["sgd", "adamw"] = "sgd"
    momentum: Share = 0.9
    """Of SGD."""
    weight_decay: NonNegative = 1e-6
    warmup: Share = 0.0
    """Share of the iterations over which the rate rises; then it decays linearly to zero."""
    clip: NonNegative = 5.0
    """The largest norm of a gradient; 0 for any."""
    dropout: Share = 0.2
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the arithmetic on a GPU."""
    weight_interpolation: Share = 1.0
    """Of the encoder that is kept: 1 is the trained one, 0 the one at the start."""
    save: _Times = 500
    """Iterations between two states that a run can go on from."""


@dataclass(frozen=True)
class DevelSection(Section):
    """``[devel]``: the loss on source devel data decides which parameters are kept."""

    every: _TimesOrNever = 500
    """Iterations between two scorings; 0: never, and the last parameters are kept."""
    episodes: Few = 128
    """Tasks that are scored, always the same ones."""
    patience: _TimesOrNever = 0
    """Scorings without a new best after which training stops early; 0: it never does."""


@dataclass(frozen=True)
class GranularitySection(Section):
    """``[granularity]``: the weights of the multi-granularity losses; 0 removes one."""

    tag: NonNegative = 1.0
    mtcls: NonNegative = 1.0
    bcls: NonNegative = 1.0
    mcls: NonNegative = 1.0
    pooling: Pooling = "max"
    """How word vectors become a sentence vector."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tag:
            raise HardnerError("granularity.tag: expected above 0, or nothing learns to tag")


@dataclass(frozen=True)
class HardnessSection(Section):
    """``[hardness]``: how HGDA weighs its tasks."""

    temperature: Annotated[float, Bounds(0.01, 1_000_000)] = 1.0
    """Weights follow the losses to the power of one over this: 1 is Eq. 2, more is more even."""
    by_sentence: bool = False
    """Whether a softmax decoder's loss is summed over the words of a sentence, as a CRF's and the
    domain's losses are of a sentence, where it would be the mean of a word."""


@dataclass(frozen=True)
class LabelsSection(Section):
    """``[labels]``: decoders made of label names and descriptions, learnt beside the others."""

    weight: NonNegative = 0.0
    """Of their loss; 0: they are not learnt."""


@dataclass(frozen=True)
class Experiment:
    """All settings of a training run."""

    method: str = "hgda"
    preset: str = "paper"
    """Values for the keys that are not set; ``presets.toml`` has them."""
    target: str = ""
    """The domain whose corpora are left out of training; empty for none."""
    seed: Annotated[int, Bounds(-(2**63), 2**63 - 1)] = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    data: DataSection = field(default_factory=DataSection)
    encoder: EncoderSection = field(default_factory=EncoderSection)
    decoder: DecoderSection = field(default_factory=DecoderSection)
    inner: InnerSection = field(default_factory=InnerSection)
    train: TrainSection = field(default_factory=TrainSection)
    devel: DevelSection = field(default_factory=DevelSection)
    granularity: GranularitySection = field(default_factory=GranularitySection)
    hardness: HardnessSection = field(default_factory=HardnessSection)
    labels: LabelsSection = field(default_factory=LabelsSection)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.method not in METHODS:
            known = f"there are {', '.join(METHODS)}; --plugin FILE.py adds your own"
            raise HardnerError(f"method: none is {self.method!r}; {known}")
        objective = self.build_method().objective  # refuses what the method cannot do
        if objective.inner.prototypes and self.decoder.kind != "softmax":
            reason = f'{self.method} compares words one by one: set it to "softmax"'
            raise HardnerError(f"decoder.kind: {reason}")
        if self.encoder.frozen and "encoder" in objective.learners:
            raise HardnerError(f"encoder.frozen: {self.method} learns through the encoder")
        _ = self.tasks  # refuses what cannot be shared out

    @property
    def tasks(self) -> int:
        """How many tasks an iteration has."""
        of, t = self.build_method().sentence_sets * self.train.shots, self.train
        if t.per_iteration % of:
            said = f"{self.method}'s tasks of {t.shots} shots are of {of} sentences"
            raise HardnerError(f"train.per_iteration: {said}; name a multiple of that")
        return t.per_iteration // of or t.tasks

    def build_method(self) -> Method:
        inner = replace(self.inner, rate=self._rate(self.inner.rate))
        shares = vars(self.granularity).copy()
        pooling = shares.pop("pooling")
        frozen = self.encoder.frozen
        weighed = vars(self.hardness)
        settings = MethodSettings(
            **vars(inner), **weighed, pooling=pooling, shares=shares, frozen=frozen
        )
        made = method(self.method, settings)
        if not self.labels.weight:
            return made
        if made.objective.bilevel or made.alternate:
            reason = f"{self.method} trains on no mini-batches of labelled sentences alone"
            raise HardnerError(f"labels.weight: {reason}; set it to 0, or take multitask")
        terms = (*made.objective.outer, label_term(self.labels.weight, self.encoder.frozen))
        return replace(made, objective=replace(made.objective, outer=terms))

    def training(self) -> Training:
        """The optimisation of the shared parameters."""
        t = self.train
        momentum = t.momentum if t.optimizer == "sgd" else 0.0
        return Training(
            iterations=t.iterations,
            rate=self._rate(t.rate),
            warmup=t.warmup,
            optimizer=Optimizer(t.optimizer, momentum, weight_decay=t.weight_decay),
            clip=t.clip,
            dropout=t.dropout,
            precision=t.precision,
            seed=self.seed,
        )

    def _rate(self, base: float) -> float:
        return scaled(base, self.train.shots) if self.train.scaled else base

    def table(self) -> ConfigTable:
        """All values, as JSON and TOML can hold them."""
        plain: ConfigTable = json.loads(json.dumps(asdict(self)))
        return plain


def experiment(table: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The preset's values, with those of a table and then the overrides on top."""
    given = with_new_names(merged(table, overrides or {}))
    presets = training_presets()
    layers = presets.get(str(given.get("preset", Experiment.preset)), {})
    # A preset depends on the kind of encoder, which the preset itself may set.
    encoder = merged(layers.get("any", {}), given).get("encoder", {})
    kind = encoder.get("kind", EncoderSection.kind) if isinstance(encoder, Mapping) else ""
    made = make(Experiment, merged(merged(layers.get("any", {}), layers.get(str(kind), {})), given))
    if made.preset not in presets:
        raise HardnerError(f"preset: none is {made.preset!r}; there are {', '.join(presets)}")
    return made


def read_experiment(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of a TOML (or a run's JSON) file."""
    table = read_json(path) if Path(path).suffix == ".json" else read_toml(path)
    try:
        return experiment(table, overrides)
    except HardnerError as error:
        raise FileError(path, str(error)) from None


def load_experiment(name: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of that name, or of that TOML or JSON file."""
    path, tables = Path(name), experiment_tables()
    if path.as_posix() in tables:
        return experiment(tables[path.as_posix()], overrides)
    if path.suffix in (".toml", ".json") or path.is_file():
        return read_experiment(path, overrides)
    near = ", ".join(get_close_matches(path.as_posix(), tables, 3, cutoff=0.0))
    missing = "no such file or folder, and no experiment has that name"
    raise HardnerError(f"{name}: {missing}; the nearest are {near} (see hardner experiments)")


def run_name(name: str | Path) -> str:
    """What an experiment's run is called by default."""
    path = Path(name)
    named = path.as_posix() in experiment_tables()
    return path.as_posix().replace("/", "-") if named else path.stem


@cache
def training_presets() -> Mapping[str, Mapping[str, ConfigTable]]:
    """The values of each preset, for ``any`` encoder and by its kind."""
    return read_toml(Path(__file__).with_name("presets.toml"))


@cache
def experiment_tables() -> Mapping[str, ConfigTable]:
    """What each named experiment sets."""
    first, more = (
        read_toml(Path(__file__).with_name(f"{name}.toml")) for name in ("experiments", "ablations")
    )
    table = merged(first, more)
    methods, settings, cells = table["methods"], table["settings"], table["cells"]
    groups = table["groups"]
    tables = {}
    for own in methods:
        values = _section(methods, own)
        named = methods[own].get("settings", [""])  # without any: METHOD alone
        for setting in chain.from_iterable(groups.get(name, [name]) for name in named):
            name = f"{own}/{setting}" if setting else own
            over = merged(_section(settings, setting) if setting else {}, cells.get(name, {}))
            tables[name] = merged(values, over)
    return tables


def _section(sections: Mapping[str, ConfigTable], name: str) -> ConfigTable:
    """A section's values over those of the section that it extends."""
    own = {key: value for key, value in sections[name].items() if key != "settings"}
    base = own.pop("extends", None)
    return merged(_section(sections, base), own) if base else own
