"""Trains an encoder to tag the mentions that `label.py` found, by decoders made from type names.

    python experiments/ontologies/train.py labelled experiments/encoder --fold Disease \
        --out runs/entities-disease --steps 6000 --minutes 9

Decoders are made by the package's label encoder of what the encoder says of a type's name and
definition, so that types of all ontologies are learnt together, and a new type's decoder can be
made from its name alone. Of a sentence, words inside mentions and words that are never part of a
name are learnt from; the others may be mentions that no ontology lists. Masked language modelling
goes on beside it.

The same command goes on where it was stopped, on another machine too: OUT/state holds it all, in
half precision and files below 16 MiB. OUT/model is the encoder with its label encoder.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from rich.progress import Progress
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from hardner import files
from hardner.batch import Store
from hardner.checkpoint import load_checkpoint
from hardner.errors import HardnerError
from hardner.features import Pieces
from hardner.jobs import MODEL_FOLDER, RunFolder, SavedState, open_run_folder
from hardner.manifest import CONFIG
from hardner.meta.optim import Muon
from hardner.model.label_encoder import LabelEncoder, label_loss, label_scores, label_sentence
from hardner.model.layers import SCORING, Params, autocast, prefixed, scoped
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder, Transformer
from hardner.pretrain.masked import Pretraining, masked_batch, masked_loss
from hardner.pretrain.run import save_encoder
from hardner.pretrain.text import SPECIAL, continuing, load_tokenizer
from hardner.schemes import TagSet
from hardner.types import seed_of

CLS, SEP = SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]")
_LONGEST_NAME = 16
"""Words of a mention, at most."""
_OUTSIDE = Path(__file__).with_name("function_words.txt")
"""Words that are never a mention by themselves."""
_DEFINITION = 20
"""Words of a definition that are read."""
_SHARD_BYTES = 16_500_000
"""Of a file of the state; with its header it stays below 16 MiB."""


@dataclass(frozen=True)
class EntityTraining:
    """Hyper-parameters."""

    steps: int = 6000
    rows: int = 512
    """Sentences a step."""
    width: int = 64
    """Subwords of a sentence; longer ones are left out."""
    types: int = 64
    """Types a step, drawn from those of its mentions."""
    rate: float = 1e-3
    masked: int = 128
    """Blocks of masked language modelling a step; 0 for none."""
    every: int = 200
    """Steps between two states; at each, all numbers are rounded to what it holds."""
    seed: int = 0


class LabelledText(NamedTuple):
    """What `label.py` wrote of one fold, on a device."""

    ids: Tensor  # int16, all subwords end to end
    starts: Tensor  # [sentences + 1]
    mentions: Tensor  # [mentions, 4]: sentence, first word, last word + 1, name
    first: Tensor  # [sentences + 1]: where each sentence's mentions begin
    has: Tensor  # bool [names, types]


class Targets(NamedTuple):
    """What a batch teaches."""

    pieces: Tensor  # [N, P]
    places: Tensor  # [N, W]: the first subword of each word
    name: Tensor  # [N, W]: the name that a word is part of, or -1
    begins: Tensor  # bool [N, W]
    outside: Tensor  # bool [N, W]: words that are certainly outside of any mention


def load_labelled(
    folder: Path, fold: str, device: str, width: int
) -> tuple[LabelledText, Tensor, list[dict[str, str]]]:
    """The text of a fold, the rows of the sentences that fit and hold a mention, and the types."""
    ids = torch.from_numpy(np.load(folder / "ids.npy", allow_pickle=False).view("<i2"))
    starts = torch.from_numpy(np.load(folder / "starts.npy", allow_pickle=False).astype("<i8"))
    found = np.load(folder / f"mentions-{fold}.npy", allow_pickle=False)
    columns = [torch.from_numpy(found[name].astype("<i8")) for name in found.dtype.names]
    mentions = torch.stack(columns, dim=1)
    first = torch.searchsorted(mentions[:, 0].contiguous(), torch.arange(len(starts)))
    types = json.loads((folder / f"types-{fold}.json").read_text("utf-8"))
    with np.load(folder / f"names-{fold}.npz", allow_pickle=False) as rows:
        lengths = torch.from_numpy(np.diff(rows["starts"].astype("<i8")))
        numbers = torch.from_numpy(rows["types"].astype("<i8"))
    has = torch.zeros(len(lengths), len(types), dtype=torch.bool)
    has[torch.arange(len(lengths)).repeat_interleave(lengths), numbers] = True
    text = LabelledText(ids, starts, mentions, first, has)
    fits = (starts.diff() <= width - 2) & (first.diff() > 0)
    return LabelledText(*(part.to(device) for part in text)), fits.nonzero()[:, 0].to(device), types


def type_texts(tagger: Tagger, types: Sequence[dict[str, str]], device: str) -> Store:
    """The names of the types, then the names with their definitions."""
    short = [label_sentence(t["name"]) for t in types]
    meant = (" ".join(t["definition"].split()[:_DEFINITION]) for t in types)
    full = [label_sentence(t["name"], text) for t, text in zip(types, meant, strict=True)]
    return tagger.store([*short, *full], device=device)


def function_words(tokenizer: Tokenizer) -> Tensor:
    """Which subwords are words that are never a mention by themselves: bool [V]."""
    known, pieces = frozenset(_OUTSIDE.read_text("utf-8").split()), tokenizer.get_vocab()
    return torch.tensor([p.lower() in known for p in sorted(pieces, key=pieces.__getitem__)])


def targets(text: LabelledText, rows: Tensor, inside: Tensor, never: Tensor, width: int) -> Targets:
    """The batch of some sentences: rows [N], inside and never [V]."""
    starts, lengths = text.starts[rows], text.starts[rows + 1] - text.starts[rows]
    span = torch.arange(width - 2, device=rows.device)
    there = span < lengths.unsqueeze(1)  # [N, P - 2]
    flat = (starts.unsqueeze(1) + span).clamp(max=len(text.ids) - 1)
    words = torch.where(there, text.ids[flat].long() & 0xFFFF, 0)
    pieces = functional.pad(words, (1, 1))  # [N, P]
    pieces[:, 0] = CLS
    pieces.scatter_(1, lengths.unsqueeze(1) + 1, SEP)
    begins = there & ~inside[words]
    number = begins.long().cumsum(1) - 1  # [N, P - 2]
    places = torch.zeros(len(rows), width - 1, dtype=torch.long, device=rows.device)
    places.scatter_(1, torch.where(begins, number, width - 2), span.expand_as(number) + 1)
    places = places[:, :-1]  # [N, W]; the last column took what begins no word
    real = torch.arange(width - 2, device=rows.device) < begins.sum(1, keepdim=True)
    # The mentions of the batch, end to end.
    many = text.first[rows + 1] - text.first[rows]
    owner = torch.arange(len(rows), device=rows.device).repeat_interleave(many)
    within = torch.arange(len(owner), device=rows.device) - (many.cumsum(0) - many)[owner]
    _, start, end, name = text.mentions[text.first[rows][owner] + within].unbind(1)
    offset = torch.arange(_LONGEST_NAME, device=rows.device)
    covered = offset < (end - start).unsqueeze(1)  # [mentions, longest]
    row = owner.unsqueeze(1).expand_as(covered)[covered]
    word = (start.unsqueeze(1) + offset)[covered]
    names = torch.full(places.shape, -1, device=rows.device)
    names[row, word] = name.unsqueeze(1).expand_as(covered)[covered]
    opens = torch.zeros_like(names, dtype=torch.bool)
    opens[owner, start] = True
    outside = real & (names < 0) & never[pieces.gather(1, places)]
    return Targets(pieces, places, names, opens, outside)


def entity_loss(
    transformer: Transformer, params: Params, batch: Targets, decoders: Params, has: Tensor
) -> Tensor:
    """Mean loss of words of a type and of words of none: decoders [1, T, 3, ...], has [names, T].

    A word of a mention is none of the types that its name has not; what is neither in a mention
    nor certainly outside of any is not known, and teaches nothing.
    """
    vectors = transformer(scoped(params, "encoder"), batch.pieces.unsqueeze(0), SCORING)[0]
    place = batch.places.unsqueeze(-1).expand(-1, -1, vectors.shape[-1])
    words = vectors.gather(1, place).unsqueeze(0)  # [1, N, W, D]
    inside = batch.name >= 0
    own = has[batch.name.clamp(min=0)] & inside.unsqueeze(-1)  # [N, W, T]
    other = (inside.unsqueeze(-1) & ~own) | batch.outside.unsqueeze(-1)
    gold = torch.where(own, torch.where(batch.begins, 1, 2).unsqueeze(-1), 0).unsqueeze(0)
    scores = label_scores(words, decoders)
    return (label_loss(scores, gold, own[None]) + label_loss(scores, gold, other[None]))[0]


def draw_types(text: LabelledText, batch: Targets, many: int, rng: torch.Generator) -> Tensor:
    """Types of the batch's mentions, [at most ``many``]."""
    names = batch.name[batch.begins & (batch.name >= 0)]
    shown = text.has[names].any(0).nonzero()[:, 0]
    order = torch.randperm(len(shown), generator=rng, device=shown.device)
    return shown[order[:many]]


class _Run:
    """A training in a folder, from where its state stands."""

    def __init__(self, given: argparse.Namespace, how: EntityTraining, folder: RunFolder) -> None:
        self.given, self.how, self.folder = given, how, folder
        self.device = device = "cuda" if torch.cuda.is_available() else "cpu"
        self.start = load_checkpoint(given.encoder)
        self.tokenizer = load_tokenizer(given.encoder / "tokenizer.json")
        self.transformer = transformer = Transformer(**self.start.config["transformer"])
        self.labels = LabelEncoder(transformer.size)
        encoder = PieceEncoder(transformer, Pieces.by(self.tokenizer))
        tag_set = TagSet("any", ("any",), self.labels.scheme)
        self.tagger = Tagger(encoder, (tag_set,), "softmax", label_encoder=self.labels)
        fresh = self.labels.init(torch.Generator().manual_seed(how.seed))
        params = prefixed("labels", fresh) | {n: t.float() for n, t in self.start.tensors.items()}
        if not how.masked:
            params = {n: p for n, p in params.items() if not n.startswith("guess.")}
        self.optimizer = Muon({n: p.to(device) for n, p in params.items()}, weight_decay=0.01)
        if saved := folder.load_state(self._state(), device):
            steps = int(saved.about["step"])
            self.optimizer = Muon(saved.params, 0.01, saved.optimizer, steps)

    def _state(self) -> SavedState:
        about = {"step": self.optimizer.steps}
        return SavedState(self.optimizer.params, self.optimizer.state, about)

    def go(self) -> bool:
        """Train to the end, or for so many minutes; says whether it has ended."""
        given, how, optimizer, transformer = self.given, self.how, self.optimizer, self.transformer
        device, until = self.device, time.monotonic() + 60 * given.minutes
        inside = continuing(self.tokenizer).to(device)
        text, rows, types = load_labelled(given.labelled, given.fold, device, how.width)
        texts = type_texts(self.tagger, types, device)
        widths = texts.widths(np.arange(2 * len(types)))
        never = function_words(self.tokenizer).to(device)
        block = min(256, len(text.ids))
        masked = Pretraining(how.steps, how.masked, block, how.rate, how.steps // 20, seed=how.seed)
        entity = torch.compile(entity_loss, dynamic=True) if device == "cuda" else entity_loss
        guess = torch.compile(masked_loss) if device == "cuda" else masked_loss
        turn = transformer.rotation(masked.width, optimizer.params["encoder.pieces"])
        seen: list[Tensor] = []
        with Progress() as bar:
            task = bar.add_task("training", total=how.steps, completed=optimizer.steps)
            while (step := optimizer.steps) < how.steps:
                draw = torch.Generator(device=device).manual_seed(seed_of(how.seed, step, "rows"))
                chosen = rows[torch.randint(len(rows), (how.rows,), generator=draw, device=device)]
                batch = targets(text, chosen, inside, never, how.width)
                drawn = draw_types(text, batch, how.types, draw)
                defined = torch.rand(drawn.shape, generator=draw, device=device) < 0.5
                told = texts.batch((drawn + len(types) * defined).unsqueeze(0), widths)
                with autocast("bfloat16", torch.device(device)):
                    decoders = self.tagger.decoders_of(optimizer.params, told)
                    has = text.has[:, drawn]
                    loss = total = entity(transformer, optimizer.params, batch, decoders, has)
                    if how.masked:
                        hidden = masked_batch(text.ids, inside, masked, step)
                        total = loss + guess(transformer, optimizer.params, *hidden, turn)
                grads = torch.autograd.grad(total, list(optimizer.params.values()))
                named = dict(zip(optimizer.params, grads, strict=True))
                optimizer.step(named, masked.rate_at(step))
                seen.append(loss.detach())
                done = step + 1
                if done % how.every == 0 or done == how.steps:
                    mean = torch.stack(seen).mean().item()
                    bar.update(task, completed=done, description=f"loss {mean:.3f}")
                    print(json.dumps({"step": done, "loss": round(mean, 4)}), flush=True)
                    seen = []
                    optimizer.round_to_half()
                    self.folder.save_state(self._state(), optimizer.half_types(), _SHARD_BYTES)
                    if time.monotonic() > until and done < how.steps:
                        return False
        about = {
            "pretraining": self.start.config.get("pretraining"),
            "entities": asdict(how) | {"fold": given.fold},
            "label_encoder": asdict(self.labels),
        }
        path = self.folder.path / MODEL_FOLDER
        save_encoder(path, transformer, optimizer.params, self.tokenizer, about)
        return True


def train(given: argparse.Namespace, how: EntityTraining) -> bool:
    """Train in a folder from an encoder's, and write one of the same kind; whether it is done."""
    read = ("ids.npy", f"mentions-{given.fold}.npy", f"types-{given.fold}.json")
    for path in (given.labelled / name for name in read):
        if not path.is_file():
            raise HardnerError(f"{path}: no such file; label.py writes it")
    sums = "".join(files.sha256(given.labelled / name) for name in read)
    settings = asdict(how) | {
        "fold": given.fold,
        "text": sha256(sums.encode()).hexdigest()[:16],
        "start": files.sha256(given.encoder / CONFIG)[:16],
    }
    with open_run_folder(given.out, "training.json", settings) as folder:
        return _Run(given, how, folder).go()


def main() -> None:
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("labelled", type=Path, help="what label.py wrote")
    parser.add_argument("encoder", type=Path, help="the encoder to start from")
    parser.add_argument("--fold", default="all", help="the domain that is left out")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop at the next state then")
    defaults = EntityTraining()
    for name, value in asdict(defaults).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    given = parser.parse_args()
    how = EntityTraining(**{name: getattr(given, name) for name in asdict(defaults)})
    if not train(given, how):
        print(f"{given.out}/state holds it; the same command goes on")


if __name__ == "__main__":
    main()
