"""The CRF against pytorch-crf: loss and gradient, and the best path.

    python benchmarks/crf.py

Runs on the GPU if there is one, else on two CPU threads, and appends to benchmarks/results.jsonl.
Where pytorch-crf cannot be installed, its package `torchcrf` is one plain Python file: put the
folder that holds it on PYTHONPATH.
"""

import time
from collections.abc import Callable
from statistics import median

import torch
from record import record
from torch import Tensor
from torchcrf import CRF

from hardner.model.crf import crf_loss, viterbi

BATCH, TOKENS, TAGS, ROUNDS = 256, 60, 9, 40


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    peer = CRF(TAGS, batch_first=True).to(device)
    emissions = torch.randn(BATCH, TOKENS, TAGS, device=device, requires_grad=True)
    tags = torch.randint(TAGS, (BATCH, TOKENS), device=device)
    mask = torch.ones_like(tags, dtype=torch.bool)
    lengths = mask.sum(-1).unsqueeze(0)
    parameters = (peer.transitions, peer.start_transitions, peer.end_transitions)
    leaves = (emissions, *parameters)

    def our_loss() -> tuple[Tensor, ...]:
        scores = (p.unsqueeze(0) for p in parameters)
        value = crf_loss(emissions.unsqueeze(0), lengths, *scores, tags.unsqueeze(0)).sum()
        return value, *torch.autograd.grad(value, leaves)

    def peer_loss() -> tuple[Tensor, ...]:
        value = -peer(emissions, tags, mask)
        return value, *torch.autograd.grad(value, leaves)

    def our_paths() -> list[list[int]]:
        scores = (p.unsqueeze(0) for p in parameters)
        return viterbi(emissions.unsqueeze(0), lengths, *scores)[0].squeeze(0).tolist()

    @torch.no_grad()
    def peer_paths() -> list[list[int]]:
        return peer.decode(emissions, mask)

    for ours, theirs in zip(our_loss(), peer_loss(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)
    assert our_paths() == peer_paths()
    where = torch.cuda.get_device_name() if device.type == "cuda" else "cpu, 2 threads"
    cases = {"loss and gradient": (our_loss, peer_loss), "viterbi": (our_paths, peer_paths)}
    if device.type == "cuda":
        cases["loss and gradient, as a CUDA graph"] = (captured(our_loss), peer_loss)
    for case, runs in cases.items():
        ours, theirs = alternate(runs)
        size = f"{BATCH} x {TOKENS} tokens, {TAGS} tags"
        record("crf", f"{case}, {size}", where, ours, theirs, "pytorch-crf", "ms")


def alternate(runs: tuple[Callable[[], object], ...]) -> list[float]:
    """Median milliseconds of each, one after the other in every round."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, taken in zip(runs, times, strict=True):
            wait()
            begin = time.perf_counter()
            run()
            wait()
            taken.append(1e3 * (time.perf_counter() - begin))
    return [median(taken[len(taken) // 4 :]) for taken in times]


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def captured(run: Callable[[], object]) -> Callable[[], object]:
    """The same work, launched at once."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


if __name__ == "__main__":
    main()
