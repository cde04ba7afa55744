"""Many tasks at once: forward and backward of m networks against a loop over m copied modules.

    python benchmarks/tasks.py

Both sides hold m networks with different weights and give each its own batch of 5 sentences of 40
words; the loop's modules are what one writes first (`torch.nn.LSTM`, which is cuDNN on a GPU, and
`pytorch-crf`; a plain pre-norm transformer with torch's attention). Losses and gradients are
compared before anything is timed. Runs on the GPU if there is one, there also as a CUDA graph, else
on two CPU threads, and appends to benchmarks/results.jsonl. The floor is the time that the counted
operations, or the fewest bytes that must move, take at the rates a large matrix product and a
large copy reach on the same device in the same run. Where pytorch-crf cannot be installed, put the
folder that holds its package `torchcrf` on PYTHONPATH.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from crf import captured, wait
from record import record
from torch import Tensor, nn
from torch.nn import functional
from torchcrf import CRF

from hardner.batch import Batch
from hardner.features import Pieces
from hardner.model.characters import Characters
from hardner.model.encoders import WordEncoder
from hardner.model.layers import Mode, Params, part_of
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder, Transformer
from hardner.schemes import TagSet
from hardner.types import Sentence, Span

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
WHERE = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "cpu, 2 threads"
TASKS, SHOTS, LENGTH, WORDS = (8, 32), 5, 40, 5_000
SECONDS = 2.0 if DEVICE.type == "cuda" else 8.0
"""For the timing of a case."""
Results = list[Tensor]


class Case(NamedTuple):
    """One network: ours, a copy as a module, and what it must at least do for one task."""

    name: str
    tagger: Tagger
    module: Callable[[Params, int], nn.Module]
    """From our parameters and a task's number."""
    inputs: str
    """The stream that the module reads."""
    peer: str
    flops: float
    moved: float
    """Numbers that are read or written, if each is as seldom as can be."""


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    speed, bandwidth = rates()
    print(f"{WHERE}: {speed / 1e9:,.0f} GFLOP/s, {bandwidth / 1e9:,.0f} GB/s")
    for case in (bilstm(), transformer()):
        for tasks in TASKS:
            measure(case, tasks, speed, bandwidth)


def measure(case: Case, tasks: int, speed: float, bandwidth: float) -> None:
    made = [case.tagger.init(seed) for seed in range(tasks)]
    params = {n: torch.cat([p[n] for p in made]).to(DEVICE) for n in made[0]}
    if "frozen.words" in params:
        params["frozen.words"] = params["frozen.words"][:1].contiguous()
    leaves = [p.requires_grad_() for n, p in params.items() if part_of(n) != "frozen"]
    batch = batch_of(case.tagger, tasks)
    modules = [case.module(params, task) for task in range(tasks)]

    def ours() -> Results:
        losses = case.tagger.losses(params, batch, ["tag"], Mode())["tag"]
        return [losses.detach(), *torch.autograd.grad(losses.sum(), leaves)]

    def copies() -> Results:
        found = []
        for task, module in enumerate(modules):
            module.zero_grad()
            loss = module(batch.inputs[case.inputs][task], batch.tags[task])
            loss.backward()
            found.append(loss.detach())
        return [torch.stack(found)]

    check(case, ours(), copies(), modules, params)
    runs: dict[str, Callable[[], object]] = {"": ours}
    if DEVICE.type == "cuda":
        runs[", as a CUDA graph"] = captured(ours)
    size = f"{case.name}, m={tasks}, K={SHOTS}, {LENGTH} tokens"
    for how, run in runs.items():
        mine, theirs = alternate(run, copies)
        record("tasks", f"{size}{how}", WHERE, mine, theirs, case.peer, "ms")
    flops, moved = tasks * case.flops, tasks * 4 * case.moved
    floor = 1e3 * max(flops / speed, moved / bandwidth)
    counted = f"{flops / 1e9:.2f} GFLOP, {moved / 1e6:.1f} MB"
    record("tasks", f"{size}, floor of {counted}", WHERE, floor, None, "", "ms floor")


def check(
    case: Case, ours: Results, theirs: Results, modules: list[nn.Module], params: Params
) -> None:
    """The same losses, and the same gradient of the decoder, which all of the network shapes."""
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-3, atol=1e-3)
    learnt = [n for n in params if part_of(n) != "frozen"]
    grad = ours[1 + learnt.index("decoder.weight")][:, 0]  # [M, C, H]
    peers = torch.stack([m.get_parameter("out.weight").grad for m in modules])  # type: ignore[misc]
    torch.testing.assert_close(grad, peers, rtol=1e-2, atol=1e-3)


def alternate(*runs: Callable[[], object]) -> list[float]:
    """Least milliseconds of each, one after the other in every round; the machine may be shared."""
    times: list[list[float]] = [[] for _ in runs]
    begun = time.perf_counter()
    while len(times[0]) < 6 or time.perf_counter() - begun < SECONDS:
        for run, taken in zip(runs, times, strict=True):
            wait()
            start = time.perf_counter()
            run()
            wait()
            taken.append(1e3 * (time.perf_counter() - start))
    return [min(taken) for taken in times]


def rates() -> tuple[float, float]:
    """Operations and bytes a second, of a large matrix product and a large copy in float32."""
    side = 8192 if DEVICE.type == "cuda" else 2048
    a, b = (torch.randn(side, side, device=DEVICE) for _ in range(2))
    big = torch.randn(1 << (28 if DEVICE.type == "cuda" else 25), device=DEVICE)
    into = torch.empty_like(big)
    product, copy = alternate(lambda: torch.mm(a, b), lambda: into.copy_(big))
    return 2e3 * side**3 / product, 2e3 * big.numel() * 4 / copy


def batch_of(tagger: Tagger, tasks: int) -> Batch:
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(tasks * SHOTS):
        tokens = tuple(f"w{i}" for i in rng.integers(0, WORDS, LENGTH))
        start = int(rng.integers(0, LENGTH - 3))
        sentences.append(Sentence(tokens, (Span(start, start + 2, "X"),)))
    store = tagger.store(sentences, device=DEVICE)
    rows = torch.arange(len(sentences)).view(tasks, SHOTS)
    return store.batch(rows.to(DEVICE), store.widths(rows.numpy()))


TAG_SETS = (TagSet("X", ("X",)),)
TAGS = len(TAG_SETS[0].tags)


def bilstm() -> Case:
    inputs, size = 300, 128
    vocabulary = tuple(f"w{i}" for i in range(WORDS))
    encoder = WordEncoder(vocabulary, inputs, characters=Characters(filters=0), hidden=size)
    words = SHOTS * LENGTH
    weights = 2 * (4 * size * (inputs + size + 2)) + TAGS * (2 * size + TAGS + 3)
    # Forward: two operations a weight and word. Backward: the same for inputs and for weights; the
    # words' own vectors need no gradient.
    recurrent, outer = 2 * 4 * size * size, 2 * 4 * size * inputs
    flops = 2 * words * (3 * recurrent + 2 * outer + 3 * 2 * size * TAGS)
    # Weights are read by both passes and their gradients written; words are read by both; gates and
    # states are written by one and read by the other.
    moved = 3 * weights + words * (2 * inputs + 2 * 2 * 5 * size)
    return Case(
        f"BiLSTM-CRF {inputs} -> 2x{size}",
        Tagger(encoder, TAG_SETS),
        lambda params, task: Recurrent(params, task).to(DEVICE),
        "words",
        "loop over copies, nn.LSTM and pytorch-crf",
        flops,
        moved,
    )


class Recurrent(nn.Module):
    """BiLSTM-CRF as one writes it."""

    def __init__(self, params: Params, task: int) -> None:
        super().__init__()
        own = {n: p.detach()[min(task, p.shape[0] - 1)] for n, p in params.items()}
        self.words = nn.Embedding.from_pretrained(own["frozen.words"])
        rows, size = own["encoder.recurrent.weight_hh"].shape[1:]
        inputs = own["encoder.recurrent.weight_ih"].shape[2]
        self.lstm = nn.LSTM(inputs, size, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * size, TAGS)
        self.crf = CRF(TAGS, batch_first=True)
        state = {
            f"{name}_l0{'_reverse' * way}": own[f"encoder.recurrent.{name}"][way]
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            for way in range(2)
        }
        assert rows == 4 * size
        self.lstm.load_state_dict(state)
        self.out.load_state_dict({k: own[f"decoder.{k}"][0] for k in ("weight", "bias")})
        with torch.no_grad():  # what IOB2 forbids: a mention that begins with I
            self.crf.transitions.copy_(own["decoder.transitions"][0])
            self.crf.transitions[0, 2] = -1e4
            self.crf.start_transitions.copy_(own["decoder.start"][0])
            self.crf.start_transitions[2] = -1e4
            self.crf.end_transitions.copy_(own["decoder.end"][0])

    def forward(self, words: Tensor, tags: Tensor) -> Tensor:
        scores = self.out(self.lstm(self.words(words))[0])
        return -self.crf(scores, tags, torch.ones_like(tags, dtype=torch.bool), reduction="mean")


def transformer() -> Case:
    size, layers, heads, inner = 128, 4, 4, 512
    # Each word is one piece, so that both sides read rows of 42.
    pieces = Pieces(lambda word: [4 + int(word[1:])], 1, 2, 3)
    net = Transformer(WORDS + 4, size, layers, heads, inner)
    width = LENGTH + 2
    rows = SHOTS * width
    weights = layers * (4 * size * size + 2 * size * inner) + TAGS * size
    flops = 3 * 2 * rows * (weights + layers * 2 * width * size)
    # As above, and the gradient of the table of pieces is as large as the table.
    kept = layers * (3 * size + size + 2 * inner + 4 * size)
    moved = 3 * weights + WORDS * size + rows * (2 * kept + 2 * size)
    return Case(
        f"transformer {layers}x{size}, softmax",
        Tagger(PieceEncoder(net, pieces), TAG_SETS, "softmax"),
        lambda params, task: Plain(params, task, layers, heads).to(DEVICE),
        "pieces",
        "loop over copies, nn.Linear and fused attention",
        flops,
        moved,
    )


class Plain(nn.Module):
    """A pre-norm transformer with rotary positions as one writes it."""

    def __init__(self, params: Params, task: int, layers: int, heads: int) -> None:
        super().__init__()
        own = {n.removeprefix("encoder."): p.detach()[task] for n, p in params.items()}
        self.heads = heads
        self.pieces = nn.Embedding.from_pretrained(own["pieces"].clone(), freeze=False)
        names = ("attention", "out", "up", "down")
        self.maps = nn.ModuleList(
            nn.ModuleDict({name: _linear(own, f"layer{i}.{name}") for name in names})
            for i in range(layers)
        )
        self.norms = nn.ModuleList(
            _norm(own, name)
            for name in (*(f"layer{i}.norm{k}" for i in range(layers) for k in (1, 2)), "norm")
        )
        self.out = _linear({n: p[0] if "decoder" in n else p for n, p in own.items()}, "decoder")

    def forward(self, pieces: Tensor, tags: Tensor) -> Tensor:
        x = self.pieces(pieces)  # [B, P, D]
        size = x.shape[-1] // self.heads
        rates = 10_000.0 ** -(torch.arange(0, size, 2, device=x.device) / size)
        angles = torch.arange(x.shape[1], device=x.device).unsqueeze(1) * rates
        cos, sin = angles.cos(), angles.sin()
        for i, maps in enumerate(self.maps):
            qkv = maps["attention"](self.norms[2 * i](x)).unflatten(-1, (3, self.heads, size))
            q, k, v = qkv.permute(2, 0, 3, 1, 4)  # [B, heads, P, d]
            q, k = (_turn(y, cos, sin) for y in (q, k))
            mixed = functional.scaled_dot_product_attention(q, k, v)
            x = x + maps["out"](mixed.transpose(1, 2).flatten(2))
            x = x + maps["down"](functional.gelu(maps["up"](self.norms[2 * i + 1](x))))
        scores = self.out(self.norms[-1](x)[:, 1:-1])
        return functional.cross_entropy(scores.flatten(0, 1), tags.flatten())


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, left * sin + right * cos), dim=-1)


def _linear(own: Params, name: str) -> nn.Linear:
    made = nn.Linear(*reversed(own[f"{name}.weight"].shape))
    made.load_state_dict({k: own[f"{name}.{k}"] for k in ("weight", "bias")})
    return made


def _norm(own: Params, name: str) -> nn.LayerNorm:
    made = nn.LayerNorm(own[f"{name}.weight"].shape[0])
    made.load_state_dict({k: own[f"{name}.{k}"] for k in ("weight", "bias")})
    return made


if __name__ == "__main__":
    main()
