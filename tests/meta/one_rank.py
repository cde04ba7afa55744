"""One rank of a training in double precision; `test_distributed` starts several: writes its end."""

import sys
from dataclasses import replace

import tiny
import torch
from safetensors.torch import save_file

from hardner.episodes import Sources
from hardner.meta.distributed import ALONE, Ranks, join_ranks
from hardner.meta.loop import Training, drawing, initial_state, loop
from hardner.meta.methods import MethodSettings, heads_for, method
from hardner.meta.optim import Optimizer

SOURCES = Sources.of({d: tiny.sentences(d) for d in tiny.DOMAINS})
CASES = {
    "hgda": ("hgda", MethodSettings(rate=0.05), "bilstm", 20),
    "metaner": ("metaner", MethodSettings(rate=0.05), "bilstm", 20),
    "exact": ("hgda", MethodSettings(rate=0.05, meta_gradient="exact"), "bilstm", 5),
    "multitask": ("multitask", MethodSettings(), "transformer", 5),
}
"""Bilevel or not, first order and exact: a method, an encoder and how many iterations."""


def trained(case: str, ranks: Ranks = ALONE, device: str = "cpu") -> dict[str, torch.Tensor]:
    """The parameters, and the losses and weights of all iterations."""
    name, settings, kind, iterations = CASES[case]
    way = method(name, settings)
    tagger = tiny.tagger(kind)
    tagger = replace(tagger, heads=heads_for(way, tagger.encoder.size, len(tiny.DOMAINS)))
    how = Training(iterations, rate=0.05, optimizer=Optimizer(momentum=0.9), dropout=0.3)
    start = {n: p.to(device, torch.float64) for n, p in tagger.init().items()}
    progress = initial_state(start, way, how)
    draw = drawing(way, SOURCES, tasks=5, shots=2, seed=3)
    store = tagger.store(*tiny.everything(), device)
    steps = list(loop(tagger, way, how, store, draw, progress, ranks))
    found = {f"params.{n}": p for n, p in progress.params.items()}
    found["losses"] = torch.stack([s.losses for s in steps])
    found["weights"] = torch.stack([s.weights for s in steps])
    return {n: t.contiguous().cpu() for n, t in found.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, where = sys.argv[1:]
    with join_ranks(where) as among:
        for case in CASES:
            save_file(trained(case, among, where), f"{folder}/{case}-{among.rank}.safetensors")
