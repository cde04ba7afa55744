"""Task vectors: what a task asks of an encoder, from the Fisher information of its parameters.

The diagonal of the empirical Fisher information is the mean over sentences of the squared gradient
of log p(labels | sentence). It is averaged over the weights that lead into each unit, which leaves
a number a unit (Achille et al., 2019; Vu et al., 2020). The words' own vectors are left out: which
words occur tells corpora apart, not tasks.
"""

import torch
from torch import Tensor
from torch.nn import functional

from hardner.batch import Ints, Store
from hardner.meta.inner import expand_per_task
from hardner.model.layers import Params, part_of
from hardner.model.tagger import Tagger

TABLES = (".pieces", ".words", "word_embeddings.weight")
"""How the names end of what holds the words' vectors."""
AT_ONCE = {"cpu": 8, "cuda": 64}
"""Sentences whose gradients are held at once."""


def fisher(tagger: Tagger, params: Params, store: Store, rows: Ints, loss: str) -> Params:
    """The diagonal for the encoder's parameters, each as the parameter itself: [1, ...].

    Args:
        tagger: The network.
        params: Shared by all tasks: [1, ...].
        store: Sentences and their labels.
        rows: Those that count, [N].
        loss: Whose labels.
    """
    wanted = {n: p for n, p in params.items() if part_of(n) == "encoder" and not n.endswith(TABLES)}
    sums = {name: torch.zeros_like(value) for name, value in wanted.items()}
    widest = sorted(rows.tolist(), key=lambda row: int(store.tags.widths[row]))
    step = AT_ONCE[store.device.type]
    for start in range(0, len(widest), step):
        # A sentence a task, each with its own view of the parameters and so with its own gradient.
        chosen = torch.tensor(widest[start : start + step], device=store.device).unsqueeze(1)
        batch = store.batch(chosen, store.widths(chosen.cpu().numpy()))
        views = expand_per_task(wanted, frozenset({"encoder"}), batch.tasks)
        leaves = {name: value.detach().requires_grad_() for name, value in views.items()}
        unlikely = tagger.losses(params | leaves, batch, [loss])[loss]  # [M]
        if loss == "mtcls" or (loss == "tag" and tagger.decoder == "softmax"):
            unlikely = unlikely * batch.lengths[:, 0]  # they are means over the words
        grads = torch.autograd.grad(unlikely.sum(), list(leaves.values()), materialize_grads=True)
        for name, grad in zip(leaves, grads, strict=True):
            sums[name] += (grad * grad).sum(0, keepdim=True)  # [M, ...] -> [1, ...]
    return {name: total / len(widest) for name, total in sums.items()}


def task_vector(diagonal: Params) -> Tensor:
    """A number a unit, the mean over the weights into it, of all of the encoder's matrices: [U]."""
    return torch.cat([p.mean(-1).flatten() for _, p in sorted(diagonal.items()) if p.dim() > 2])


def similarity(vectors: Tensor) -> Tensor:
    """The cosine of each with each: [N, U] -> [N, N]."""
    unit = functional.normalize(vectors, dim=1, eps=1e-30)
    return torch.mm(unit, unit.T)
