"""Pre-training from text files to a folder, in as many sittings as it takes."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from hardner import checkpoint
from hardner.model.layers import Params
from hardner.model.transformer import Transformer
from hardner.pretrain.masked import Masking, Pretraining, init, pretrain
from hardner.pretrain.text import encode, lines

STATE = "state"


def pieces_of(tokenizer: Path, texts: Sequence[Path], workers: int = 1) -> NDArray[np.uint16]:
    """All texts as pieces, end to end."""
    jobs = [(tokenizer, text) for text in texts]
    if workers == 1:
        return np.concatenate([_pieces(job) for job in jobs])
    with ProcessPoolExecutor(workers) as pool:
        return np.concatenate(list(pool.map(_pieces, jobs)))


def _pieces(job: tuple[Path, Path]) -> NDArray[np.uint16]:
    return encode(Tokenizer.from_file(str(job[0])), lines([job[1]]))


def continues(tokenizer: Tokenizer) -> Tensor:
    """Which pieces go on with a word, [V]."""
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    return torch.tensor([piece.startswith("##") for piece, _ in vocabulary])


def run(
    folder: Path,
    tokenizer_file: Path,
    pieces: NDArray[np.uint16],
    transformer: Transformer,
    training: Pretraining,
    *,
    until: int | None = None,
    device: str = "cpu",
    compiled: bool = False,
    heard: Callable[[int, Tensor, float], None] | None = None,
) -> Params:
    """Train up to step ``until`` (else to the end), from the state in the folder if there is one.

    The folder gets the model, and beside it the state that another sitting goes on from.
    """
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    inside = continues(tokenizer).to(device)
    start, state = 0, None
    if (folder / STATE).is_dir():
        saved = checkpoint.load(folder / STATE)
        start = int(saved.config["step"])
        params = {n[7:]: t.to(device) for n, t in saved.tensors.items() if n.startswith("params.")}
        state = {n[6:]: t.to(device) for n, t in saved.tensors.items() if n.startswith("state.")}
    else:
        rng = torch.Generator().manual_seed(training.seed)
        params = {n: p.to(device) for n, p in init(transformer, rng).items()}
    text = torch.from_numpy(pieces.view(np.int16)).to(device)
    last = training.steps if until is None else min(until, training.steps)
    steps = pretrain(transformer, params, text, inside, training, Masking(), state, start, compiled)
    kept: dict[str, Tensor] = {}
    for learnt, optimizer in steps:
        if heard:
            heard(learnt.step, learnt.loss, learnt.seconds)
        if learnt.step + 1 >= last:
            kept = optimizer.saved()
            break
    params = {n: p.detach() for n, p in params.items()}
    tensors = {f"params.{n}": p.cpu() for n, p in params.items()}
    tensors |= {f"state.{n}": p.cpu() for n, p in kept.items()}
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint.save(folder / STATE, tensors, {"step": last, "training": asdict(training)})
    checkpoint.save(
        folder / "model",
        {n: p.cpu() for n, p in params.items()},
        {"transformer": asdict(transformer), "training": asdict(training), "steps": last},
        {"tokenizer.json": json.dumps(json.loads(tokenizer.to_str()))},
        shard_bytes=15_000_000,
        dtype=torch.float16,
    )
    return params
