"""Meta-training: all tasks at once against the usual loop over copied models.

    python benchmarks/metatrain.py [--real CORPORA | --growth]

The peer is what one writes first: for each task copy the model (`torch.nn.LSTM`, which is cuDNN on
a GPU, and `pytorch-crf`), take the inner steps, and leave the query gradient with the original.
Both sides run HGDA with one inner step on the same synthetic sentences, all of one length or, as in
real text, of different lengths. `--real` runs 10,000
iterations of the BiLSTM preset on real source corpora, `--growth` shows how time grows.
"""

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from record import record
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from hardner.batch import Batch, Store
from hardner.meta.loop import EpisodeRows, Training, initial_state, loop
from hardner.meta.methods import MethodSettings, method
from hardner.meta.outer import outer_step
from hardner.model.characters import Characters
from hardner.model.encoders import WordEncoder, vocabulary_of
from hardner.model.heads import SentenceHead
from hardner.model.layers import Mode
from hardner.model.tagger import Tagger
from hardner.schemes import TagSet
from hardner.types import Sentence, Span

Call = Callable[[], object]
Domains = NDArray[np.int64]

DOMAINS = ("Drug", "Gene", "Species")
WORDS = 5_000
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NAME = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU, 2 cores"


def synthetic(count: int, length: int, ragged: bool = False) -> list[Sentence]:
    """Sentences of random words: all of a length, or as different as real ones."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(WORDS)]
    sentences = []
    for _ in range(count):
        own = int(rng.integers(length // 4, length + 1)) if ragged else length
        tokens = tuple(words[i] for i in rng.integers(0, WORDS, own))
        start = int(rng.integers(0, own - 2))
        sentences.append(Sentence(tokens, (Span(start, start + 2, "X"),)))
    return sentences


class Copied(nn.Module):
    """The peer's network; rows of different lengths are packed, as both directions need it."""

    def __init__(self, dimension: int, ragged: bool) -> None:
        from torchcrf import CRF

        super().__init__()
        self.lstm = nn.LSTM(dimension, 128, batch_first=True, bidirectional=True)
        self.out = nn.Linear(256, 3)
        self.crf = CRF(3, batch_first=True)
        self.domain = nn.Linear(256, len(DOMAINS))
        self.ragged = ragged

    def forward(
        self, x: Tensor, mask: Tensor, tags: Tensor, domain: Tensor
    ) -> tuple[Tensor, Tensor]:
        if self.ragged:
            packed = pack_padded_sequence(x, mask.sum(1).cpu(), True, enforce_sorted=False)
            h = pad_packed_sequence(self.lstm(packed)[0], True, total_length=x.shape[1])[0]
        else:
            h = self.lstm(x)[0]
        lab = -self.crf(self.out(h), tags, mask=mask, reduction="mean")
        pooled = (h * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return lab, nn.functional.cross_entropy(self.domain(pooled), domain)


def plain_loop(
    model: Copied,
    table: Tensor,
    optimizer: torch.optim.Optimizer,
    support: Batch,
    query: Batch,
    rate: float,
) -> None:
    """One HGDA iteration the usual way."""
    names = [n for n, _ in model.named_parameters()]
    losses, grads = [], []
    for i in range(query.tasks):
        fast = copy.deepcopy(model)
        fast.lstm.flatten_parameters()
        inner = torch.optim.SGD(fast.parameters(), lr=rate)
        for batch, last in ((support, False), (query, True)):
            mask = torch.arange(batch.tags.shape[2], device=DEVICE) < batch.lengths[i].unsqueeze(-1)
            domain = batch.domains[i].expand(mask.shape[0])
            lab, cls = fast(table[batch.inputs["words"][i]], mask, batch.tags[i], domain)
            inner.zero_grad()
            (lab + cls).backward()
            if not last:
                inner.step()
        losses.append(torch.stack((lab + cls, lab, cls)).detach())
        grads.append([p.grad for p in fast.parameters()])
    found = torch.stack(losses)
    weights = found / found.sum(0)  # [M, 3]
    kind = [0 if n.startswith("lstm") else 2 if n.startswith("domain") else 1 for n in names]
    for j, p in enumerate(model.parameters()):
        p.grad = sum(weights[i, kind[j]] * grads[i][j] for i in range(query.tasks))
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()


def network(vocabulary: tuple[str, ...], dimension: int, characters: Characters) -> Tagger:
    encoder = WordEncoder(vocabulary, dimension, characters=characters)
    heads = {"domain": SentenceHead("domain", encoder.size, len(DOMAINS), "mean")}
    return Tagger(encoder, tuple(TagSet(d, ("X",)) for d in DOMAINS), heads=heads)


def random_rows(domains: Domains, tasks: int, shots: int, seed: int) -> EpisodeRows:
    rng = np.random.default_rng(seed)
    rows = []
    for domain in rng.integers(0, len(DOMAINS), tasks):
        own = np.flatnonzero(domains == domain)
        rows.append(rng.choice(own, 2 * shots, replace=False))
    both = np.stack(rows)
    return EpisodeRows((both[:, :shots],), both[:, shots:])


def wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def side_by_side(calls: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median milliseconds of each, called in turn so that all see the same machine."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, taken in zip(calls, times, strict=True):
            wait()
            start = time.perf_counter()
            call()
            wait()
            taken.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(taken) for taken in times]


def ours(tagger: Tagger, store: Store, domains: Domains, tasks: int, shots: int, meta: str) -> Call:
    way = method("hgda", MethodSettings(rate=1e-3, meta_gradient=meta))
    training = Training(iterations=10**6, rate=1e-3, dropout=0.0)
    params = {n: p.to(DEVICE) for n, p in tagger.init().items()}

    def draw(iteration: int) -> EpisodeRows:
        return random_rows(domains, tasks, shots, iteration)

    steps = loop(tagger, way, training, store, draw, initial_state(params, way, training))
    return lambda: next(steps)


def copies(
    store: Store, domains: Domains, tasks: int, shots: int, length: int, ragged: bool
) -> Call:
    rows = random_rows(domains, tasks, shots, 0)
    widths = {"words": length, "forms": length}
    both = [torch.from_numpy(r).to(DEVICE) for r in (rows.supports[0], rows.query)]
    support, query = (store.batch(r, widths) for r in both)
    table = torch.randn(WORDS + 1, 300, device=DEVICE)
    model = Copied(300, ragged).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-6)
    return lambda: plain_loop(model, table, optimizer, support, query, 1e-3)


def case(
    tasks: int,
    shots: int,
    length: int,
    peer: bool = True,
    meta: str = "first",
    ragged: bool = False,
) -> None:
    sentences = synthetic(1500, length, ragged)
    domains = np.arange(len(sentences)) % len(DOMAINS)
    tagger = network(vocabulary_of(sentences), 300, Characters(filters=0))
    store = tagger.store(sentences, domains.tolist(), DEVICE)
    calls = [ours(tagger, store, domains, tasks, shots, meta)]
    if peer:
        calls.append(copies(store, domains, tasks, shots, length, ragged))
    side_by_side(calls, 2)
    mine, *theirs = side_by_side(calls, 7)
    size = f"up to {length} tokens" if ragged else f"{length} tokens"
    label = f"HGDA iteration, m={tasks}, K={shots}, {size}, {meta} order"
    peer_name = "loop over copies" if peer else ""
    record("metatrain", label, NAME, mine, theirs[0] if peer else None, peer_name, "ms")


def learnt_words(words: int, tasks: int = 8, shots: int = 5) -> None:
    """Vectors of many words that learn too: the rows that a task names, against copies of all."""
    sentences = synthetic(1500, 40)
    domains = np.arange(len(sentences)) % len(DOMAINS)
    unused = tuple(f"unused{i}" for i in range(words - WORDS))
    tagger = network(vocabulary_of(sentences) + unused, 300, Characters(filters=0))
    tagger = replace(tagger, encoder=replace(tagger.encoder, train_words=True))
    store = tagger.store(sentences, domains.tolist(), DEVICE)
    rows = random_rows(domains, tasks, shots, 0)
    widths = store.widths(np.concatenate((*rows.supports, rows.query)))
    support, query = (
        store.batch(torch.from_numpy(r).to(DEVICE), widths) for r in (*rows.supports, rows.query)
    )
    params = {n: p.to(DEVICE) for n, p in tagger.init().items()}
    table = params["encoder.words"]
    copied = params | {"encoder.words": table.expand(tasks, -1, -1)}
    objective = method("hgda", MethodSettings(rate=1e-3)).objective
    calls: list[Call] = [
        partial(outer_step, tagger, objective, start, [support], query, Mode())
        for start in (params, copied)
    ]
    side_by_side(calls, 2)
    mine, theirs = side_by_side(calls, 7)
    label = f"HGDA gradient, m={tasks}, K={shots}, 40 tokens, vectors of {words} words learn"
    record("metatrain", label, NAME, mine, theirs, "whole copies", "ms")


def real(root: Path, iterations: int) -> None:
    from hardner.corpora import load_corpus
    from hardner.episodes import Sources
    from hardner.meta.loop import drawing

    names = ("BC5CDR-chem", "BC4CHEMD", "JNLPBA", "BC2GM", "LINNAEUS", "S800")
    domains: dict[str, list[Sentence]] = {}
    for corpus in (load_corpus(name, root) for name in sorted(names)):
        domains.setdefault(corpus.domain, []).extend(corpus.train)
    sources = Sources.of(domains)
    sentences = [s for own in sources.sentences.values() for s in own]
    domains = [i for i, own in enumerate(sources.sentences.values()) for _ in own]
    encoder = WordEncoder(
        vocabulary_of(sentences), 200, characters=Characters(filters=50, recurrent=50)
    )
    labels = {n: {x.label for s in own for x in s.spans} for n, own in sources.sentences.items()}
    heads = {"domain": SentenceHead("domain", encoder.size, len(labels), "mean")}
    tagger = Tagger(
        encoder, tuple(TagSet(d, tuple(sorted(own))) for d, own in labels.items()), heads=heads
    )
    store = tagger.store(sentences, domains, DEVICE)
    way = method("hgda", MethodSettings(rate=4e-3))
    training = Training(iterations=iterations, rate=4e-3)
    params = {n: p.to(DEVICE) for n, p in tagger.init().items()}
    draw = drawing(way, sources, tasks=8, shots=5, seed=0)
    wait()
    start = time.perf_counter()
    first = last = 0.0
    for step in loop(tagger, way, training, store, draw, initial_state(params, way, training)):
        if step.iteration == 20:
            first = float(step.losses[0].mean())
    last = float(step.losses[0].mean())
    wait()
    seconds = time.perf_counter() - start
    print(f"tag loss {first:.2f} -> {last:.2f}")
    record(
        "metatrain",
        f"{iterations} HGDA iterations, BiLSTM preset, m=8, K=5, six corpora",
        NAME,
        seconds,
        None,
        "",
        "s",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=Path)
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--growth", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(2)
    if args.real:
        real(args.real, args.iterations)
        return
    for tasks, shots in ((8, 5), (32, 5), (8, 50)):
        case(tasks, shots, 40)
    case(8, 5, 40, ragged=True)
    for words in (5_000, 50_000):
        learnt_words(words)
    if args.growth:
        for tasks, shots, length in ((2, 5, 40), (64, 5, 40), (8, 20, 40), (8, 5, 20), (8, 5, 80)):
            case(tasks, shots, length, peer=False)
        case(8, 5, 40, peer=False, meta="exact")


if __name__ == "__main__":
    main()
