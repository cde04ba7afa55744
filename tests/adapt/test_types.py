"""Several types in one fit: what they share, and that none costs the others anything."""

import threading
import time
import weakref
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from adapted import DRUGS, RULE, known

from hardner.adapt import adapter as fitting
from hardner.adapt import fit as fits
from hardner.adapt import judge
from hardner.adapt.adapter import Adapter
from hardner.adapt.forecast import cross_validate
from hardner.adapt.recipe import o_bias_for
from hardner.adapt.report import AdaptationRefused
from hardner.adapt.sample import (
    Sample,
    can_be_judged,
    folds_of,
    overlapping,
    replaced_of,
    with_mentions,
)
from hardner.adapt.workflow import adapt_predictor
from hardner.errors import HardnerError
from hardner.evaluate.score import score
from hardner.model.tagger import Model
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span

BOTH = tuple(
    replace(s, spans=tuple(sorted((*s.spans, *(Span(a, b, "Agent") for a, b, _ in s.spans[:1])))))
    for s in DRUGS
)
"""Every first drug of a sentence is an agent as well."""
SETS = [TagSet("Agent", ("Agent",)), TagSet("Drug", ("Drug",))]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(fitting, "recipe_for", lambda preset, kind: RULE)


def adapter_of(recipe=RULE, sets=SETS):
    return Adapter(Model(known().tagger, known().params), sets, recipe)


def of_label(sentences, label):
    return [[s for s in sentence.spans if s.label == label] for sentence in sentences]


def only(sentences, label):
    pairs = zip(sentences, of_label(sentences, label), strict=True)
    return tuple(
        replace(s, spans=tuple(own), rejected=tuple(r for r in s.rejected if r.label == label))
        for s, own in pairs
    )


def f1(predictor, sentences, label):
    found = predictor.spans(sentences, labels=[label])
    return score(of_label(sentences, label), [[s for s, _ in own] for own in found]).f1


@pytest.mark.parametrize("decoder", ["crf", "softmax"])
def test_the_loss_is_the_sum_of_what_each_head_loses_alone(decoder):
    whole = replace(known(decoder).tagger, tag_sets=tuple(SETS))
    first, second = Span(0, 1, "Drug"), Span(0, 1, "Agent")
    begun = replace(BOTH[0], state="partial", spans=(first,), rejected=(second,))
    given = (*BOTH[1:], begun)
    params, rows = known(decoder).params, torch.arange(len(given))[None].repeat(2, 1)
    params = params | {
        n: torch.cat((p, 1.5 * p)) for n, p in params.items() if n.startswith("decoder")
    }
    store = whole.store_for_all(given)
    batch = store.batch(rows, store.widths(rows.numpy()))
    assert (batch.heads, batch.tasks, len(batch.tags)) == (2, 2, 4)
    together = whole.losses(params, batch, ["tag"])["tag"]
    alone = torch.zeros(2)
    for head, tag_set in enumerate(SETS):
        own = only(given, tag_set.domain)
        one = whole.store(own, [head] * len(own))
        batch = one.batch(rows, one.widths(rows.numpy()))
        alone += whole.losses(params, batch, ["tag"])["tag"]
    assert torch.allclose(together, alone, rtol=1e-5)
    assert together[0] != together[1]


def test_one_type_of_several_is_fitted_as_it_is_alone_where_nothing_is_shared():
    """With the encoder still, heads do not know of each other."""
    rule = replace(RULE, parts=frozenset({"decoder"}), start="zero", clip=0.0)
    found = adapter_of(rule).fit([Sample(BOTH)])
    for head, tag_set in enumerate(SETS):
        own = only(BOTH, tag_set.domain)
        alone = adapter_of(rule, [tag_set]).fit([Sample(own)])
        for name in ("decoder.weight", "decoder.bias", "decoder.transitions"):
            assert torch.allclose(found[name][:, head], alone[name][:, 0], atol=2e-4), name


def test_samples_of_several_types_are_fitted_at_once_as_they_are_alone():
    adapter = adapter_of(replace(RULE, steps=8))
    samples = [Sample(BOTH[:6], (0,)), Sample(BOTH[3:], (1,))]
    together = adapter.fit(samples)
    for row, sample in enumerate(samples):
        for name, value in adapter.fit([sample]).items():
            own = together[name][row] if len(together[name]) > 1 else together[name][0]
            assert torch.allclose(own, value[0], atol=1e-4), name


def test_types_that_overlap_are_learnt_in_one_fit(monkeypatch):
    told = []
    fit = fitting.fit_samples
    monkeypatch.setattr(fitting, "fit_samples", lambda *a, **k: told.append(1) or fit(*a, **k))
    found, report = adapt_predictor(known(), BOTH)
    assert len(told) == 5  # to all, three folds, a small one: as many as one type takes
    assert found.labels == ("Agent", "Drug")
    assert f1(found, BOTH, "Drug") > 0.9 and f1(found, BOTH, "Agent") > 0.8
    agents, drugs = report.types
    assert (agents.label, agents.outcome, drugs.outcome) == ("Agent", "learnt", "learnt")
    assert agents.mentions < drugs.mentions == sum(len(s.spans) for s in DRUGS)
    assert agents.expected != drugs.expected
    assert report.mentions == agents.mentions + drugs.mentions
    with pytest.raises(AttributeError, match="there are 2 types"):
        _ = report.expected
    spans = [{s[:2] for s, _ in own} for own in found.spans(BOTH, labels=["Agent"])]
    others = [{s[:2] for s, _ in own} for own in found.spans(BOTH, labels=["Drug"])]
    assert any(own & other for own, other in zip(spans, others, strict=True))


def test_each_type_is_judged_on_what_its_folds_have_not_seen():
    adapter = adapter_of()
    folded = cross_validate(adapter, Sample(BOTH), 3)
    for tag_set, own in zip(SETS, folded.heads, strict=True):
        counts = sum(
            (
                np.array([right.tp, right.fp, right.fn])
                for params, held_out in folded.models
                for found in [Predictor(adapter.tagger, params).spans([BOTH[r] for r in held_out])]
                for right in [
                    score(
                        of_label([BOTH[r] for r in held_out], tag_set.domain),
                        [[s for s, _ in o if s.label == tag_set.domain] for o in found],
                    )
                ]
            ),
            np.zeros(3),
        )
        assert own.large.counts.sum(0).tolist() == counts.tolist()


def test_a_type_that_cannot_be_judged_has_no_forecast_and_the_others_have():
    one = replace(DRUGS[0], spans=(*DRUGS[0].spans, DRUGS[0].spans[0]._replace(label="Rare")))
    report = adapt_predictor(known(), [one, *DRUGS[1:]]).report
    drug, rare = report.types
    assert (rare.label, rare.mentions, rare.expected) == ("Rare", 1, None)
    assert drug.expected is not None


def test_a_type_that_collapses_is_left_out_and_takes_nothing_from_the_others(monkeypatch):
    everything = adapt_predictor(known(), BOTH)
    check = judge.check_spans

    def refuse(gold, found):
        if any(span.label == "Agent" for sentence in gold for span in sentence.spans):
            raise AdaptationRefused("the adapted model tags nothing")
        check(gold, found)

    monkeypatch.setattr(judge, "check_spans", refuse)
    found, report = adapt_predictor(known(), BOTH)
    assert found.labels == ("Drug",)
    (left,) = report.left_out
    assert (left.label, left.reason) == ("Agent", "the adapted model tags nothing")
    assert report.learnt == {"Drug"}
    assert found.spans(BOTH) == everything.predictor.spans(BOTH, labels=["Drug"])
    kept = adapt_predictor(known(), BOTH, keep=True).predictor
    assert kept.labels == ("Gene", "Species", "Drug")
    assert kept.spans(BOTH, labels=["Drug"]) == found.spans(BOTH)
    monkeypatch.setattr(judge, "check_loss", lambda *_: refuse(BOTH, []))
    with pytest.raises(AdaptationRefused, match=r"^Agent: .* nothing; Drug: .* nothing$") as none:
        adapt_predictor(known(), BOTH)
    assert [row.outcome for row in none.value.types] == ["left out"] * 2


def test_the_models_own_head_stays_where_it_is_better(monkeypatch):
    """And no other of its heads, which nobody asked for."""
    monkeypatch.setattr(fitting, "_USEFUL_HEAD_F1", 2.0)  # no head to start from

    def refuse(label, f1, *_):
        if f1 > 0.9:
            raise AdaptationRefused("the model's own Gene does better")

    monkeypatch.setattr(judge, "check_better", refuse)
    given = [*tiny.sentences("Gene"), *DRUGS]
    found, report = adapt_predictor(known(), given)
    (gene,) = (row for row in report.types if row.label == "Gene")
    assert (gene.outcome, gene.known[0]) == ("kept", "Gene")
    assert "the model's own Gene does better" in gene.reason
    assert found.labels == ("Gene", "Drug")
    assert found.spans(given, labels=["Gene"]) == known().spans(given, labels=["Gene"])
    assert found.temperatures[0] == known().temperatures[0]


def test_a_known_type_and_new_ones_begin_where_each_learns_best(tmp_path):
    """One fit for those that begin alike; their heads read a copy of the encoder each."""
    from hardner.model.describe import save_model

    tagger = known().tagger.with_domains([TagSet("none", ())])
    save_model(tmp_path / "start", tagger, tagger.init(7))
    start = replace(known(), start=tmp_path / "start")
    genes = tiny.sentences("Gene")[:9]
    spans = [tuple(x._replace(label="Protein") for x in s.spans) for s in genes]
    proteins = [replace(s, spans=own) for s, own in zip(genes, spans, strict=True)]
    given = [*proteins, *DRUGS]
    one, other = fitting.adapters_for(start, ["Drug", "Protein"], {"Protein": ("Gene", 0.9)})
    assert (one.tagger.domains, other.tagger.domains) == (("Protein",), ("Drug",))
    found, report = adapt_predictor(start, given, force=True)
    assert set(found.labels) == {"Drug", "Protein"} == report.learnt
    assert f1(found, given, "Protein") > 0.9 and f1(found, given, "Drug") > 0.8
    found.save(tmp_path / "both")
    assert Predictor.load(tmp_path / "both").spans(given) == found.spans(given)


def test_kept_types_are_found_as_before_beside_several_new_ones(tmp_path):
    text = " ".join(" ".join(s.tokens) for s in (*DRUGS, *tiny.sentences("Gene")))
    found, report = adapt_predictor(known(), BOTH, keep=True)
    assert found.labels == ("Gene", "Species", "Agent", "Drug")
    assert found.tagger.encoder.heads == (2,)  # one copy of the encoder for both
    old = [e for e in found(text) if e.label in ("Gene", "Species")]
    assert old == known()(text) != []
    alone = adapt_predictor(known(), BOTH).predictor
    assert [e for e in found(text) if e not in old] == alone(text) != []
    found.save(tmp_path / "kept")
    again = Predictor.load(tmp_path / "kept")
    assert again(text) == found(text)
    with pytest.raises(HardnerError, match="the model finds 'Agent' already"):
        adapt_predictor(again, BOTH, keep=True)
    more = [replace(s, spans=(*s.spans, Span(0, 1, "First"))) for s in BOTH]
    wider, report = adapt_predictor(again, more, keep=True, force=True)
    assert report.kept == {"Agent", "Drug"} and report.learnt == {"First"}
    assert [e for e in wider(text) if e.label != "First"] == found(text)
    assert wider.tagger.encoder.heads == (2, 1)


def test_a_first_model_is_there_before_it_is_judged():
    told, steps = [], []
    found, report = adapt_predictor(
        known(),
        BOTH,
        on_progress=lambda done, total: steps.append(done),
        on_model=lambda result: told.append((len(steps), result)),
    )
    ((done, first),) = told
    assert (done, len(steps)) == (40, 200)
    assert first.predictor.labels == found.labels
    assert all(row.expected is None for row in first.report.types)
    assert all(row.expected for row in report.types)
    once = adapter_of().fit([Sample(adapt_given())])
    assert torch.equal(first.predictor.params["decoder.weight"], once["decoder.weight"])


def adapt_given():
    from hardner.adapt.examples import examples

    return examples(BOTH).sentences


def test_the_rarest_type_is_spread_over_the_folds_first():
    spans = {i: (Span(0, 1, "Common"),) for i in range(24)} | {
        i: (Span(0, 1, "Common"), Span(1, 2, "Rare")) for i in (3, 4, 5)
    }
    sentences = tuple(Sentence((f"a{i}", f"b{i}"), spans.get(i, ())) for i in range(30))
    for seed in range(5):
        folds = folds_of(Sample(sentences, (seed,)))
        for label in ("Rare", "Common"):
            counts = Counter(
                sum(s.label == label for row in fold.held_out for s in sentences[row].spans)
                for fold in folds
            )
            assert max(counts) - min(counts) <= 1
        assert can_be_judged(sentences, folds, ["Rare"])
    one = tuple(Sentence((f"a{i}",), (Span(0, 1, "X"),) * (i == 1)) for i in range(6))
    assert not can_be_judged(one, folds_of(Sample(one)), ["X"])


def test_mentions_that_overlap_are_replaced_together():
    import random

    given = Sentence(("a", "lung", "cancer", "b"), (Span(1, 2, "Organ"), Span(1, 3, "Disease")))
    donor = Sentence(("big", "gut", "tumor", "mass"), (Span(1, 2, "Organ"), Span(1, 4, "Disease")))
    made = with_mentions(given, donor, random.Random(0))
    assert made.tokens == ("a", "gut", "tumor", "mass", "b")
    assert made.spans == (Span(1, 2, "Organ"), Span(1, 4, "Disease"))
    organ = Sentence(("the", "heart"), (Span(1, 2, "Organ"),))
    assert with_mentions(given, organ, random.Random(0)).tokens == given.tokens
    assert with_mentions(organ, given, random.Random(0)).tokens == organ.tokens
    groups = overlapping((Span(4, 5, "A"), Span(0, 2, "A"), Span(1, 3, "B"), Span(2, 4, "C")))
    assert [len(group) for group in groups] == [3, 1]


def test_each_type_gets_the_o_bias_of_its_own_density():
    rule = replace(RULE, o_bias=0.5, o_bias_density=9.0)
    dense = Sentence(("a",) * 9, tuple(Span(i, i + 1, "Drug") for i in range(9)))
    both = o_bias_for(rule, [(dense, DRUGS[0])], SETS)
    assert both.shape == (1, 2) and both[0, 0] > both[0, 1]
    alone = o_bias_for(rule, [(dense, DRUGS[0])], SETS[1:])
    assert alone[0, 0] == both[0, 1]


def test_self_training_teaches_every_type():
    text = [*tiny.sentences("Drug")[9:], *tiny.sentences("Disease")]
    found, report = adapt_predictor(known(), BOTH, unlabelled=text)
    assert report.unlabelled > 0
    assert f1(found, BOTH, "Drug") > 0.9 and f1(found, BOTH, "Agent") > 0.7


def test_labels_may_be_named():
    found = adapt_predictor(known(), BOTH, ["Drug"]).predictor
    alone = adapt_predictor(known(), DRUGS).predictor
    assert found.labels == ("Drug",)
    assert all(torch.equal(p, alone.params[n]) for n, p in found.params.items())
    assert known().adapt(BOTH, labels=["Agent", "Drug"]).labels == ("Agent", "Drug")
    assert known().adapt(BOTH, label="Drug").labels == ("Drug",)


def test_sentences_labelled_in_part_are_learnt_from_by_every_type():
    begun = replace(DRUGS[0], state="partial", spans=(), rejected=(Span(0, 1, "Drug"),))
    alone, report = adapt_predictor(known(), [*BOTH[1:], begun])
    assert any("1 sentences are labelled in part" in note for note in report.notes)
    assert alone.labels == ("Agent", "Drug")
    without = adapt_predictor(known(), BOTH[1:]).predictor
    assert not torch.equal(alone.params["decoder.weight"], without.params["decoder.weight"])
    assert set(alone.curves) == {"Agent", "Drug"}


def test_fits_side_by_side_find_the_same(monkeypatch):
    """With random numbers of their own."""
    monkeypatch.setattr(fitting, "recipe_for", lambda *_: replace(RULE, dropout=0.2, steps=12))
    monkeypatch.setattr(fits, "_SHORT", 0)
    found = []
    for at_once in (1, 2):
        monkeypatch.setattr(fits, "_SIDE_BY_SIDE", at_once)
        steps = []
        result = adapt_predictor(
            known(), DRUGS, force=True, on_progress=lambda done, _, steps=steps: steps.append(done)
        )
        assert steps == list(range(1, 61))
        found.append(result)
    one, other = found
    assert one.report.expected == other.report.expected
    for name, value in one.predictor.params.items():
        assert torch.equal(value, other.predictor.params[name]), name


@pytest.mark.parametrize("steps, threads", [(10, 1), (100, 2)])
def test_short_fits_and_those_of_one_side_take_turns(monkeypatch, steps, threads):
    monkeypatch.setattr(fits, "_SIDE_BY_SIDE", 2)
    both = threading.Barrier(threads, timeout=10)

    def inner(item, on_step):
        on_step(1)
        return item, threading.get_ident(), torch.get_num_threads()

    def outer(item, on_step):
        both.wait()  # as many at once as are expected
        return list(fits.side_by_side(inner, [item, -item], on_step, steps))

    done = []
    found = list(fits.side_by_side(outer, [1, 2], done.append, steps))
    assert [[own[0] for own in each] for each in found] == [[1, -1], [2, -2]]
    assert all(len({own[1] for own in each}) == 1 for each in found)
    assert len({own[1] for each in found for own in each}) == threads
    assert {own[2] for each in found for own in each} == {1} and done == [1] * 4


def test_a_model_that_is_loaded_for_it_is_let_go_of():
    given, held = [replace(known())], []
    there = weakref.ref(given[0])
    result = adapt_predictor(
        given.pop, DRUGS, force=True, on_progress=lambda *_: held.append(there() is not None)
    )
    assert held and not any(held)
    again = adapt_predictor(known(), DRUGS, force=True)
    assert result.report.expected == again.report.expected


def test_fits_side_by_side_stop_when_they_are_no_longer_asked_for(monkeypatch):
    monkeypatch.setattr(fits, "_SIDE_BY_SIDE", 2)
    done = []

    def compute(item, on_step):
        for _ in range(1000):
            on_step(1)
            time.sleep(0.001 * item)
        done.append(item)
        return item

    results = fits.side_by_side(compute, [0, 5, 5, 5])
    assert next(results) == 0
    results.close()
    assert done == [0]


def test_a_rare_type_is_seen_as_often_among_replaced_mentions():
    words = [(f"a{i}", f"b{i}") for i in range(20)]
    rare = {0, 1, 2}
    sentences = tuple(
        Sentence(w, (Span(0, 1, "Common"),) + (Span(1, 2, "Rare"),) * (i in rare))
        for i, w in enumerate(words)
    )
    sample = Sample(sentences)
    made = replaced_of(sample, 16, [("Common",), ("Rare",)])
    own = [r for r in made if {r.context, r.donor} <= rare]
    assert len(made) == 16 + 6 and len(own) >= 6  # every ordered pair of the three
    for replacement in made[16:]:
        (span,) = (s for s in replacement.sentence.spans if s.label == "Rare")
        assert replacement.sentence.tokens[span.start] == f"b{replacement.donor}"
        assert replacement.sentence.tokens[0] == f"a{replacement.context}"  # the other stays
    assert replaced_of(sample, 16, [("Common",)]) == replaced_of(sample, 16)
    assert [RULE.batch_of(types) for types in (1, 2, 3, 40)] == [24, 26, 28, 48]
