"""A task's own rows of the word vectors lead where a copy of all of them would."""

from collections import Counter
from dataclasses import replace

import pytest
import tiny
import torch

from hardner.batch import Batch
from hardner.meta.methods import MethodSettings, heads_for, method
from hardner.meta.outer import OuterResult, outer_step, query_loss
from hardner.meta.sparse_embedding import gather_rows
from hardner.model.encoders import WordEncoder
from hardner.model.layers import Mode, Params, embed
from hardner.model.tagger import Tagger

MANY = 2000
"""Words that no sentence has: with them the table is longer than what tasks name."""


def made(name: str, *, long: bool) -> tuple[Tagger, Params, list[Batch], Batch]:
    encoder = tiny.encoder("bigru")
    assert isinstance(encoder, WordEncoder)
    counts = Counter(word for sentence in tiny.everything()[0] for word in sentence.tokens)
    encoder = replace(encoder, vocabulary=tuple(word for word, _ in counts.most_common(50)))
    heads = heads_for(method(name), encoder.size, len(tiny.DOMAINS))
    tagger = Tagger(encoder, tiny.tag_sets(), "softmax" if name == "wpz" else "crf", heads)
    params = tiny.params(tagger)
    supports = [tiny.batch(tagger, 3, 2), tiny.batch(tagger, 3, 2, "devel")]
    query = tiny.batch(tagger, 3, 3, "test")
    if long:
        unseen = tuple(f"unseen{i}" for i in range(MANY))
        larger = replace(encoder, vocabulary=encoder.vocabulary + unseen)
        tagger = replace(tagger, encoder=larger)
        rows = torch.randn(1, MANY, encoder.dimension).double()
        params |= {encoder.words: torch.cat((params[encoder.words], rows), 1)}
    else:
        named = sum(b.inputs["words"][0].numel() for b in (*supports, query))
        assert named >= params[encoder.words].shape[1], "there would be an excerpt of the short one"
    return tagger, params, supports, query


def result(name: str, gradient: str, *, long: bool) -> OuterResult:
    tagger, params, supports, query = made(name, long=long)
    settings = MethodSettings(steps=2, rate=0.3, meta_gradient=gradient)  # type: ignore[arg-type]
    objective = method(name, settings).objective
    return outer_step(tagger, objective, params, supports, query, Mode())


@pytest.mark.parametrize(
    ("name", "gradient"),
    [
        *((name, g) for name in ("hgda", "metaner", "metaner-maml") for g in ("first", "exact")),
        ("metaner-without-critic", "first"),
        ("wpz", "exact"),
    ],
)
def test_the_gradient_is_that_of_whole_copies(name: str, gradient: str) -> None:
    short, long = (result(name, gradient, long=long) for long in (False, True))
    torch.testing.assert_close(long.values, short.values)
    torch.testing.assert_close(long.weights, short.weights)
    whole = long.grads.pop("encoder.words")
    words = short.grads.pop("encoder.words")
    torch.testing.assert_close(whole[:, : words.shape[1]], words)
    assert words.any(2).sum() > 4
    assert not whole[:, words.shape[1] :].any()
    torch.testing.assert_close(long.grads, short.grads)


def test_devel_is_scored_as_with_whole_copies() -> None:
    losses = []
    for long in (False, True):
        tagger, params, supports, query = made("metaner", long=long)
        objective = method("metaner", MethodSettings(steps=2, rate=0.3)).objective
        losses.append(query_loss(tagger, objective, params, supports, query))
    torch.testing.assert_close(*losses)


def test_every_word_keeps_its_vector() -> None:
    tagger, params, supports, query = made("metaner", long=True)
    before = [*supports, query]
    taken, after, rows = gather_rows(tagger.encoder, params, before, {"encoder"})
    assert taken["encoder.words"].shape[1] < params["encoder.words"].shape[1]
    torch.testing.assert_close(
        taken["encoder.words"], params["encoder.words"][0][rows["encoder.words"]]
    )
    for old, new in zip(before, after, strict=True):
        was = embed(old.inputs["words"], params["encoder.words"])
        torch.testing.assert_close(embed(new.inputs["words"], taken["encoder.words"]), was)


def test_nothing_is_taken_out_of_what_does_not_learn() -> None:
    tagger, params, supports, query = made("metaner", long=True)
    assert not gather_rows(tagger.encoder, params, [*supports, query], {"decoder"}).rows
    still = tiny.tagger("bilstm")
    assert not gather_rows(still.encoder, tiny.params(still), supports, {"encoder"}).rows
