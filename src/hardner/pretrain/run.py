"""Pre-training from text files to a folder, in as many sittings as it takes.

The folder holds ``pretraining.json``, what the run is; ``tokenizer.json``; ``pieces.npy``, the
text; ``state``, all that is needed to go on; and, at the end, ``model``. Each is written whole or
not at all, and every random choice depends on the step it is for, so that a run that was killed at
any moment and started again ends as if nothing had happened.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer

from hardner import checkpoint
from hardner.errors import FileError, HardnerError
from hardner.files import atomic_write
from hardner.jobs.device import resolve_device
from hardner.model.layers import Params, prefixed, scoped
from hardner.model.transformer import Transformer
from hardner.pretrain.folder import claimed
from hardner.pretrain.masked import Pretraining, init, pretrain_steps
from hardner.pretrain.muon import Muon
from hardner.pretrain.pieces import EncodedText, pieces_of
from hardner.pretrain.progress import Meter, PretrainingCallback, PretrainingProgress
from hardner.pretrain.text import PlainText, held_out, short_hash
from hardner.pretrain.tokenizer import (
    LARGEST,
    SPECIAL,
    continuing,
    load_tokenizer,
    train_tokenizer,
)

TOKENIZER, STATE, MODEL = "tokenizer.json", "state", "model"
SHARD = 15_000_000
"""Bytes of numbers in a weight file of the model: it stays below 16 MiB with its header."""


@dataclass(frozen=True)
class PretrainingPlan:
    """What the run is, but for its text."""

    tokenizer: Path | None = None
    """By default one is learnt from the text."""
    vocabulary: int = 28_000
    """Pieces to learn, where no tokenizer is given."""
    size: int = 384
    layers: int = 6
    heads: int = 6
    inner: int = 1536
    training: Pretraining = field(default_factory=Pretraining)
    start: Path | None = None
    """The model of an earlier run to go on from; what it lacks or has in another shape is fresh."""

    def __post_init__(self) -> None:
        if not len(SPECIAL) < self.vocabulary <= LARGEST:
            raise HardnerError(f"a vocabulary of {self.vocabulary:,}; it can have {LARGEST:,}")
        self.transformer(self.vocabulary)

    def transformer(self, vocabulary: int) -> Transformer:
        """The network for so many pieces."""
        return Transformer(vocabulary, self.size, self.layers, self.heads, self.inner)

    def settings(self) -> dict[str, Any]:
        """All that decides how the run ends, by name; a given tokenizer by its hash."""
        own = asdict(self)
        own |= own.pop("training")
        own["start"] = short_hash(_description(self.start)) if self.start else ""
        if self.tokenizer:
            own["tokenizer"] = short_hash(load_tokenizer(self.tokenizer).to_str().encode())
            del own["vocabulary"]
        return own


def _description(model: Path) -> bytes:
    try:
        return (model / "config.json").read_bytes()
    except OSError:
        raise FileError(model, "holds no model of an earlier run") from None


class PretrainingStatus(NamedTuple):
    """How far a run has come."""

    step: int
    finished: bool
    left_out: int
    """Lines of the text that were not to enter."""


def run_pretraining(
    texts: Sequence[str | Path],
    folder: str | Path,
    plan: PretrainingPlan,
    *,
    without: str | Path | None = None,
    device: str = "auto",
    every: int = 1000,
    on_progress: PretrainingCallback = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> PretrainingStatus:
    """Pre-train to the end, or until told to stop, which leaves a state to go on from.

    Args:
        texts: Files with a sentence a line, plain, .gz or .xz.
        folder: New, or that of the same run.
        plan: What to do.
        without: A folder of known corpora, whose devel and test sentences never enter.
        device: auto, cpu or cuda.
        every: Steps between two states.
        heard: Told how it goes.
        stop: Asked after each step.
    """
    folder, where = Path(folder), resolve_device(device)
    on_progress(PretrainingProgress("reading the text"))
    text = PlainText(map(Path, texts), held_out(Path(without)) if without else frozenset())
    identity = text.identity()
    with claimed(folder, {**plan.settings(), **identity}):
        tokenizer = _tokenizer(plan, text, folder, on_progress)
        on_progress(PretrainingProgress("encoding the text"))
        encoded = pieces_of(text, identity, tokenizer, folder)
        return _Run(plan, folder, tokenizer, encoded, where, on_progress).go(every, stop)


def _tokenizer(
    plan: PretrainingPlan, text: PlainText, folder: Path, on_progress: PretrainingCallback
) -> Tokenizer:
    """That of the folder; put there if there is none yet."""
    path = folder / TOKENIZER
    if not path.is_file():
        on_progress(PretrainingProgress("learning the tokenizer"))
        tokenizer = (
            load_tokenizer(plan.tokenizer)
            if plan.tokenizer
            else train_tokenizer(text, plan.vocabulary)
        )
        with atomic_write(path) as file:
            file.write(tokenizer.to_str())
    return load_tokenizer(path)


class _Run:
    def __init__(
        self,
        plan: PretrainingPlan,
        folder: Path,
        tokenizer: Tokenizer,
        encoded: EncodedText,
        device: str,
        on_progress: PretrainingCallback,
    ) -> None:
        self.training, self.folder, self.on_progress = plan.training, folder, on_progress
        self.start = plan.start
        self.tokenizer, self.encoded, self.device = tokenizer, encoded, device
        self.transformer = plan.transformer(tokenizer.get_vocab_size())
        self.history: list[dict[str, float]] = []
        self.optimizer = self._begin()
        self.told, self.saved = Meter(), Meter()

    def _begin(self) -> Muon:
        """From the state in the folder, if there is one, else from the very beginning."""
        decay = self.training.weight_decay
        if not (self.folder / STATE).is_dir():
            fresh = init(self.transformer, torch.Generator().manual_seed(self.training.seed))
            known = checkpoint.load_checkpoint(self.start).tensors if self.start else {}
            fit = {n: t for n, t in known.items() if n in fresh and t.shape == fresh[n].shape}
            params = {n: p.to(self.device) for n, p in (fresh | fit).items()}
            return Muon(params, decay, late=fit)
        found = checkpoint.load_checkpoint(self.folder / STATE)
        self.history = list(found.config["history"])
        tensors = {n: t.to(self.device) for n, t in found.tensors.items()}
        own = scoped(tensors, "params"), decay, scoped(tensors, "state")
        return Muon(*own, found.config["step"], found.config["late"])

    def go(self, every: int, stop: Callable[[], bool]) -> PretrainingStatus:
        """Step to the end."""
        steps = self.training.steps
        for _ in self._steps():
            done, halting = self.optimizer.steps, stop()
            if halting or done == steps or done % every == 0:
                self._save()
            elif self.told.due:
                self._tell(*self._read(self.told))
            if halting:
                break
        finished = self.optimizer.steps == steps
        if finished:
            about: dict[str, Any] = {"pretraining": asdict(self.training), "history": self.history}
            about |= {"lines": self.encoded.lines, "left_out": self.encoded.left_out}
            params = self.optimizer.params
            save_encoder(self.folder / MODEL, self.transformer, params, self.tokenizer, about)
        return PretrainingStatus(self.optimizer.steps, finished, self.encoded.left_out)

    def _steps(self) -> Iterator[None]:
        pieces = torch.from_numpy(self.encoded.pieces.view("<i2")).to(self.device)
        inside = continuing(self.tokenizer).to(self.device)
        size = self.training.rows * self.training.width
        self._tell()
        for loss in pretrain_steps(self.transformer, self.optimizer, pieces, inside, self.training):
            self.told.add(size, loss)
            self.saved.add(size, loss)
            yield

    def _read(self, meter: Meter) -> tuple[float, float]:
        """The mean loss, and pieces a second."""
        loss, speed = meter.read()
        if not isfinite(loss):
            step = self.optimizer.steps
            raise FileError(self.folder, f"the loss is no number at step {step}; lower the rate")
        return loss, speed

    def _save(self) -> None:
        """Leave a state to go on from."""
        step = self.optimizer.steps
        loss, speed = self._read(self.saved)
        self.history.append({"step": step, "loss": loss, "pieces_per_second": round(speed)})
        params, state = prefixed("params", self.optimizer.params), self.optimizer.state
        tensors = {**params, **prefixed("state", state)}
        late = sorted(self.optimizer.late)
        about = {"step": step, "history": self.history, "late": late}
        checkpoint.save_checkpoint(self.folder / STATE, tensors, about)
        self.told.read()
        self._tell(loss, speed, saved=True)

    def _tell(self, loss: float | None = None, speed: float = 0.0, saved: bool = False) -> None:
        step, steps = self.optimizer.steps, self.training.steps
        self.on_progress(PretrainingProgress("", step, steps, loss, speed, milestone=saved))


def save_encoder(
    folder: Path,
    transformer: Transformer,
    params: Params,
    tokenizer: Tokenizer,
    about: Mapping[str, Any],
) -> None:
    """The model folder that training starts from: half precision, no file above 16 MiB."""
    checkpoint.save_checkpoint(
        folder,
        params,
        {"transformer": asdict(transformer), **about},
        {TOKENIZER: tokenizer.to_str()},
        shard_bytes=SHARD,
        dtype=torch.float16,
    )
