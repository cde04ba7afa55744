"""Trains an encoder to tag the mentions that `label.py` found, by decoders made from type names.

    python experiments/ontologies/train.py labelled experiments/encoder --fold Disease \
        --out runs/entities-disease --steps 6000

A type's decoder is a linear map of what the encoder says of its name and definition, so that types
of all ontologies are learnt together, and a new type's decoder can be made from its name alone.
Of a sentence, words inside mentions and words that are never part of a name are learnt from; the
others may be mentions that no ontology lists. Masked language modelling goes on beside it.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from rich.progress import Progress
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from hardner.checkpoint import load_checkpoint
from hardner.episodes import seed_of
from hardner.meta.optim import Muon
from hardner.model.layers import SCORING, Params, autocast, init_linear, linear, prefixed, scoped
from hardner.model.transformer import Transformer
from hardner.pretrain.masked import Pretraining, masked_batch, masked_loss
from hardner.pretrain.run import save_encoder
from hardner.pretrain.text import SPECIAL, continuing, load_tokenizer

CLS, SEP = SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]")
_LONGEST_NAME = 16
"""Words of a mention, at most."""
_OUTSIDE = Path(__file__).with_name("function_words.txt")
"""Words that are never a mention by themselves."""
_DESCRIPTION = 32
"""Subwords of a type's name and definition."""


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
    seed: int = 0


class LabelledText(NamedTuple):
    """What `label.py` wrote of one fold, on a device."""

    ids: Tensor  # int16, all subwords end to end
    starts: Tensor  # [sentences + 1]
    mentions: Tensor  # [mentions, 4]: sentence, first word, last word + 1, name
    first: Tensor  # [sentences + 1]: where each sentence's mentions begin
    has: Tensor  # bool [names, types]
    descriptions: Tensor  # [types, subwords], 0 for padding
    names: Tensor  # [types, subwords]: the name without its definition


class Targets(NamedTuple):
    """What a batch teaches."""

    pieces: Tensor  # [N, P]
    places: Tensor  # [N, W]: the first subword of each word
    name: Tensor  # [N, W]: the name that a word is part of, or -1
    begins: Tensor  # bool [N, W]
    outside: Tensor  # bool [N, W]: words that are certainly outside of any mention


def load_labelled(
    folder: Path, fold: str, tokenizer: Tokenizer, device: str, width: int
) -> tuple[LabelledText, Tensor]:
    """The text of a fold, and the rows of the sentences that fit and hold a mention."""
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
    full = [f"{t['name'].replace('_', ' ')}: {t['definition']}" for t in types]
    short = [t["name"].replace("_", " ") for t in types]
    text = LabelledText(
        ids, starts, mentions, first, has, encode(full, tokenizer), encode(short, tokenizer)
    )
    fits = (starts.diff() <= width - 2) & (first.diff() > 0)
    return LabelledText(*(part.to(device) for part in text)), fits.nonzero()[:, 0].to(device)


def encode(texts: Sequence[str], tokenizer: Tokenizer) -> Tensor:
    """Subwords between [CLS] and [SEP], [texts, longest]."""
    rows = [[CLS, *row.ids[: _DESCRIPTION - 2], SEP] for row in tokenizer.encode_batch(list(texts))]
    found = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for row, pieces in zip(found, rows, strict=True):
        row[: len(pieces)] = torch.tensor(pieces)
    return found


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


def init_heads(size: int, rng: torch.Generator) -> Params:
    """What turns a type's text into a decoder: keys of types, queries of words for B and I."""
    return {
        **prefixed("types.key", init_linear(size, size, rng)),
        **prefixed("types.query", init_linear(size, 2 * size, rng)),
        "types.bias": torch.full((1, 2), -2.0),
    }


def describe(transformer: Transformer, params: Params, pieces: Tensor) -> Tensor:
    """Keys of types from their texts: [T, P] -> [T, D]."""
    vectors = transformer(scoped(params, "encoder"), pieces.unsqueeze(0), SCORING)[0]
    there = (pieces > 0).unsqueeze(-1).to(vectors.dtype)
    mean = (vectors * there).sum(1) / there.sum(1)
    return linear(mean.unsqueeze(0), params["types.key.weight"], params["types.key.bias"])[0]


def entity_loss(
    transformer: Transformer, params: Params, batch: Targets, keys: Tensor, has: Tensor
) -> Tensor:
    """Mean loss of words of a type and of words of none: keys [T, D], has [names, T]."""
    vectors = transformer(scoped(params, "encoder"), batch.pieces.unsqueeze(0), SCORING)[0]
    place = batch.places.unsqueeze(-1).expand(-1, -1, vectors.shape[-1])
    words = vectors.gather(1, place)  # [N, W, D]
    query = linear(words.flatten(0, 1).unsqueeze(0), *_of(params, "types.query"))[0]
    query = query.view(*words.shape[:2], 2, -1) / words.shape[-1] ** 0.5
    scores = torch.einsum("nwcd,td->nwtc", query, keys) + params["types.bias"][0]
    logits = functional.pad(scores, (1, 0)).float()  # [N, W, T, 3]: O, B, I
    inside = batch.name >= 0
    own = has[batch.name.clamp(min=0)] & inside.unsqueeze(-1)  # [N, W, T]
    gold = torch.where(own, torch.where(batch.begins, 1, 2).unsqueeze(-1), 0)
    losses = functional.cross_entropy(logits.flatten(0, 2), gold.flatten(), reduction="none")
    losses = losses.view_as(own)
    other = (inside.unsqueeze(-1) & ~own) | batch.outside.unsqueeze(-1)
    mean = [(losses * part).sum() / part.sum().clamp(min=1) for part in (own, other)]
    return mean[0] + mean[1]


def _of(params: Params, name: str) -> tuple[Tensor, Tensor]:
    return params[f"{name}.weight"], params[f"{name}.bias"]


def draw_types(text: LabelledText, batch: Targets, many: int, rng: torch.Generator) -> Tensor:
    """Types of the batch's mentions, [at most ``many``]."""
    names = batch.name[batch.begins & (batch.name >= 0)]
    shown = text.has[names].any(0).nonzero()[:, 0]
    order = torch.randperm(len(shown), generator=rng, device=shown.device)
    return shown[order[:many]]


def train(given: argparse.Namespace, how: EntityTraining) -> None:
    """Train from an encoder's folder and write one of the same kind."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    start = load_checkpoint(given.encoder)
    transformer = Transformer(**start.config["transformer"])
    tokenizer = load_tokenizer(given.encoder / "tokenizer.json")
    inside = continuing(tokenizer).to(device)
    text, rows = load_labelled(given.labelled, given.fold, tokenizer, device, how.width)
    never = function_words(tokenizer).to(device)
    rng = torch.Generator().manual_seed(how.seed)
    params = {n: t.float() for n, t in start.tensors.items()} | init_heads(transformer.size, rng)
    optimizer = Muon({n: p.to(device) for n, p in params.items()}, weight_decay=0.01)
    masked = Pretraining(how.steps, how.masked, 256, how.rate, how.steps // 20, seed=how.seed)
    entity = torch.compile(entity_loss, dynamic=True) if device == "cuda" else entity_loss
    guess = torch.compile(masked_loss) if device == "cuda" else masked_loss
    turn = transformer.rotation(masked.width, optimizer.params["encoder.pieces"])
    seen: list[Tensor] = []
    with Progress() as bar:
        task = bar.add_task("training", total=how.steps)
        for step in range(how.steps):
            draw = torch.Generator(device=device).manual_seed(seed_of(how.seed, step, "rows"))
            chosen = rows[torch.randint(len(rows), (how.rows,), generator=draw, device=device)]
            batch = targets(text, chosen, inside, never, how.width)
            types = draw_types(text, batch, how.types, draw)
            told = text.descriptions if step % 2 else text.names
            with autocast("bfloat16", torch.device(device)):
                keys = describe(transformer, optimizer.params, told[types])
                has = text.has[:, types]
                loss = entity(transformer, optimizer.params, batch, keys, has)
                total = loss
                if how.masked:
                    hidden = masked_batch(text.ids, inside, masked, step)
                    total = loss + guess(transformer, optimizer.params, *hidden, turn)
            grads = torch.autograd.grad(
                total, list(optimizer.params.values()), allow_unused=True, materialize_grads=True
            )
            optimizer.step(dict(zip(optimizer.params, grads, strict=True)), masked.rate_at(step))
            seen.append(loss.detach())
            if (step + 1) % 100 == 0 or step + 1 == how.steps:
                mean = torch.stack(seen[-100:]).mean().item()
                bar.update(task, completed=step + 1, description=f"loss {mean:.3f}")
                print(json.dumps({"step": step + 1, "loss": round(mean, 4)}), flush=True)
    about = {
        "pretraining": start.config.get("pretraining"),
        "entities": asdict(how) | {"fold": given.fold},
    }
    save_encoder(given.out, transformer, optimizer.params, tokenizer, about)


def main() -> None:
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("labelled", type=Path, help="what label.py wrote")
    parser.add_argument("encoder", type=Path, help="the encoder to start from")
    parser.add_argument("--fold", default="all", help="the domain that is left out")
    parser.add_argument("--out", type=Path, required=True)
    defaults = EntityTraining()
    for name, value in asdict(defaults).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    given = parser.parse_args()
    train(given, EntityTraining(**{name: getattr(given, name) for name in asdict(defaults)}))


if __name__ == "__main__":
    main()
