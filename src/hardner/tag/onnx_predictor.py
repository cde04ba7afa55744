"""A model of `hardner export --onnx` at work without torch: onnxruntime, tokenizers and numpy.

Tags and scores are found as `hardner.tag.engine` finds them, in double precision.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from hardner.config import make
from hardner.errors import FileError, HardnerError
from hardner.features import (
    CPU_CELLS,
    TOKENIZER,
    Features,
    Ints,
    Pieces,
    groups_of_streams,
    read_pieces,
)
from hardner.manifest import checked_manifest
from hardner.model.graph import GRAPH, PIECES, PLACES, GraphRunner
from hardner.schemes import TagSet, allowed, continues
from hardner.tag.text_tagger import TextTagger, check_scores
from hardner.tag.windows import SCORE_DIGITS, ScoredMention, TagRun, Tokens, tag_runs
from hardner.types import Sentence

_Decoder = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]


class NumpyHead(NamedTuple):
    """A head's scores, divided by its temperature, for words of H numbers and C tags."""

    tag_set: TagSet
    weight: Floats  # [H, C]
    bias: Floats  # [C]
    transitions: Floats  # [C, C], from and to
    start: Floats  # [C]
    end: Floats  # [C]

    @classmethod
    def of(
        cls, tag_set: TagSet, decoder: Mapping[str, NDArray[Any]], temperature: float
    ) -> "NumpyHead":
        """A head of a decoder: ``weight`` [C', H] and so on, of which only its own C tags count."""
        tags = len(tag_set.tags)
        own = {n: value.astype(np.float64) / temperature for n, value in decoder.items()}
        first, follow, last = (_limit(some) for some in allowed(tag_set.tags, tag_set.scheme))
        if "transitions" in own:  # else each word has a softmax of its own
            follow = follow + own["transitions"][:tags, :tags]
            first, last = first + own["start"][:tags], last + own["end"][:tags]
        return cls(tag_set, own["weight"][:tags].T, own["bias"][:tags], follow, first, last)

    def decode(self, words: Floats, lengths: Ints) -> list[tuple[TagRun, float]]:
        """The mentions of some sentences, words [B, T, H] and lengths [B], and their scores."""
        scores = words @ self.weight + self.bias  # [B, T, C]
        runs = tag_runs(self._best_paths(scores, lengths)[None], [self.tag_set])
        return [*zip(runs, self._probabilities(scores, lengths, runs), strict=True)]

    def _best_paths(self, scores: Floats, lengths: Ints) -> Ints:
        """Viterbi: the best tags, 0 in the padding, [B, T]."""
        # delta_t(y) = max_x (delta_t-1(x) + A[x, y]) + e_t(y)
        best = self.start + scores[:, 0]  # [B, C]
        came = np.zeros(scores.shape, np.int64)
        stays = np.arange(len(self.bias))
        for t in range(1, scores.shape[1]):
            steps = best[:, :, None] + self.transitions  # [B, C, C]
            there = (t < lengths)[:, None]
            came[:, t] = np.where(there, steps.argmax(1), stays)
            best = np.where(there, steps.max(1) + scores[:, t], best)
        path = np.zeros(scores.shape[:2], np.int64)
        rows, tag = np.arange(len(scores)), (best + self.end).argmax(1)  # [B]
        for t in range(scores.shape[1] - 1, -1, -1):
            path[:, t] = np.where(t < lengths, tag, 0)
            tag = came[rows, t, tag]
        return path

    def _probabilities(self, scores: Floats, lengths: Ints, runs: Sequence[TagRun]) -> list[float]:
        """That the tokens of each run have its tags and that its span goes on at neither side."""
        if not runs:
            return []
        # Most sentences hold no span: only the others are gone through.
        rows = sorted({run.row for run in runs})
        place = {row: i for i, row in enumerate(rows)}
        scores, lengths = scores[rows], lengths[rows]
        scores = scores[:, : lengths.max()]
        before, behind, total = self._sweep(scores, lengths)
        goes_on = np.array(continues(self.tag_set.tags))  # [C, C]
        enter = np.where(goes_on, -np.inf, self.transitions)
        found = []
        for run in runs:
            row, (start, end, _), tags = place[run.row], run.span, np.array(run.tags)
            own = scores[row]
            value = own[np.arange(start, end), tags].sum()
            value += self.transitions[tags[:-1], tags[1:]].sum() - total[row]
            left, right = tags[0], tags[-1]
            value += (
                _log_sum(before[row, start - 1] + enter[:, left]) if start else self.start[left]
            )
            value += (
                _log_sum(enter[right] + own[end] + behind[row, end])
                if end < lengths[row]
                else self.end[right]
            )
            found.append(float(np.exp(value)))
        return found

    def _sweep(self, scores: Floats, lengths: Ints) -> tuple[Floats, Floats, Floats]:
        """Log sums over the paths up to each tag and onward from it, [B, T, C], and over all."""
        before, behind = np.empty_like(scores), np.empty_like(scores)
        before[:, 0] = self.start + scores[:, 0]
        behind[:, -1] = self.end
        for t in range(1, scores.shape[1]):
            on = _log_sum(before[:, t - 1, :, None] + self.transitions, 1) + scores[:, t]
            before[:, t] = np.where((t < lengths)[:, None], on, before[:, t - 1])
        for t in range(scores.shape[1] - 2, -1, -1):
            on = _log_sum(self.transitions + (scores[:, t + 1] + behind[:, t + 1])[:, None], 2)
            behind[:, t] = np.where((t + 1 < lengths)[:, None], on, self.end)
        return before, behind, _log_sum(before[:, -1] + self.end, 1)


def _limit(permitted: Any) -> Floats:
    return np.where(permitted, 0.0, -np.inf)


def _log_sum(values: Floats, axis: int = 0) -> Any:
    """The log of the sum of the exponentials; minus infinity where all are."""
    most = values.max(axis, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - most).sum(axis)) + most.squeeze(axis)


@dataclass(frozen=True, eq=False, repr=False)
class OnnxPredictor(TextTagger):
    """Finds what `Predictor` finds in the same folder; it only tags, on a CPU, and starts at once.

    Any number of threads may use it.
    """

    pieces: Pieces
    graph: GraphRunner
    heads: tuple[NumpyHead, ...]
    threads: int = field(default_factory=lambda: _threads())
    """That one call computes with."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """By label, the score that a mention must reach; of labels that are not named, 0."""

    def __post_init__(self) -> None:
        check_scores(self.thresholds.values(), "a threshold")
        own = {label: float(self.thresholds.get(label, 0.0)) for label in self.labels}
        object.__setattr__(self, "thresholds", own)  # as a frozen dataclass sets its fields

    @classmethod
    def load(cls, path: str | Path) -> "OnnxPredictor":
        """Read a folder that `hardner export --onnx` wrote."""
        folder = Path(path)
        if not folder.is_dir():
            raise FileError(folder, "no such model folder")
        try:
            return cls._load(folder)
        except OSError as error:
            message = f"cannot be read: {error.strerror or error}"
            raise FileError(error.filename or folder, message) from None

    @classmethod
    def _load(cls, folder: Path) -> "OnnxPredictor":
        manifest = checked_manifest(folder)
        config = manifest.config
        if not is_onnx_config(config):
            message = "no ONNX model; make one of it: hardner export --onnx OUT --model"
            raise FileError(folder, f"{message} {folder}")
        decoder = _read_decoder([folder / name for name in manifest.weights])
        try:
            encoder, temperatures = config["encoder"], config.get("temperatures", {})
            tokenizer = (folder / TOKENIZER).read_text("utf-8")
            pieces = read_pieces(encoder["pieces"], tokenizer, encoder.get("shift", 0))
            heads = []
            for i, given in enumerate(config["tag_sets"]):
                tag_set = make(TagSet, given, "tag_sets")
                own = {name: value[0, i] for name, value in decoder.items()}
                temperature = float(temperatures.get(tag_set.domain, 1.0))
                heads.append(NumpyHead.of(tag_set, own, temperature))
            graph = GraphRunner((folder / GRAPH).read_bytes())
            return cls(pieces, graph, tuple(heads), thresholds=config.get("thresholds", {}))
        except HardnerError as error:
            raise FileError(folder, str(error)) from None
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            message = f"damaged or newer than this hardner: {error!r:.200}"
            raise FileError(folder, message) from None

    def __repr__(self) -> str:
        return f"OnnxPredictor({', '.join(self.labels)})"

    @property
    def tag_sets(self) -> tuple[TagSet, ...]:
        return tuple(head.tag_set for head in self.heads)

    def _find(
        self, texts: Sequence[Tokens], heads: Sequence[int], size: int
    ) -> list[list[ScoredMention]]:
        found: list[list[ScoredMention]] = [[] for _ in texts]
        filled = [row for row, words in enumerate(texts) if words]
        if not filled or not heads:
            return found
        features = self.pieces.features([Sentence(tuple(texts[row])) for row in filled])
        lengths = np.array([len(texts[row]) for row in filled])
        widths = {n: np.array([*map(len, rows)]) for n, rows in features.streams.items()}
        groups = groups_of_streams(widths | {"words": lengths}, CPU_CELLS, size)

        def group(
            some: tuple[Ints, dict[str, int]],
        ) -> list[tuple[int, ScoredMention]]:
            rows, widths = some
            words = self._encode(features, rows, widths).astype(np.float64)
            return [
                (rows[run.row], ScoredMention(*run.span, round(score, SCORE_DIGITS), head))
                for head in heads
                for run, score in self.heads[head].decode(words, lengths[rows])
            ]

        for marks in self._map(group, groups):
            for row, mark in marks:
                found[filled[row]].append(mark)
        return found

    def _map(self, compute: Any, groups: Iterator[Any]) -> Iterator[Any]:
        if self.threads == 1:
            yield from map(compute, groups)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            yield from pool.map(compute, groups)

    def _encode(
        self, features: Features, rows: Ints, widths: Mapping[str, int]
    ) -> NDArray[np.float32]:
        """The vectors of the words of some sentences, [B, T, H]."""
        streams = features.streams
        pieces = _padded([streams["pieces"][row] for row in rows], widths["pieces"])
        limit = self.pieces.limit
        if pieces.shape[1] > limit:  # several windows, end to end
            pieces = np.pad(pieces, ((0, 0), (0, -pieces.shape[1] % limit)))
        starts = np.arange(len(rows))[:, None] * pieces.shape[1]  # [B, 1]
        places = _padded([streams["heads"][row] for row in rows], widths["heads"]) + starts
        windows = pieces.reshape(-1, min(limit, pieces.shape[1]))  # [W, P]
        return self.graph({PIECES: windows, PLACES: np.hstack((starts, places))})[:, 1:]


def is_onnx_config(config: Any) -> bool:
    """Whether a model folder's configuration is of an encoder that onnxruntime runs."""
    encoder = config.get("encoder") if isinstance(config, Mapping) else None
    return isinstance(encoder, Mapping) and encoder.get("kind") == "onnx"


def _threads() -> int:
    """As many as torch would take: what the environment says, else one for each core."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    if said.isdecimal() and int(said):
        return int(said)
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read_decoder(files: Sequence[Path]) -> dict[str, NDArray[Any]]:
    """The parameters of the heads, [1, D, ...], by their name within the decoder."""
    found: dict[str, NDArray[Any]] = {}
    for path in files:
        try:
            found |= load_file(path)
        except SafetensorError as error:
            raise FileError(path, f"damaged weights: {error}") from None
    own = {name.removeprefix("decoder."): value for name, value in found.items()}
    for name, value in own.items():
        if value.ndim < 3 or not np.isfinite(value).all():
            raise FileError(files[0], f"damaged: parameter {name} is none of a decoder's")
    return own


def _padded(rows: Sequence[Ints], width: int) -> Ints:
    """Rows of integers, padded with 0: [B, width]."""
    table = np.zeros((len(rows), width), np.int64)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table
