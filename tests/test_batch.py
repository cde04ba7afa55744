"""Batches against padding by hand, and what a store says about sentences it cannot label."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hardner.batch import Batch, Ragged, Store
from hardner.errors import HardnerError
from hardner.features import Features, bucket, group_by_width
from hardner.schemes import TagSet
from hardner.types import Sentence, Span

DISEASE = TagSet("Disease", ("Disease",))
DRUG = TagSet("Drug", ("Drug", "Dose"), "IOBES")
SENTENCES = (
    Sentence(("Gout", "hurts", "."), (Span(0, 1, "Disease"),)),
    Sentence(("a", "b", "c", "d", "e"), (Span(0, 3, "Drug"), Span(4, 5, "Dose"))),
    Sentence(()),
    Sentence(("x",)),
)


def store(sentences=SENTENCES, domains=(0, 1, 0, 0)) -> Store:
    streams = {
        "words": [np.arange(1, len(s) + 1) for s in sentences],
        "pieces": [np.full(2 * len(s) + 2, 7) for s in sentences],
    }
    table = {"letters": np.array([[0, 0], [1, 2]])}
    return Store(sentences, Features(streams, table), (DISEASE, DRUG), domains)


def take(rows: list[list[int]], of: Store | None = None) -> Batch:
    found = of or store()
    chosen = torch.tensor(rows)
    return found.batch(chosen, found.widths(chosen.numpy()))


rows_of_integers = st.lists(st.lists(st.integers(-5, 5), max_size=6), max_size=6)


@given(rows_of_integers, st.data())
def test_gather_equals_naive_padding(rows, data):
    ragged = Ragged.of([np.array(row, np.int64) for row in rows], torch.device("cpu"))
    picks = st.lists(st.integers(-1, len(rows) - 1), min_size=1, max_size=6)
    picked = data.draw(picks)
    width = data.draw(st.integers(0, 8))
    naive = [((rows[r] if r >= 0 else []) + [0] * width)[:width] for r in picked]
    assert ragged.gather(torch.tensor(picked), width).tolist() == naive
    both = ragged.gather(torch.tensor([picked, picked[::-1]]), width)
    assert both.tolist() == [naive, naive[::-1]]


def test_a_batch_holds_what_its_sentences_do():
    batch = take([[1, -1], [3, 0]])
    assert batch.tasks == 2
    assert batch.lengths.tolist() == [[5, 0], [1, 3]]
    assert batch.domains.tolist() == [1, 0]
    assert batch.mentions.tolist() == [[2, 0], [0, 1]]
    assert batch.extent.tolist() == [
        [[2, 2, 2, 0, 1], [0] * 5],
        [[0] * 5, [1, 0, 0, 0, 0]],
    ]
    names = [["" if t < 0 else DRUG.tags[t] for t in row] for row in batch.tags[0].tolist()]
    assert names[0] == ["B-Drug", "I-Drug", "E-Drug", "O", "S-Dose"]
    assert names[1] == ["O"] * 5
    assert batch.tags[1].tolist() == [[0] * 5, [DISEASE.tags.index("B-Disease"), 0, 0, 0, 0]]
    assert batch.inputs["words"][1].tolist() == [[1, 0, 0, 0, 0], [1, 2, 3, 0, 0]]
    assert batch.inputs["pieces"].shape == (2, 2, 12)
    assert batch.inputs["table.letters"].tolist() == [[0, 0], [1, 2]]


def test_widths_are_those_of_the_rows_and_at_least_one():
    assert store().widths(np.array([[0, -1], [3, 2]])) == {"words": 3, "pieces": 8}
    assert store().widths(np.array([1])) == {"words": 5, "pieces": 12}
    assert store().widths(np.array([2])) == {"words": 1, "pieces": 2}
    assert store().widths(np.array([-1, -1])) == {"words": 1, "pieces": 1}


@given(rows_of_integers, st.data())
def test_off_the_cpu_the_values_of_a_task_are_counted(rows, data):
    """`Store.widths` against a set, on the device that needs no hardware."""
    forms = [np.array(row, np.int64) + 6 for row in rows]  # 0 is the padding's
    sentences = [Sentence(("x",) * len(row)) for row in rows]
    features = Features({"forms": forms}, {}, counted="forms")
    of = Store(sentences, features, (DISEASE,), [0] * len(rows), "meta")
    picks = st.lists(st.integers(-1, len(rows) - 1), min_size=3, max_size=3)
    tasks = [data.draw(picks) for _ in range(2)]
    widths = of.widths(np.array(tasks))
    most = max(len({0, *(v for r in task if r >= 0 for v in rows[r])}) for task in tasks)
    assert widths["distinct"] >= most
    assert widths["distinct"] % widths["forms"] == 0
    assert widths["distinct"] <= 3 * widths["forms"]
    assert widths["distinct"] < most + widths["forms"]
    assert "distinct" not in of.widths(np.array(tasks).ravel())
    assert "distinct" not in store().widths(np.array([[0, 1]]))


def test_wider_than_needed_is_only_more_padding():
    narrow, of = take([[0, 3]]), store()
    wide = of.batch(torch.tensor([[0, 3]]), {"words": 9, "pieces": 20})
    assert wide.tags.shape == (1, 2, 9)
    assert torch.equal(wide.tags[..., :3], narrow.tags)
    assert not wide.tags[..., 3:].any()
    assert torch.equal(wide.lengths, narrow.lengths)


def test_the_domain_is_that_of_the_first_sentence_that_is_there():
    assert take([[-1, 1], [0, -1], [-1, -1]]).domains.tolist() == [1, 0, 0]


def test_a_store_of_nothing_gives_batches_of_nothing():
    empty = store((), ())
    batch = take([[-1, -1]], empty)
    assert batch.lengths.tolist() == [[0, 0]]
    assert batch.tags.tolist() == [[[0], [0]]]
    assert batch.inputs["words"].dtype == batch.domains.dtype == torch.int64


def test_repeat_gives_every_task_the_same_sentences():
    one = take([[0, 1]])
    many = one.repeat(3)
    assert many.tasks == 3
    assert one.repeat(1) is one
    for name in ("lengths", "tags", "domains", "mentions", "extent"):
        for task in range(3):
            assert torch.equal(getattr(many, name)[task], getattr(one, name)[0])
    assert many.inputs["words"].shape == (3, 2, 5)
    assert many.inputs["table.letters"].shape == (2, 2)


def test_a_label_that_the_domain_lacks_is_named():
    foreign = Sentence(("Aspirin", "helps"), (Span(0, 1, "Drug"),), id="train/7")
    with pytest.raises(HardnerError) as told:
        store((foreign,), (0,))
    assert str(told.value) == (
        "sentence 'train/7': Disease has no label 'Drug'; its labels are 'Disease'"
    )


@pytest.mark.parametrize(
    ("spans", "says"),
    [
        ((Span(0, 2, "Disease"), Span(1, 3, "Disease")), "overlap"),
        ((Span(1, 4, "Disease"),), "does not lie within 3 tokens"),
        ((Span(2, 2, "Disease"),), "does not lie within 3 tokens"),
    ],
)
def test_spans_that_tags_cannot_hold_are_named(spans, says):
    wrong = Sentence(("one", "two", "three"), spans)
    with pytest.raises(HardnerError, match=f"^sentence 'one two three': .*{says}"):
        store((wrong,), (0,))


def test_tags_of_a_domain_begin_with_outside():
    assert DISEASE.tags == ("O", "B-Disease", "I-Disease")
    assert DRUG.tags[0] == "O"
    assert len(DRUG.tags) == 9


lengths = st.lists(st.integers(0, 400), max_size=40).map(lambda w: np.array(w, np.int64))


@given(lengths, st.integers(1, 2000), st.none() | st.integers(1, 9), st.booleans())
def test_groups_hold_every_row_once_and_fit(widths, cells, most, rounded):
    padded = [bucket(w) if rounded else w for w in widths.tolist()]
    round_up = bucket if rounded else None
    groups = [g.tolist() for g in group_by_width(widths, cells, most, round_up)]
    assert sorted(row for group in groups for row in group) == list(range(len(widths)))
    held = [[padded[row] for row in group] for group in groups]
    assert [width for group in held for width in group] == sorted(padded, reverse=True)
    for group in held:
        assert len(group) == 1 or len(group) * max(group) <= cells
        assert most is None or len(group) <= most
        assert not rounded or len(set(group)) == 1
    if not rounded:  # no group could take the widest of the next one as well
        for group in held[:-1]:
            full = max(1, cells // max(1, group[0]))
            assert len(group) == min(full, most or full)


def test_a_stores_groups_are_of_like_width():
    assert [g.tolist() for g in store().groups(24)] == [[1, 0], [3, 2]]
    assert [g.tolist() for g in store().groups(1)] == [[1], [0], [3], [2]]
