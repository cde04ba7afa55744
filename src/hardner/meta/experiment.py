"""An experiment: all that decides what a run does, from a TOML file and dotted overrides.

Every field is checked when it is made. Paths are as seen from where the command is run.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from hardner.config import (
    ConfigTable,
    Count,
    NonNegative,
    Share,
    Whole,
    check_fields,
    make,
    merged,
)
from hardner.config import parse_key as parse_key
from hardner.errors import FileError, HardnerError
from hardner.files import read_text
from hardner.meta.hypergradient import MetaGradient
from hardner.meta.loop import Training
from hardner.meta.methods import METHODS, Method, MethodSettings, method, scaled
from hardner.meta.optim import Optimizer
from hardner.meta.presets import TRAINING_PRESETS, training_preset
from hardner.model.decoders import DecoderKind
from hardner.model.heads import Pooling
from hardner.renamed import with_new_names


@dataclass(frozen=True)
class DataSection:
    """``[data]``: what is learnt from."""

    root: str = "../shared/corpora"
    """The folder that holds the corpora's folders."""
    catalogue: str = ""
    """A file of rows of your own beside those of the built-in catalogue."""
    layout: Literal["catalogue", "folders"] = "catalogue"
    """Corpora that the catalogue knows, or folders of ``train.tsv`` and ``devel.tsv`` that are
    named after their domains."""
    corpora: tuple[str, ...] = ()
    """By name; none: the eight benchmark corpora, or every folder."""
    shares: tuple[str, ...] = ()
    """What the losses of a domain (or corpus) count, as in ``BC2GM=0.5``; 1 where none is
    given. The lambda_i of MT-BioNER."""
    labels: tuple[str, ...] = ()
    """Whose mentions are learnt; none: those of all."""
    joined: Share = 0.0
    """The share of each corpus's devel sentences, from the first on, that is trained on too."""

    def __post_init__(self) -> None:
        check_fields(self, "data")


@dataclass(frozen=True)
class EncoderSection:
    """``[encoder]``: from words to vectors."""

    kind: Literal["bilstm", "bigru", "transformer", "bert"] = "bilstm"
    folder: str = ""
    """Of a pre-trained transformer, or of a BERT-like Hugging Face model."""
    limit: Count = 256
    """Pieces that a transformer or BERT reads at once."""
    frozen: bool = False
    """Whether multi-task training leaves the encoder as it is."""
    vectors: str = ""
    """A file of word vectors for a BiLSTM or BiGRU; none: they start at random."""
    dimension: Count = 200
    """Of a word's vector."""
    train_words: bool = False
    """Whether the words' vectors learn."""
    hidden: Count = 128
    """Of one direction of the BiLSTM or BiGRU."""
    skip: bool = False
    """Whether decoders read a word's vectors beside what the BiLSTM or BiGRU makes of them."""
    letters: Count = 50
    """Of a letter's vector."""
    letters_from_words: bool = False
    """Whether letters start as the mean of the vectors of the words that hold them, and are then
    as wide as those (MetaBioNER)."""
    filters: Whole = 50
    """Of the convolution over letters; 0 for none."""
    recurrent: Whole = 50
    """Size of the BiLSTM over letters; 0 for none."""

    def __post_init__(self) -> None:
        check_fields(self, "encoder")
        if self.letters_from_words and not self.vectors:
            raise HardnerError("encoder.letters_from_words: name a file of encoder.vectors")
        if self.recurrent % 2:
            raise HardnerError(
                f"encoder.recurrent: two directions share it, so it is even; got {self.recurrent}"
            )


@dataclass(frozen=True)
class DecoderSection:
    """``[decoder]``: from vectors to tags."""

    kind: DecoderKind = "crf"
    scheme: Literal["IOB2", "IOBES"] = "IOB2"
    per: Literal["domain", "corpus", "type", "all"] = "domain"
    """What has a decoder of its own, and is a domain to the method; a type is one of a corpus."""

    def __post_init__(self) -> None:
        check_fields(self, "decoder")


@dataclass(frozen=True)
class InnerSection:
    """``[inner]``: how tasks adapt."""

    steps: Count = 1
    rate: NonNegative = 1e-2
    optimizer: Literal["sgd", "adamw"] = "sgd"
    decoder: NonNegative = 1.0
    """What the rate of decoders is multiplied with."""
    fresh: bool = False
    """Whether each task begins with a decoder that knows nothing, as a new type does."""
    meta_gradient: MetaGradient = "first"
    proximal: NonNegative = 0.0
    """The pull back to the start; implicit meta-gradients need one."""
    weight: NonNegative = 1.0
    """Of the domain loss: lambda."""

    def __post_init__(self) -> None:
        check_fields(self, "inner")


@dataclass(frozen=True)
class TrainSection:
    """``[train]``: how the shared parameters move."""

    iterations: Count = 10_000
    tasks: Count = 8
    """Of an iteration: m."""
    shots: Count = 5
    """Sentences of a support, a query or a mini-batch: K."""
    rate: NonNegative = 1e-2
    scaled: bool = True
    """Whether this and the inner rate are for 32 shots, and follow their square root (Eq. 3)."""
    optimizer: Literal["sgd", "adamw"] = "sgd"
    momentum: Share = 0.9
    """Of SGD."""
    weight_decay: NonNegative = 1e-6
    warmup: Share = 0.0
    """Share of the iterations over which the rate rises; then it falls linearly to zero."""
    clip: NonNegative = 5.0
    """The largest norm of a gradient; 0 for any."""
    dropout: Share = 0.2
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the arithmetic on a GPU."""
    weight_interpolation: Share = 1.0
    """How far the encoder that is kept is from its start: 1 is as trained, 0 as it began."""
    save: Count = 500
    """Iterations between two states that a run can go on from."""

    def __post_init__(self) -> None:
        check_fields(self, "train")


@dataclass(frozen=True)
class DevelSection:
    """``[devel]``: the source devel data decide which parameters are kept, and when to stop."""

    every: Whole = 500
    """Iterations between two scorings; 0: never, and the last parameters are kept."""
    episodes: Count = 128
    """Tasks that are scored, always the same."""
    patience: Whole = 0
    """Scorings without a new best after which the run ends; 0: it never ends early."""

    def __post_init__(self) -> None:
        check_fields(self, "devel")


@dataclass(frozen=True)
class GranularitySection:
    """``[granularity]``: the shares of the multi-granularity losses; 0 removes one."""

    tag: NonNegative = 1.0
    mtcls: NonNegative = 1.0
    bcls: NonNegative = 1.0
    mcls: NonNegative = 1.0
    pooling: Pooling = "max"
    """How words become a sentence."""

    def __post_init__(self) -> None:
        check_fields(self, "granularity")
        if not self.tag:
            raise HardnerError("granularity.tag: expected above 0, or nothing learns to tag")


@dataclass(frozen=True)
class Experiment:
    """All that decides what a run does."""

    method: str = "hgda"
    preset: str = "paper"
    """What lies under the values of a file; see `hardner.meta.presets`."""
    target: str = ""
    """The domain whose corpora are left out; empty for none."""
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    data: DataSection = field(default_factory=DataSection)
    encoder: EncoderSection = field(default_factory=EncoderSection)
    decoder: DecoderSection = field(default_factory=DecoderSection)
    inner: InnerSection = field(default_factory=InnerSection)
    train: TrainSection = field(default_factory=TrainSection)
    devel: DevelSection = field(default_factory=DevelSection)
    granularity: GranularitySection = field(default_factory=GranularitySection)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.method not in METHODS:
            known = f"there are {', '.join(METHODS)}; --plugin FILE.py adds your own"
            raise HardnerError(f"method: none is {self.method!r}; {known}")
        if self.preset not in TRAINING_PRESETS:
            raise HardnerError(
                f"preset: none is {self.preset!r}; there are {', '.join(TRAINING_PRESETS)}"
            )
        if self.method == "wpz" and self.decoder.kind != "softmax":
            raise HardnerError('decoder.kind: wpz compares words one by one: set it to "softmax"')
        if self.encoder.frozen and not self.method.startswith("multitask"):
            raise HardnerError(f"encoder.frozen: {self.method} learns through the encoder")
        self.way()

    def way(self) -> Method:
        """The method with the values of this experiment."""
        shares = {n: getattr(self.granularity, n) for n in ("tag", "mtcls", "bcls", "mcls")}
        settings = MethodSettings(
            steps=self.inner.steps,
            rate=self._rate(self.inner.rate),
            optimizer=self.inner.optimizer,
            decoder=self.inner.decoder,
            fresh=self.inner.fresh,
            weight=self.inner.weight,
            meta_gradient=self.inner.meta_gradient,
            proximal=self.inner.proximal,
            pooling=self.granularity.pooling,
            shares=shares,
            frozen=self.encoder.frozen,
        )
        return method(self.method, settings)

    def training(self) -> Training:
        """How the shared parameters move."""
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
    """From the values of a file and those that replace them, with the preset under both."""
    given = with_new_names(merged(table, overrides or {}))
    name = str(given.get("preset", Experiment.preset))
    encoder = merged(training_preset(name, ""), given).get("encoder", {})
    kind = encoder.get("kind", EncoderSection.kind) if isinstance(encoder, Mapping) else ""
    return make(Experiment, merged(training_preset(name, str(kind)), given))


def read_experiment(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of a TOML (or a run's JSON) file."""
    text = read_text(path)
    try:
        table = json.loads(text) if Path(path).suffix == ".json" else tomllib.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise FileError(path, f"cannot be read: {error}") from None
    try:
        return experiment(table, overrides)
    except HardnerError as error:
        raise FileError(path, str(error)) from None


def parse_override(key: str, text: str) -> ConfigTable:
    """What ``--key text`` overrides."""
    return parse_key(Experiment, key, text)
