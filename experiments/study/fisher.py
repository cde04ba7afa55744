"""Task vectors: what a task asks of an encoder, from the Fisher information of its parameters.

    F_i = mean over sentences of (d log p(labels | sentence) / d theta_i)^2

is the diagonal of the empirical Fisher information. It is averaged over the weights that lead into
each unit, which leaves one number for each unit (Task2Vec, Achille et al., 2019; Vu et al., 2020).
Word embeddings are left out: which words occur tells corpora apart, not tasks.
"""

import torch
from torch import Tensor
from torch.nn import functional

from hardner.batch import Store
from hardner.features import Ints
from hardner.meta.inner import expand_per_task
from hardner.model.layers import Params, part_of
from hardner.model.tagger import Tagger

EMBEDDINGS = (".pieces", ".words", "word_embeddings.weight")
"""How the names of embedding tables end."""
AT_ONCE = {"cpu": 8, "cuda": 64}
"""Sentences whose gradients are held at once."""


def fisher_diagonal(tagger: Tagger, params: Params, store: Store, rows: Ints, loss: str) -> Params:
    """The diagonal for the encoder's parameters, in the shapes of the parameters: [1, ...].

    Args:
        tagger: The network.
        params: Shared by all tasks: [1, ...].
        store: Sentences and their labels.
        rows: The sentences to take the mean over, [N].
        loss: The task.
    """
    wanted = {
        n: p for n, p in params.items() if part_of(n) == "encoder" and not n.endswith(EMBEDDINGS)
    }
    sums = {name: torch.zeros_like(value) for name, value in wanted.items()}
    by_length = sorted(rows.tolist(), key=lambda row: int(store.tags.widths[row]))
    step = AT_ONCE[store.device.type]
    for start in range(0, len(by_length), step):
        # A sentence a task, each with its own view of the parameters and so with its own gradient.
        rows_now = torch.tensor(by_length[start : start + step], device=store.device).unsqueeze(1)
        batch = store.batch(rows_now, store.widths(rows_now.cpu().numpy()))
        views = expand_per_task(wanted, frozenset({"encoder"}), batch.tasks)
        leaves = {name: value.detach().requires_grad_() for name, value in views.items()}
        nll = tagger.losses(params | leaves, batch, [loss])[loss]  # [M]
        if loss == "mtcls" or (loss == "tag" and tagger.decoder == "softmax"):
            nll = nll * batch.lengths[:, 0]  # these losses are means over the words
        grads = torch.autograd.grad(nll.sum(), list(leaves.values()), materialize_grads=True)
        for name, grad in zip(leaves, grads, strict=True):
            sums[name] += (grad * grad).sum(0, keepdim=True)  # [M, ...] -> [1, ...]
    return {name: total / len(by_length) for name, total in sums.items()}


def unit_means(diagonal: Params) -> Tensor:
    """The mean over the input weights of each unit, of all the encoder's matrices: [U]."""
    return torch.cat([p.mean(-1).flatten() for _, p in sorted(diagonal.items()) if p.dim() > 2])


def cosine_similarity(vectors: Tensor) -> Tensor:
    """The cosine of each pair of rows: [N, U] -> [N, N]."""
    unit = functional.normalize(vectors, dim=1, eps=1e-30)
    return torch.mm(unit, unit.T)
