"""A model at work: text or tokens in, entities with calibrated scores out."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch

from hardner.config import Bounds, Share, keys, make
from hardner.errors import FileError, HardnerError
from hardner.manifest import CONFIG, read_config
from hardner.model.describe import load_model, save_model
from hardner.model.encoders import EncoderWithCopies
from hardner.model.layers import Params, resolve_device
from hardner.model.tagger import Model, Tagger
from hardner.schemes import TagSet
from hardner.tag.added_heads import BranchedEngine, Origin
from hardner.tag.engine import BATCH_SIZE, EncodedSentences, Engine
from hardner.tag.text_tagger import MinScore, TextTagger, check_scores, spans_of
from hardner.tag.thresholds import PrecisionRecallCurve, thresholds_for
from hardner.tag.uncertainty import Uncertainty
from hardner.tag.windows import ScoredMention, Tokens, buffer_size, windows_of_tokens
from hardner.types import Progress, Sentence, Span

if TYPE_CHECKING:
    from hardner.adapt.examples import LabelledData, Labels, UnlabelledData
    from hardner.adapt.report import AdaptationReport
    from hardner.evaluate.score_report import ComparisonReport, ScoreReport

BUNDLED_MODEL = Path(__file__).parents[1] / "assets" / "model"
BUNDLED_START = BUNDLED_MODEL.with_name("start")
"""Whose encoder the bundled model's adaptations begin with, and those of models made from it."""


@dataclass(frozen=True)
class _Kept:
    """What a model folder says of a predictor beside its network."""

    temperatures: Mapping[str, Annotated[float, Bounds(1e-6, 1e6)]] = field(default_factory=dict)
    learnt: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    start: Literal["", "bundled"] = ""
    thresholds: Mapping[str, Share] = field(default_factory=dict)
    curves: Mapping[str, PrecisionRecallCurve] = field(default_factory=dict)
    origins: Mapping[str, Origin] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Predictor(TextTagger):
    """A tagger with its parameters, ready to be used, from several threads if need be."""

    tagger: Tagger
    params: Params
    temperatures: tuple[float, ...] = ()
    """Of each head: what its scores are divided by before they become probabilities (1)."""
    device: str = "cpu"
    """``cpu``, ``cuda`` (or ``cuda:1`` and so on), or ``auto``, which is either."""
    start: Path | None = None
    """The folder of the model with whose encoder new types begin; None: with this one's own."""
    learnt: Mapping[str, Collection[int]] = field(default_factory=dict)
    """By domain, hashes of the sentences that a head was adapted to: they cannot judge it."""
    report: "AdaptationReport | None" = None
    """Of the adaptation that made this predictor; no part of a folder."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """By label, the score that a mention must reach; of labels that are not named, 0."""
    curves: Mapping[str, PrecisionRecallCurve] = field(default_factory=dict)
    """By label, what held-out sentences say of its precision and recall at other thresholds."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """By domain, where a head comes from that was adapted."""
    _engine: Engine | BranchedEngine = field(init=False)

    def __post_init__(self) -> None:
        temperatures = self.temperatures or (1.0,) * len(self.tag_sets)
        if len(temperatures) != len(self.tag_sets):
            heads = len(self.tag_sets)
            raise HardnerError(f"{len(temperatures)} temperatures for {heads} heads")
        device = resolve_device(self.device)
        params = {name: value.to(device) for name, value in self.params.items()}
        # A frozen dataclass sets its own fields in this way only.
        object.__setattr__(self, "device", device)
        object.__setattr__(self, "params", params)
        object.__setattr__(self, "temperatures", temperatures)
        check_scores(self.thresholds.values(), "a threshold")
        own = {label: float(self.thresholds.get(label, 0.0)) for label in self.labels}
        object.__setattr__(self, "thresholds", own)
        encoder, model = self.tagger.encoder, Model(self.tagger, params)
        engine: Engine | BranchedEngine
        if isinstance(encoder, EncoderWithCopies):
            engine = BranchedEngine.of(model, encoder, temperatures, device)
        else:
            engine = Engine(*model, temperatures, device)
        object.__setattr__(self, "_engine", engine)

    @classmethod
    def load(cls, path: str | Path | None = None, device: str = "cpu") -> "Predictor":
        """Read a model folder; without one, the model that comes with the package."""
        if path is None and not BUNDLED_MODEL.is_dir():
            message = "no model comes with this hardner; name the folder of one (--model DIR)"
            raise HardnerError(message)
        folder = Path(path or BUNDLED_MODEL)
        if not folder.is_dir():
            raise FileError(folder, "no such model folder")
        tagger, params = load_model(folder)
        config = read_config(folder / CONFIG).get("config", {})
        try:
            kept = make(_Kept, {name: config[name] for name in keys(_Kept) if name in config})
        except HardnerError as error:
            raise FileError(folder / CONFIG, f"damaged: {error}") from None
        temperatures = tuple(kept.temperatures.get(domain, 1.0) for domain in tagger.domains)
        start = BUNDLED_START if path is None or kept.start else None
        return cls(
            tagger,
            params,
            temperatures,
            device,
            start,
            kept.learnt,
            thresholds=kept.thresholds,
            curves=kept.curves,
            origins=kept.origins,
        )

    def save(self, path: str | Path) -> None:
        """Write a model folder, whole or not at all; an earlier model there is replaced."""
        kept = _Kept(
            dict(zip(self.tagger.domains, self.temperatures, strict=True)),
            {domain: tuple(sorted(texts)) for domain, texts in self.learnt.items()},
            "bundled" if self.start == BUNDLED_START else "",
            {label: score for label, score in self.thresholds.items() if score},
            {label: curve for label, curve in self.curves.items() if label in self.labels},
            self.origins,
        )
        save_model(path, self.tagger, self.params, asdict(kept))

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes get what it is made from, and make its engine anew."""
        return type(self), tuple(getattr(self, own.name) for own in fields(self) if own.init)

    def __repr__(self) -> str:
        return f"Predictor({', '.join(self.labels)}; {self.device})"

    @property
    def tag_sets(self) -> tuple[TagSet, ...]:
        return self.tagger.tag_sets

    def with_thresholds(self, thresholds: float | Mapping[str, float]) -> "Predictor":
        """The same predictor with another threshold for every label, or for those named."""
        return replace(self, thresholds=self.least_scores(thresholds))

    def thresholds_for(
        self, precision: float, labels: Collection[str] | None = None
    ) -> dict[str, float]:
        """The lowest thresholds that promise a precision, of all labels or of some.

        It is the precision on sentences like those that a label was learnt from, as its curve in
        `curves` has it; where nothing is known, or nothing can be promised, it is an error.
        """
        self.check_labels(labels)
        return thresholds_for(precision, self.curves, self.labels if labels is None else labels)

    def spans(
        self,
        sentences: Iterable[Sentence] | EncodedSentences,
        *,
        batch_size: int | None = None,
        labels: Collection[str] | None = None,
        min_score: MinScore = None,
        domain: str | None = None,
    ) -> list[list[tuple[Span, float]]]:
        """The spans found over the tokens of each sentence, with their scores.

        The sentences may be what `encode` made of them. A ``domain`` of the tagger asks its decoder
        alone. Other arguments are those of `pipe`.
        """
        given = sentences if isinstance(sentences, EncodedSentences) else self.encode(sentences)
        heads = self._heads(labels)
        if domain is not None:
            heads = tuple(head for head in heads if self.tag_sets[head].domain == domain)
        known = iter(self._engine.tag(given.texts, heads, self._size(batch_size)))
        cut = ((None, own) for own in given.windows)
        tagged = self._mentions(
            cut, batch_size, labels, min_score, heads, lambda own: islice(known, len(own))
        )
        return spans_of(tagged)

    def encode(self, sentences: Iterable[Sentence]) -> EncodedSentences:
        """Encode sentences once, for `spans` of any number of models with the same encoder."""
        windows = [list(windows_of_tokens(sentence.tokens)) for sentence in sentences]
        texts = [window.tokens for own in windows for window in own]
        return EncodedSentences(windows, self._engine.encode(texts))

    def hardness(
        self,
        sentences: Sequence[Sentence],
        *,
        batch_size: int | None = None,
        labels: Collection[str] | None = None,
    ) -> list[float]:
        """The loss that the model expects on each sentence: the entropy of its tags, in nats.

        Were the tags drawn from the model's own distribution, its negative log-likelihood would be
        this in the mean; heads add up. Arguments are those of `pipe`.
        """
        heads, size = self._heads(labels), self._size(batch_size)
        found = [0.0] * len(sentences)
        rows = ((i, w) for i, s in enumerate(sentences) for w in windows_of_tokens(s.tokens))
        while some := list(islice(rows, buffer_size(size))):
            encoded = self._engine.encode([window.tokens for _, window in some])
            every = self._engine.uncertainties(encoded, heads, size)
            for (row, window), own in zip(some, every, strict=True):
                left, right = (at - window.offsets[0][0] for at in window.own)
                found[row] += sum(float(head.given[left:right].sum()) for head in own)
        return found

    def uncertainties(
        self, sentences: Sequence[Sentence], *, labels: Collection[str] | None = None
    ) -> list[Uncertainty]:
        """What the heads that know any of the labels are unsure of in each sentence."""
        encoded = self._engine.encode([sentence.tokens for sentence in sentences])
        every = self._engine.uncertainties(encoded, self._heads(labels), self._size(None))
        return [Uncertainty.of(heads) for heads in every]

    def adapt(
        self,
        labelled: "LabelledData",
        label: "Labels" = None,
        *,
        labels: "Labels" = None,
        descriptions: Mapping[str, str] | None = None,
        unlabelled: "UnlabelledData | None" = None,
        keep: bool = False,
        keep_sentences: bool = False,
        continued: bool = False,
        seed: int = 0,
        force: bool = False,
        on_progress: Progress | None = None,
    ) -> "Predictor":
        """A predictor for new types of entities, learnt from a few labelled sentences.

        Its ``report`` says what to expect. Arguments are those of
        `hardner.adapt.workflow.adapt_predictor`; a single ``label`` may be given in place of
        ``labels``.
        """
        from hardner.adapt.workflow import adapt_predictor

        outcome = adapt_predictor(
            self,
            labelled,
            label if labels is None else labels,
            descriptions=descriptions,
            unlabelled=unlabelled,
            keep=keep,
            keep_sentences=keep_sentences,
            continued=continued,
            seed=seed,
            force=force,
            on_progress=on_progress,
        )
        return outcome.predictor

    def with_types(self, types: Mapping[str, str]) -> "Predictor":
        """The same predictor with types that it finds without an example, by what they mean.

        Args:
            types: Descriptions by name, such as ``{"Device": "an instrument or implant"}``; an
                empty one leaves it to the name.
        """
        from hardner.tag.heads import add_described

        return add_described(self, types)

    def score(
        self,
        labelled: "LabelledData",
        labels: Collection[str] | None = None,
        *,
        label_map: Mapping[str, str] | None = None,
        partial: bool = False,
        on_progress: Progress | None = None,
    ) -> "ScoreReport":
        """Precision, recall and F1 on labelled data, with intervals and all errors.

        Arguments are those of `hardner.evaluate.score_report.score_predictor`.
        """
        from hardner.evaluate.score_report import score_predictor

        return score_predictor(
            self, labelled, labels, label_map=label_map, partial=partial, on_progress=on_progress
        )

    def compare(
        self,
        other: "Predictor",
        labelled: "LabelledData",
        labels: Collection[str] | None = None,
        *,
        label_map: Mapping[str, str] | None = None,
        on_progress: Progress | None = None,
    ) -> "ComparisonReport":
        """What another predictor does better and worse on labelled data, and how sure that is.

        Arguments are those of `hardner.evaluate.score_report.score_predictor`.
        """
        from hardner.evaluate.score_report import compare_predictors

        return compare_predictors(
            self, other, labelled, labels, label_map=label_map, on_progress=on_progress
        )

    def _find(
        self, texts: Sequence[Tokens], heads: Sequence[int], size: int
    ) -> list[list[ScoredMention]]:
        return self._engine.tag(self._engine.encode(texts), heads, size)

    def _size(self, batch_size: int | None) -> int:
        return BATCH_SIZE[torch.device(self.device).type] if batch_size is None else batch_size
