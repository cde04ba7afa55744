"""Sentences of which only some spans are known: what is read of them, and what they teach."""

from dataclasses import replace

import numpy as np
import pytest
from adapted import DRUGS, RULE, known, labelled

from hardner.adapt import adapter as fitting
from hardner.adapt.adapter import Adapter, adapters_for
from hardner.adapt.examples import examples
from hardner.adapt.fit import fit_samples
from hardner.adapt.forecast import find_spans
from hardner.adapt.sample import Sample, folds_of, parts_of
from hardner.adapt.workflow import adapt_predictor
from hardner.errors import HardnerError
from hardner.types import Sentence, Span

STENT, NONE = labelled(("a stent was placed", "O B-Device O O"), ("he went home", "O O O"))
MARK = Span(1, 2, "Device")
CATH = Sentence(("the", "catheter", "and", "a", "fever"), state="partial")


def part(*spans: Span, no: tuple[Span, ...] = ()) -> Sentence:
    return replace(CATH, spans=spans, rejected=no)


def test_they_stand_apart_with_what_is_known_of_the_label() -> None:
    other = part(Span(1, 2, "Sign"), no=(Span(4, 5, "Sign"),))
    given = [STENT, NONE, part(MARK), part(no=(Span(4, 5, "Device"),)), replace(CATH, id="x")]
    found = examples([*given, replace(other, tokens=("x",) * 5)], "Device")
    assert {s.tokens for s in found.sentences} == {STENT.tokens, NONE.tokens}
    assert found.partial == (part(MARK, no=(Span(4, 5, "Device"),)),)  # told twice, known together
    assert found.mentions("Device") == 1
    assert found.notes == (
        "2 sentences that are not labelled to their end were left out",
        "1 sentences are labelled in part, and learnt from as far as they are known",
    )
    assert examples([*found.sentences, *found.partial], "Device").partial == found.partial


def test_one_that_is_labelled_to_its_end_as_well_says_nothing_new() -> None:
    again = replace(STENT, state="partial", spans=(MARK,), rejected=(Span(0, 2, "Device"),))
    assert examples([STENT, NONE, again]).partial == ()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (replace(STENT, rejected=(MARK,)), "'stent' is labelled 'Device' and rejected"),
        (replace(STENT, state="partial", spans=(), rejected=(MARK,)), "labelled 'Device' and rej"),
        (replace(STENT, state="partial", spans=(Span(3, 4, "Device"),)), "labelled differently"),
        (part(MARK, no=(MARK,)), "'catheter' is labelled 'Device' and rejected; take one of them"),
    ],
)
def test_what_contradicts_itself_is_refused(wrong: Sentence, said: str) -> None:
    with pytest.raises(HardnerError, match=said):
        examples([STENT, NONE, wrong], "Device")


def test_answers_that_differ_are_refused() -> None:
    with pytest.raises(HardnerError, match="it occurs twice and is labelled differently"):
        examples([STENT, part(Span(1, 2, "Device")), part(Span(0, 2, "Device"))])


def test_a_long_one_is_cut_and_keeps_what_its_parts_hold() -> None:
    far = Span(150, 152, "Device")
    long = Sentence(("w",) * 160, (MARK,), state="partial", rejected=(far,))
    first, second = sorted(examples([STENT, long]).partial, key=lambda s: not s.spans)
    assert (first.spans, first.rejected, len(first)) == ((MARK,), (), 100)
    assert (second.spans, second.rejected) == ((), (Span(50, 52, "Device"),))
    assert first.state == second.state == "partial"


def test_every_fold_learns_from_them_and_none_is_scored_on_them() -> None:
    more = (part(MARK),)
    sample = Sample(DRUGS, partial=more)
    folds = folds_of(sample)
    assert folds == folds_of(replace(sample, partial=()))
    parts = parts_of(sample, folds, 4)
    assert all(p.partial == more for p in parts)
    assert [p.seed for p in parts] == [(0, "fold", n) for n in range(len(folds))]


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Adapter:
    monkeypatch.setattr(fitting, "recipe_for", lambda preset, kind: RULE)
    return adapters_for(known(), ["Drug"], {})[0]


@pytest.mark.parametrize("unlabelled", [0, 6])
def test_a_rejected_span_is_no_longer_found_and_a_confirmed_one_is(
    adapter: Adapter, unlabelled: int
) -> None:
    fitted = adapter.fit([Sample(DRUGS)])
    others = [replace(s, spans=()) for s in _unseen()]
    before = find_spans(adapter, fitted, others)
    wrong, missed = (
        next((at, found[0]) for at, found in enumerate(before) if found),
        next(at for at, found in enumerate(before) if not found),
    )
    at, span = wrong
    no = replace(others[at], state="partial", rejected=(span,))
    first = Span(0, 1, "Drug")
    yes = replace(others[missed], state="partial", spans=(first,))
    text = tuple(_unseen()[-unlabelled:]) if unlabelled else ()
    after = adapter.fit([Sample(DRUGS, unlabelled=text, partial=(no, yes))])
    found = find_spans(adapter, after, others)
    assert span not in found[at]
    assert first in found[missed]
    assert find_spans(adapter, after, DRUGS)[0]  # and what was learnt is still found


def _unseen() -> list[Sentence]:
    import tiny

    return [*tiny.sentences("Drug")[9:], *tiny.sentences("Disease")]


def test_samples_with_different_numbers_of_them_fit_as_each_would_alone(adapter: Adapter) -> None:
    some = [
        replace(s, spans=(), state="partial", rejected=(Span(0, 1, "Drug"),)) for s in _unseen()[:5]
    ]
    samples = [Sample(DRUGS, ("a",), partial=tuple(some)), Sample(DRUGS, ("b",), partial=())]
    double = {n: p.double() for n, p in adapter.start(samples).items()}
    store = adapter.encode(samples)
    rows = np.tile(np.arange(len(DRUGS)), (2, 1))
    given = np.full((2, 5), -1)
    given[0] = len(DRUGS) + np.arange(5)
    rule = replace(RULE, steps=3, partial=2)
    both = fit_samples(adapter.tagger, double, store, rows, rule, (1, 2), partial=given)
    for at, own in enumerate((given[:1], None)):
        start = {n: p[at : at + 1] if p.shape[0] == 2 else p for n, p in double.items()}
        alone = fit_samples(adapter.tagger, start, store, rows[:1], rule, (at + 1,), partial=own)
        for name, value in alone.items():
            mine = both[name][at : at + 1] if both[name].shape[0] == 2 else both[name]
            np.testing.assert_allclose(mine, value, atol=1e-9, err_msg=name)


def test_the_workflow_learns_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "recipe_for", lambda preset, kind: RULE)
    seen = []
    fit = fitting.fit_samples

    def noted(*given, **more):  # type: ignore[no-untyped-def]
        seen.append(more["partial"] is not None)
        return fit(*given, **more)

    monkeypatch.setattr(fitting, "fit_samples", noted)
    answer = replace(_unseen()[0], spans=(), state="partial", rejected=(Span(0, 1, "Drug"),))
    predictor, report = adapt_predictor(known(), [*DRUGS, answer], "Drug", force=True)
    assert all(seen) and len(seen) > 2
    assert report.sentences == len(DRUGS)
    assert any("labelled in part" in note for note in report.notes)
    (texts,) = predictor.learnt.values()
    assert len(texts) == len(DRUGS) + 1


def test_an_answer_is_seen_as_often_as_a_labelled_sentence_and_in_place_of_negatives(
    monkeypatch: pytest.MonkeyPatch, adapter: Adapter
) -> None:
    no = (Span(0, 1, "Drug"),)
    answers = (replace(s, spans=(), state="partial", rejected=no) for s in _unseen()[:6])
    others = tuple(_unseen()[6:11])
    store = adapter.encode([Sample(DRUGS, unlabelled=others, partial=tuple(answers))])
    drawn = []
    batch = type(store).batch

    def noted(self, rows, widths):  # type: ignore[no-untyped-def]
        drawn.append(rows.numpy())
        return batch(self, rows, widths)

    monkeypatch.setattr(type(store), "batch", noted)
    rule = replace(RULE, steps=30, batch=3, negatives=4, partial=6)
    start, labelled = adapter.start([Sample(DRUGS)]), np.arange(len(DRUGS))[None]
    rest = len(DRUGS) + np.arange(5)
    more = len(DRUGS) + 5 + np.arange(6)[None]
    beside = {}
    for count in (6, 1, 0):
        drawn.clear()
        fit_samples(
            *(adapter.tagger, start, store, labelled, rule, (1,)),
            negatives=rest,
            partial=more[:, :count] if count else None,
        )
        every = np.concatenate([rows[0, :3] for rows in drawn])
        answered = [np.isin(rows[0], more).sum() for rows in drawn]
        beside[count] = (set(answered), {rows.shape[1] for rows in drawn})
        assert set(every) == set(labelled[0])
    # Of nine sentences three a step, so of six answers two, and of one never less than one.
    assert beside == {6: ({2}, {7}), 1: ({1}, {7}), 0: ({0}, {7})}
