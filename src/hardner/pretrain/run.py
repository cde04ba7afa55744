"""Pre-training from text files to a model folder, in as many sessions as it takes.

Beside ``state`` and, at the end, ``model``, the folder holds ``pretraining.json``, the settings;
``tokenizer.json``; and ``pieces.npy``, the text as subword ids, so that it can go on on a machine
that lacks the text. Every random choice depends on the step it is for, so a run that was killed and
started again ends as if nothing had happened.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer

from hardner import checkpoint
from hardner.errors import FileError, HardnerError
from hardner.features import TOKENIZER
from hardner.files import atomic_write
from hardner.jobs import (
    MODEL_FOLDER,
    Diverged,
    Meter,
    ProgressCallback,
    RunFolder,
    RunProgress,
    SavedState,
    open_run_folder,
)
from hardner.manifest import CONFIG
from hardner.meta.optim import Muon
from hardner.model.layers import Params, resolve_device
from hardner.model.transformer import Transformer
from hardner.pretrain.masked import Pretraining, init_masked, pretrain_steps
from hardner.pretrain.text import (
    LARGEST_VOCABULARY,
    SPECIAL,
    EncodedText,
    PlainText,
    continuing,
    encoded_identity,
    held_out,
    load_encoded,
    load_tokenizer,
    short_hash,
    train_tokenizer,
)

_SETTINGS = "pretraining.json"
_SHARD_BYTES = 15_000_000
"""Of a weight file of the model or the state, which stays below 16 MiB with its header."""
_NEWER = ("schedule", "cooldown", "half_state")
"""Settings that version 0.1.0 did not write; by default all was as it was then."""


@dataclass(frozen=True)
class PretrainingPlan:
    """All that a run depends on but its text."""

    tokenizer: Path | None = None
    """By default one is trained on the text."""
    vocabulary: int = 28_000
    """Subwords of a tokenizer that is trained."""
    size: int = 384
    layers: int = 6
    heads: int = 6
    inner: int = 1536
    training: Pretraining = field(default_factory=Pretraining)
    start: Path | None = None
    """Model of an earlier run to go on from; tensors it lacks or has in another shape are new."""

    def __post_init__(self) -> None:
        if not len(SPECIAL) < self.vocabulary <= LARGEST_VOCABULARY:
            most = f"{LARGEST_VOCABULARY:,}"
            raise HardnerError(f"a vocabulary of {self.vocabulary:,}; it can have {most}")
        self.transformer(self.vocabulary)

    def transformer(self, vocabulary: int) -> Transformer:
        return Transformer(vocabulary, self.size, self.layers, self.heads, self.inner)

    def settings(self, every: int) -> dict[str, Any]:
        """All that decides how the run ends, by name; given files by their hashes.

        With the schedule ``wsd`` the end itself is not among them.
        """
        own = asdict(self)
        own |= own.pop("training")
        usual = asdict(Pretraining())
        own = {n: v for n, v in own.items() if n not in _NEWER or v != usual[n]}
        if self.training.schedule == "wsd":
            own = {n: v for n, v in own.items() if n not in ("steps", "cooldown")}
        if self.training.half_state:
            own["every"] = every
        own["start"] = ""
        if self.start:
            try:
                own["start"] = short_hash((self.start / CONFIG).read_bytes())
            except OSError:
                raise FileError(self.start, "holds no model of an earlier run") from None
        if self.tokenizer:
            own["tokenizer"] = short_hash(load_tokenizer(self.tokenizer).to_str().encode())
            del own["vocabulary"]
        return own


class PretrainingStatus(NamedTuple):
    """How far a run has come."""

    step: int
    finished: bool
    left_out: int
    """Lines of the text that were left out."""


def run_pretraining(
    texts: Sequence[str | Path],
    folder: str | Path,
    plan: PretrainingPlan,
    *,
    without: str | Path | None = None,
    device: str = "auto",
    every: int = 1000,
    on_progress: ProgressCallback = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> PretrainingStatus:
    """Pre-train to the end, or until told to ``stop``, which leaves a state to go on from.

    The texts are files with a sentence a line, and the folder is new, or that of the same run; a
    run that has encoded its text goes on without any. Lines equal to a devel or test sentence of
    the corpora in the folder ``without`` are left out; a state is saved after ``every`` so many
    steps.
    """
    device = resolve_device(device)
    on_progress(RunProgress("reading the text"))
    text = PlainText(map(Path, texts), held_out(without))
    identity = text.identity() if texts else encoded_identity(Path(folder))
    with open_run_folder(Path(folder), _SETTINGS, {**plan.settings(every), **identity}) as held:
        path = held.path / TOKENIZER
        if not path.is_file():  # the first session
            on_progress(RunProgress("learning the tokenizer"))
            given = load_tokenizer(plan.tokenizer) if plan.tokenizer else None
            with atomic_write(path) as file:
                file.write((given or train_tokenizer(text, plan.vocabulary)).to_str())
        tokenizer = load_tokenizer(path)
        on_progress(RunProgress("encoding the text"))
        encoded = load_encoded(text, identity, tokenizer, held.path)
        return _Run(plan, held, tokenizer, encoded, device, on_progress).go(every, stop)


@dataclass
class _Run:
    plan: PretrainingPlan
    folder: RunFolder
    tokenizer: Tokenizer
    encoded: EncodedText
    device: str
    on_progress: ProgressCallback

    def __post_init__(self) -> None:
        """Begin with the state in the folder, if there is one, else from the very beginning."""
        self.training, start = self.plan.training, self.plan.start
        self.transformer = self.plan.transformer(self.tokenizer.get_vocab_size())
        self.since_report, self.since_state = Meter(), Meter()
        self.history: list[dict[str, Any]] = []
        decay = self.training.weight_decay
        fresh = init_masked(self.transformer, torch.Generator().manual_seed(self.training.seed))
        known = checkpoint.load_checkpoint(start).tensors if start else {}
        fit = {n: t for n, t in known.items() if n in fresh and t.shape == fresh[n].shape}
        params = {n: p.to(self.device) for n, p in (fresh | fit).items()}
        self.optimizer = Muon(params, decay, late=fit)
        if saved := self.folder.load_state(self._state(), self.device):
            self._check_end(saved.about["step"], saved.about.get("end", []))
            self.history = list(saved.about["history"])
            match self.history:
                case [*earlier, {"counted": [float(total), int(count)]}]:
                    self.history = earlier
                    self.since_state.go_on(total, count)
            step, late = saved.about["step"], saved.about["late"]
            self.optimizer = Muon(saved.params, decay, saved.optimizer, step, late)

    def _state(self) -> SavedState:
        optimizer = self.optimizer
        about = {"step": optimizer.steps, "history": self.history, "late": sorted(optimizer.late)}
        training = self.training
        if training.schedule == "wsd":
            cooling = optimizer.steps > training.stable_until
            about["end"] = [training.steps, training.cooldown] if cooling else []
        return SavedState(optimizer.params, optimizer.state, about)

    def _check_end(self, step: int, end: list[int]) -> None:
        """Refuse a ``wsd`` run whose rate would have had to fall differently by now."""
        training = self.training
        if training.schedule != "wsd" or end == [training.steps, training.cooldown]:
            return
        match end:
            case []:
                if step <= training.stable_until:
                    return
                why = (
                    f"{step:,} steps are done, so that {training.steps:,} steps with a cooldown "
                    f"of {training.cooldown:,} cannot be reached any more; take more steps"
                )
            case [int(steps), int(cooldown)]:
                why = (
                    f"the rate has been falling since step {steps - cooldown:,}; go on with "
                    f"{steps:,} steps and a cooldown of {cooldown:,}"
                )
            case _:
                why = "its state is damaged; delete it to begin again"
        raise FileError(self.folder.path, why)

    def _save_state(self, due: bool) -> None:
        """Save the state; one that was due is rounded first where the run wants that."""
        state, types = self._state(), None
        if due and self.training.half_state:
            self.optimizer.round_to_half()
            types = self.optimizer.half_types()
        self.folder.save_state(state, types, _SHARD_BYTES)

    def go(self, every: int, stop: Callable[[], bool]) -> PretrainingStatus:
        """Step to the end, then write the model."""
        try:
            self._iterate(every, stop)
        except Diverged as error:
            message = f"{error} at step {self.optimizer.steps}; lower the rate"
            raise FileError(self.folder.path, message) from None
        finished = self.optimizer.steps == self.training.steps
        if finished:
            about: dict[str, Any] = {"pretraining": asdict(self.training), "history": self.history}
            about |= {"lines": self.encoded.lines, "left_out": self.encoded.left_out}
            model = self.folder.path / MODEL_FOLDER
            save_encoder(model, self.transformer, self.optimizer.params, self.tokenizer, about)
        return PretrainingStatus(self.optimizer.steps, finished, self.encoded.left_out)

    def _iterate(self, every: int, stop: Callable[[], bool]) -> None:
        ids = torch.from_numpy(self.encoded.ids.view("<i2")).to(self.device)
        inside = continuing(self.tokenizer).to(self.device)
        size, steps = self.training.rows * self.training.width, self.training.steps
        self._report()
        for loss in pretrain_steps(self.transformer, self.optimizer, ids, inside, self.training):
            for meter in (self.since_report, self.since_state):
                meter.add(size, loss)
            done, halting = self.optimizer.steps, stop()
            due = done % every == 0
            whole = done == steps or due
            if halting or whole:
                counted = self.since_state.counted
                loss_now, speed = _finite(self.since_state)
                told = {"step": done, "loss": loss_now, "pieces_per_second": round(speed)}
                # A stop between two states leaves the sum, for the next session to go on with.
                self.history.append(told if whole else {"counted": counted})
                self._save_state(due)
                self.since_report.read()
                self._report(loss_now, speed, milestone=True)
            elif self.since_report.due:
                self._report(*_finite(self.since_report))
            if halting:
                return

    def _report(
        self, loss: float | None = None, speed: float = 0.0, milestone: bool = False
    ) -> None:
        done, total = self.optimizer.steps, self.training.steps
        self.on_progress(RunProgress("", done, total, loss, None, speed, milestone))


def _finite(meter: Meter) -> tuple[float, float]:
    """The mean loss and subwords a second."""
    loss, speed = meter.read()
    if not isfinite(loss):
        raise Diverged("the loss is not finite")
    return loss, speed


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
        shard_bytes=_SHARD_BYTES,
        dtype=torch.float16,
    )
