"""Groups that suit a GPU find what those that suit a CPU find."""

import os
from dataclasses import replace

import pytest
import small_models as models
import tiny
import torch
from agreement import TIES, agree, outcome

from hardner.features import bucket
from hardner.tag import engine
from hardner.tag.engine import Engine
from hardner.tag.predictor import Predictor
from hardner.tag.windows import buffer_size
from hardner.types import Sentence


def everything() -> list[Sentence]:
    """The example sentences, and one that is read in windows."""
    found = [*tiny.everything("test")[0], *tiny.everything("train")[0]]
    return [*found, Sentence(tuple(token for s in found[:30] for token in s.tokens))]


def groups(predictor: Predictor, size: int) -> list[tuple[int, int]]:
    """How many sentences each has, and how many words they are padded to."""
    made = predictor._engine
    assert isinstance(made, Engine)
    every = made.groups(made.encode([s.tokens for s in everything()]), [0], size)
    return [(len(rows), said.scores.shape[2]) for rows, said in every]


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_groups_for_a_gpu_find_the_same(
    kind: str, single: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = replace(models.predictor(kind))
    narrow, expected = groups(predictor, 64), outcome(predictor, everything())
    for table in (engine._PADDED_WIDTH, engine.BATCH_SIZE, engine._WORDS_AT_ONCE):
        monkeypatch.setitem(table, "cpu", table["cuda"])
    wide = groups(predictor, engine.BATCH_SIZE["cpu"])
    assert all(width == bucket(width) for _, width in wide)
    assert len(wide) < len(narrow) / 2
    assert max(wide)[0] > 64 >= max(narrow)[0]
    agree(expected, outcome(predictor, everything()), 2e-4)


def test_products_in_float16_find_the_same(single: None, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = replace(models.predictor("transformer"))
    expected = outcome(predictor, everything())
    monkeypatch.setattr(engine, "_half", lambda _: torch.float16)
    found = outcome(replace(predictor), everything())
    assert found != expected
    agree(expected, found, 5e-3, TIES)


def test_a_batch_never_holds_more_than_asked_for() -> None:
    predictor = models.predictor()
    assert max(groups(predictor, 3))[0] == 3
    assert (predictor._size(None), predictor._size(7)) == (64, 7)
    assert [buffer_size(size) for size in (1, 64, 4096, 10**6)] == [16, 1024, 1 << 14, 1 << 14]


def test_many_tags_leave_less_room_on_a_gpu() -> None:
    """Stretches are joined in a table that grows with the cube of the tags."""
    here = models.predictor("bilstm", "IOBES")
    there = Engine(here.tagger, here.params, here.temperatures, "cuda")
    assert there._max_cells(4) == engine._WORDS_AT_ONCE["cuda"]
    labels = tuple("ABCDEFGHI")
    sets = tuple(replace(tag_set, labels=labels) for tag_set in here.tagger.tag_sets)
    rich = replace(there, tagger=replace(here.tagger, tag_sets=sets))
    cells = 4 * (4 * len(labels) + 2) ** 3
    assert engine._CRF_CELLS - cells < rich._max_cells(4) * cells <= engine._CRF_CELLS


def test_few_products_are_kept_for_shapes_that_hardly_come_again() -> None:
    """Streams of texts would fill oneDNN's own default with hundreds of megabytes."""
    assert 0 < int(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"]) <= 64
