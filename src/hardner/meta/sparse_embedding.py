"""The rows of a long table that tasks name, in place of a copy of the whole table for each task.

A row that no sentence of a task names has no gradient there, so no inner step moves it.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from hardner.batch import Batch
from hardner.model.encoders import Encoder, WordEncoder, each_once
from hardner.model.layers import Params, embed, part_of


class SparseRows(NamedTuple):
    """Parameters and batches that are about the tasks' own rows."""

    params: Params  # with those rows alone of the table, [M, U, D]
    batches: list[Batch]  # which name them by their place in there
    rows: dict[str, Tensor]
    """By the table's name, where in the whole of it they stand, [M, U]; none: all is as it was."""


def gather_rows(
    encoder: Encoder, params: Params, batches: Sequence[Batch], parts: Collection[str]
) -> SparseRows:
    """What the batches of the same tasks name of the word vectors, where ``parts`` has these learn.

    Nothing is taken out where it would not be less than the whole.
    """
    whole = SparseRows(params, list(batches), {})
    if not isinstance(encoder, WordEncoder) or part_of(encoder.words) not in parts:
        return whole
    table = params[encoder.words]
    ids = torch.cat([batch.inputs["words"].flatten(1) for batch in batches], 1)  # [M, N]
    if table.shape[0] > 1 or ids.shape[1] >= table.shape[1]:
        return whole
    # Each task's distinct rows become a small table of its own, and its ids places in there.
    rows, places = each_once(ids, ids.shape[1])
    pieces = places.split([batch.inputs["words"][0].numel() for batch in batches], 1)
    named = [
        replace(batch, inputs={**batch.inputs, "words": own.view_as(batch.inputs["words"])})
        for batch, own in zip(batches, pieces, strict=True)
    ]
    return SparseRows(params | {encoder.words: embed(rows, table)}, named, {encoder.words: rows})


def scatter_rows(grad: Tensor, rows: Tensor, table: Tensor) -> Tensor:
    """The gradient at the whole table [1, V, D], from that at rows [M, U] of it: [M, U, D]."""
    whole = table.detach().requires_grad_()
    # What autograd does for a look-up is the scatter that is wanted, on any device.
    with torch.enable_grad():
        taken = embed(rows, whole)
    return torch.autograd.grad(taken, whole, grad)[0]
