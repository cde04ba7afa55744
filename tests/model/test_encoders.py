"""What encoders make of words: look-ups, ends of sentences, windows; padding has no say."""

from dataclasses import replace

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hardner.batch import Batch, Store
from hardner.features import Pieces
from hardner.model.characters import ALPHABET, Characters, spell
from hardner.model.encoders import Encoder, WordEncoder, each_once, start_letters, vocabulary_of
from hardner.model.layers import Mode, Params, scoped
from hardner.model.transformer import PieceEncoder, Transformer
from hardner.schemes import TagSet
from hardner.types import Sentence
from hardner.vectors import Vectors, character_vectors

PLAIN, TWICE = Mode(), Mode(twice=True)


def batch_of(
    encoder: Encoder, rows: list[list[str]], widths: dict[str, int] | None = None
) -> Batch:
    sentences = [Sentence(tuple(row.split())) for task in rows for row in task]
    store = Store(sentences, encoder.features(sentences), (TagSet("X", ()),), [0] * len(sentences))
    index = torch.arange(len(sentences)).view(len(rows), -1)
    return store.batch(index, store.widths(index.numpy()) | (widths or {}))


def double(encoder: Encoder, tasks: int = 1) -> Params:
    made = [encoder.init(torch.Generator().manual_seed(task)) for task in range(tasks)]
    return {n: torch.cat([p[n] for p in made]).double() for n in made[0]}


TEXTS = ["Mutations in BRCA1 were found .", "TP53 .", "Loss"]


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_sentence_alone_equals_a_sentence_in_a_batch(kind: str) -> None:
    encoder = tiny.encoder(kind)
    params = double(encoder)
    for mode in (PLAIN, TWICE):
        together = encoder(params, batch_of(encoder, [TEXTS]), mode)
        wider = encoder(
            params, batch_of(encoder, [TEXTS], {"words": 9, "forms": 9, "heads": 9}), mode
        )
        for row, text in enumerate(TEXTS):
            alone = encoder(params, batch_of(encoder, [[text]]), PLAIN)
            words = len(text.split())
            for found in (together, wider):
                torch.testing.assert_close(found.words[0, row, :words], alone.words[0, 0])
                torch.testing.assert_close(found.whole[0, row], alone.whole[0, 0])
        assert together.words.shape[-1] == together.whole.shape[-1] == encoder.size


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_an_empty_sentence_is_finite_and_so_is_its_gradient(kind: str) -> None:
    encoder = tiny.encoder(kind)
    params = {n: p.requires_grad_() for n, p in double(encoder).items()}
    for mode in (PLAIN, TWICE):
        found = encoder(params, batch_of(encoder, [["", "a b"]]), mode)
        grads = torch.autograd.grad(
            found.words.square().sum() + found.whole.square().sum(),
            list(params.values()),
            materialize_grads=True,
        )
        assert all(grad.isfinite().all() for grad in grads)


def test_words_are_looked_up_as_written_then_in_lower_case() -> None:
    encoder = WordEncoder(("Apple", "apple", "pear"))
    assert [encoder.look_up(w) for w in ("Apple", "APPLE", "Pear", "plum")] == [1, 2, 3, 0]


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("widths", [{}, {"distinct": 4}, {"distinct": 6}])
def test_each_form_is_spelt_once_and_lands_in_its_place(tasks: int, widths: dict[str, int]) -> None:
    """The shortcuts over distinct forms against spelling every word where it stands."""
    encoder = tiny.encoder("bilstm")
    assert isinstance(encoder, WordEncoder)
    params = double(encoder, tasks)
    batch = batch_of(encoder, [["a b a", "c a"], ["b b d", "b"]][:tasks], widths)
    own = scoped(params, "encoder.characters")
    letters = batch.inputs["table.letters"][batch.inputs["forms"].flatten(1)]
    expected = encoder.characters(own, letters, PLAIN).view(*batch.inputs["forms"].shape, -1)
    torch.testing.assert_close(encoder._spelling(params, batch, PLAIN), expected)


@given(st.lists(st.lists(st.integers(0, 9), min_size=7, max_size=7), min_size=1, max_size=3))
def test_values_are_found_again_where_each_stands_once(rows: list[list[int]]) -> None:
    most = max(len(set(row)) for row in rows)
    seen, place = each_once(torch.tensor(rows), most)
    assert seen.gather(1, place).tolist() == rows
    for row, values in zip(rows, seen.tolist(), strict=True):
        assert values == sorted(set(row)) + [0] * (most - len(set(row)))


def test_the_whole_of_a_sentence_is_both_ends_of_the_recurrence() -> None:
    encoder = tiny.encoder("bigru")
    batch = batch_of(encoder, [TEXTS])
    found = encoder(double(encoder), batch, PLAIN)
    half = encoder.size // 2
    for row, length in enumerate(batch.lengths[0].tolist()):
        ends = (found.words[0, row, length - 1, :half], found.words[0, row, 0, half:])
        assert torch.equal(found.whole[0, row], torch.cat(ends))


def test_a_word_is_handed_on_beside_the_recurrence() -> None:
    encoder = tiny.encoder("bilstm")
    assert isinstance(encoder, WordEncoder)
    plain = replace(encoder, skip=False)
    params, batch = double(encoder), batch_of(encoder, [TEXTS])
    found, bare = (made(params, batch, PLAIN) for made in (encoder, plain))
    assert torch.equal(found.words[..., : plain.size], bare.words)
    handed = found.words[..., plain.size :]
    rows = params[encoder.words][0, batch.inputs["words"]]  # [1, B, T, D]
    assert torch.equal(handed[..., : encoder.dimension], rows)
    for row, length in enumerate(batch.lengths[0].tolist()):
        mean = handed[0, row, :length].mean(0)
        torch.testing.assert_close(found.whole[0, row, plain.size :], mean)


def test_frozen_and_trained_words_are_in_different_parts() -> None:
    frozen, trained = (WordEncoder(("a",), train_words=t).init(torch.Generator()) for t in (0, 1))
    assert "frozen.words" in frozen
    assert "encoder.words" in trained
    assert frozen["frozen.words"].shape == (1, 2, 200)


def test_without_letters_only_words_are_read() -> None:
    encoder = WordEncoder(("a", "b"), dimension=3, characters=Characters(filters=0), hidden=2)
    params = double(encoder)
    assert not [name for name in params if "characters" in name]
    assert encoder(params, batch_of(encoder, [["a b c"]]), PLAIN).words.shape == (1, 1, 3, 4)


def test_letters_can_start_from_the_words_that_hold_them() -> None:
    encoder = tiny.encoder("bilstm")
    params = encoder.init(torch.Generator())
    before = params["encoder.characters.table"].clone()
    words = Vectors(("ab", "b"), torch.tensor([[1.0] * 6, [3.0] * 6]), {}, ())
    started = start_letters(params, character_vectors(words, ALPHABET))
    table = started["encoder.characters.table"]
    assert table[0, spell("ab")[:2]].tolist() == [[1.0] * 6, [2.0] * 6]
    assert torch.equal(table[0, :2], before[0, :2])  # padding and unknown letters
    assert torch.equal(params["encoder.characters.table"], before)
    with pytest.raises(ValueError, match="expected"):
        start_letters(params, torch.zeros(3, 6))


def test_a_vocabulary_is_sorted_and_fits_on_lines() -> None:
    sentences = (Sentence(("b", "a")), Sentence(("a", "A", "x\ny")))
    assert vocabulary_of(sentences) == ("A", "a", "b")


def piece_encoder(limit: int) -> PieceEncoder:
    transformer = Transformer(len(tiny.piece_list()), size=8, layers=1, heads=2, inner=8)
    return PieceEncoder(transformer, Pieces.by(tiny.tokenizer(), limit))


def test_a_long_sentence_is_read_in_windows_and_a_short_one_beside_it_is_the_same() -> None:
    encoder = piece_encoder(limit=16)
    params = double(encoder)
    long = " ".join(TEXTS * 4)
    both = batch_of(encoder, [[long, TEXTS[0]]])
    found = encoder(params, both, PLAIN)
    short = encoder(params, batch_of(encoder, [[TEXTS[0]]]), PLAIN)
    torch.testing.assert_close(found.words[0, 1, :6], short.words[0, 0])
    torch.testing.assert_close(found.whole[0, 1], short.whole[0, 0])

    pieces, heads = both.inputs["pieces"][0, 0], both.inputs["heads"][0, 0]
    assert len(pieces) > 2 * 16
    for word, head in enumerate(heads.tolist()):
        window = pieces[head // 16 * 16 : head // 16 * 16 + 16].view(1, 1, -1)
        alone = encoder.transformer(scoped(params, "encoder"), window, PLAIN)
        torch.testing.assert_close(found.words[0, 0, word], alone[0, 0, head % 16])


def test_dropout_changes_training_and_not_scoring() -> None:
    for kind in tiny.KINDS:
        encoder = tiny.encoder(kind)
        params, batch = double(encoder), batch_of(encoder, [TEXTS])

        def words(
            dropout: float,
            encoder: Encoder = encoder,
            params: Params = params,
            batch: Batch = batch,
        ) -> Tensor:
            return encoder(params, batch, Mode(dropout)).words

        assert torch.equal(words(0), words(0))
        assert not torch.equal(words(0.5), words(0.5))
