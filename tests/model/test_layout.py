"""Pieces in rows and end to end: the same words and sentences come out."""

import numpy as np
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from hardner.adapt.cached_layers import cache_lower_layers, upper_tagger
from hardner.batch import Batch
from hardner.features import Pieces
from hardner.model.layers import Mode
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder, Transformer, in_windows, lay_out, vectors_at
from hardner.schemes import TagSet
from hardner.types import Sentence, Span

WORDS = ("Mutations", "in", "BRCA1", "were", "found", ".")
TAGGER = Tagger(
    PieceEncoder(
        Transformer(len(tiny.piece_list()), size=8, layers=2, heads=2, inner=8),
        Pieces.by(tiny.tokenizer(), limit=16),
    ),
    (TagSet("X", ("E",)),),
)


def test_rows_of_windows_are_cut_apart() -> None:
    rows = torch.arange(1, 21).view(1, 2, 10)
    assert in_windows(rows, 10) is rows
    cut = in_windows(rows, 4)
    assert cut.tolist() == [
        [
            [1, 2, 3, 4],
            [5, 6, 7, 8],
            [9, 10, 0, 0],
            [11, 12, 13, 14],
            [15, 16, 17, 18],
            [19, 20, 0, 0],
        ]
    ]


def test_words_are_taken_at_their_heads() -> None:
    vectors = torch.arange(24.0).view(1, 4, 3, 2)  # two rows of two windows of three pieces
    inputs = {"heads": torch.tensor([[[1, 4], [5, 0]]]), "pieces": torch.ones(1, 2, 6).long()}
    lengths = torch.tensor([[2, 1]])
    empty = torch.zeros(1, 2, 2, dtype=torch.long)
    batch = Batch(inputs, lengths, empty, torch.zeros(1).long(), lengths, empty)
    layout = lay_out(batch, "pieces", 3)
    assert vectors_at(layout.heads, vectors).tolist() == [[[[2, 3], [8, 9]], [[22, 23], [12, 13]]]]
    assert vectors_at(layout.starts, vectors).tolist() == [[[0, 1], [12, 13]]]


@given(
    lengths=st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=1, max_size=3),
    layers=st.integers(0, 2),
    spare=st.integers(0, 3),
)
def test_end_to_end_the_losses_and_their_slopes_are_the_same(
    lengths: list[list[int]], layers: int, spare: int
) -> None:
    """Of several tasks, sentences of several windows or none, and with room to spare."""
    sentences = [
        Sentence(WORDS * 5, (Span(2, 4, "E"),)) if size > 20 else Sentence((WORDS * 4)[:size])
        for task in lengths
        for size in task
    ]
    rows = np.arange(len(sentences)).reshape(len(lengths), -1)
    rows[np.array(lengths) == 0] = -1
    rows[:, 0] = np.arange(len(sentences)).reshape(len(lengths), -1)[:, 0]
    shared = {n: p.double() for n, p in TAGGER.init(1).items()}
    store, tagger = TAGGER.store(sentences), TAGGER
    if layers:
        tagger = upper_tagger(TAGGER, shared, layers)
        store = cache_lower_layers(tagger, shared, store)
    most = int(store.streams[store.packed].widths[rows].sum(1).max()) + spare
    params = {n: p.expand(len(rows), *p.shape[1:]).clone() for n, p in shared.items()}
    found = []
    for packed in ({}, {"packed": most}):
        batch = store.batch(torch.from_numpy(rows), store.widths(rows) | packed)
        assert batch.packed == packed.get("packed")
        leaves = {n: p.clone().requires_grad_() for n, p in params.items()}
        for mode in (Mode(), Mode(twice=True)):
            loss = tagger.losses(leaves, batch, ["tag"], mode)["tag"]
            slopes = torch.autograd.grad(loss.sum(), list(leaves.values()), allow_unused=True)
            found.append([loss, *(s for s in slopes if s is not None)])
    for other in found[1:]:
        torch.testing.assert_close(found[0], other)


def test_a_batch_is_laid_end_to_end_where_much_of_it_would_be_padding() -> None:
    long, short = Sentence(WORDS * 2), Sentence(WORDS[:1])
    store = TAGGER.store([long, short, short, short])
    even, uneven = np.array([[1, 2, 3]]), np.array([[0, 1, 2], [1, 2, 3]])
    assert "packed" not in store.packed_widths(even)
    own = store.streams["pieces"].widths
    rounded = -(-own[:3].sum() // 32) * 32
    assert store.packed_widths(uneven)["packed"] == rounded < 3 * own.max()
    assert {n: w for n, w in store.packed_widths(uneven).items() if n != "packed"} == store.widths(
        uneven
    )


def test_only_relative_positions_are_laid_end_to_end() -> None:
    sentences = [Sentence(WORDS * 2), Sentence(WORDS[:1]), Sentence(WORDS[:1])]
    rows = np.arange(3)[None]
    packed = {kind: tiny.tagger(kind).store(sentences).packed_widths(rows) for kind in tiny.KINDS}
    assert [kind for kind, widths in packed.items() if "packed" in widths] == ["transformer"]
