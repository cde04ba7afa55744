"""An experiment: all settings of a training run.

Every field is checked when it is made. Paths are relative to the folder of the command.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Literal

from hardner.config import (
    ConfigTable,
    Count,
    NonNegative,
    Share,
    Whole,
    check_fields,
)
from hardner.errors import HardnerError
from hardner.meta.hypergradient import MetaGradient
from hardner.meta.loop import Training
from hardner.meta.methods import METHODS, Method, MethodSettings, method, scaled
from hardner.meta.optim import Optimizer
from hardner.model.decoders import DecoderKind
from hardner.model.heads import Pooling


@dataclass(frozen=True)
class DataSection:
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

    def __post_init__(self) -> None:
        check_fields(self, "data")


@dataclass(frozen=True)
class EncoderSection:
    """``[encoder]``: from words to vectors."""

    kind: Literal["bilstm", "bigru", "transformer", "bert"] = "bilstm"
    folder: str = ""
    """Of a pre-trained transformer, or of a BERT-like Hugging Face model."""
    limit: Count = 256
    """Subwords that a transformer or BERT reads at once."""
    frozen: bool = False
    """Whether multi-task training leaves the encoder as it is."""
    vectors: str = ""
    """A file of word vectors for a BiLSTM or BiGRU; without one they start at random."""
    dimension: Count = 200
    """Of a word vector."""
    train_words: bool = False
    """Whether word vectors are trained."""
    hidden: Count = 128
    """Units of one direction of the BiLSTM or BiGRU."""
    skip: bool = False
    """Whether decoders also read the word vectors, past the BiLSTM or BiGRU."""
    letters: Count = 50
    """Dimension of a character vector."""
    letters_from_words: bool = False
    """Whether character vectors start as the mean of the vectors of the words that hold them, and
    have their dimension (MetaBioNER)."""
    filters: Whole = 50
    """Of the convolution over characters; 0 for none."""
    recurrent: Whole = 50
    """Units of the BiLSTM over characters, both directions together; 0 for none."""

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
    """What has a decoder of its own; ``type`` is each label of each corpus."""

    def __post_init__(self) -> None:
        check_fields(self, "decoder")


@dataclass(frozen=True)
class InnerSection:
    """``[inner]``: how tasks adapt in the inner loop."""

    steps: Count = 1
    rate: NonNegative = 1e-2
    optimizer: Literal["sgd", "adamw"] = "sgd"
    decoder: NonNegative = 1.0
    """Factor on the learning rate of decoders."""
    fresh: bool = False
    """Whether each task starts with a zero decoder, as a new entity type does."""
    meta_gradient: MetaGradient = "first"
    proximal: NonNegative = 0.0
    """Weight of the squared distance to the start, which implicit meta-gradients need."""
    weight: NonNegative = 1.0
    """Of the domain loss: lambda."""

    def __post_init__(self) -> None:
        check_fields(self, "inner")


@dataclass(frozen=True)
class TrainSection:
    """``[train]``: the outer loop, or plain training."""

    iterations: Count = 10_000
    tasks: Count = 8
    """Of an iteration: m."""
    shots: Count = 5
    """Sentences of a support, a query or a mini-batch: K."""
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
    save: Count = 500
    """Iterations between two states that a run can go on from."""

    def __post_init__(self) -> None:
        check_fields(self, "train")


@dataclass(frozen=True)
class DevelSection:
    """``[devel]``: the loss on source devel data decides which parameters are kept."""

    every: Whole = 500
    """Iterations between two scorings; 0: never, and the last parameters are kept."""
    episodes: Count = 128
    """Tasks that are scored, always the same ones."""
    patience: Whole = 0
    """Scorings without a new best after which training stops early; 0: it never does."""

    def __post_init__(self) -> None:
        check_fields(self, "devel")


@dataclass(frozen=True)
class GranularitySection:
    """``[granularity]``: the weights of the multi-granularity losses; 0 removes one."""

    tag: NonNegative = 1.0
    mtcls: NonNegative = 1.0
    bcls: NonNegative = 1.0
    mcls: NonNegative = 1.0
    pooling: Pooling = "max"
    """How word vectors become a sentence vector."""

    def __post_init__(self) -> None:
        check_fields(self, "granularity")
        if not self.tag:
            raise HardnerError("granularity.tag: expected above 0, or nothing learns to tag")


@dataclass(frozen=True)
class Experiment:
    """All settings of a training run."""

    method: str = "hgda"
    preset: str = "paper"
    """Values for the keys that are not set; ``presets.toml`` has them."""
    target: str = ""
    """The domain whose corpora are left out of training; empty for none."""
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
        if self.method == "wpz" and self.decoder.kind != "softmax":
            raise HardnerError('decoder.kind: wpz compares words one by one: set it to "softmax"')
        if self.encoder.frozen and not self.method.startswith("multitask"):
            raise HardnerError(f"encoder.frozen: {self.method} learns through the encoder")
        self.build_method()  # refuses what the method cannot do

    def build_method(self) -> Method:
        """The method with the settings of this experiment."""
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
