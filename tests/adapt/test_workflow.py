"""From sentences to a predictor: folds, guards, what is kept, and that nothing harmful gets out."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from adapted import DRUGS, RULE, known

from hardner.adapt import adapter as fitting
from hardner.adapt import judge
from hardner.adapt import workflow as adapting
from hardner.adapt.adapter import Adapter
from hardner.adapt.examples import examples
from hardner.adapt.fit import fit_samples
from hardner.adapt.forecast import (
    HeldOutScores,
    Interval,
    count_spans,
    cross_validate,
    f1_of,
    find_spans,
    forecast,
)
from hardner.adapt.recipe import recipe_for
from hardner.adapt.report import AdaptationRefused
from hardner.adapt.sample import Sample, folds_of, parts_of, replace_mentions
from hardner.adapt.workflow import adapt_predictor
from hardner.errors import HardnerError
from hardner.evaluate.score import score
from hardner.formats import Report, write
from hardner.model.describe import load_model, parameter_shapes, save_model
from hardner.model.encoders import EncoderWithCopies
from hardner.model.tagger import Model
from hardner.schemes import TagSet
from hardner.tag.added_heads import KeptSentence, add_heads
from hardner.tag.heads import origin_of, rename_labels
from hardner.tag.predictor import Predictor
from hardner.types import Document, Sentence, Span, seed_of

GENES = tiny.sentences("Gene")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(fitting, "recipe_for", lambda preset, kind: RULE)


def drug_adapter(recipe):
    model = Model(known().tagger, known().params)
    return Adapter(model, [TagSet("Drug", ("Drug",))], recipe)


def renamed(sentences, label):
    return [replace(s, spans=tuple(x._replace(label=label) for x in s.spans)) for s in sentences]


def spans_of(predictor, sentences, *labels):
    return [[s for s, _ in found] for found in predictor.spans(sentences, labels=labels or None)]


def f1(predictor, sentences):
    return score([s.spans for s in sentences], spans_of(predictor, sentences)).f1


def test_a_new_type_is_learnt():
    on_progress = []
    found, report = adapt_predictor(
        known(), DRUGS, on_progress=lambda *told: on_progress.append(told)
    )
    assert found.labels == ("Drug",)
    assert f1(found, DRUGS) > 0.9 > 0.5 > f1(known(), renamed(DRUGS, "Gene"))
    assert (report.label, report.sentences) == ("Drug", 9)
    assert report.mentions == sum(len(s.spans) for s in DRUGS)
    assert 0 <= report.expected.f1.low < report.expected.f1.high <= 1
    assert report.expected.more == 10
    # 40 steps each: three folds, a small one, and all of them
    assert on_progress == [(i, 200) for i in range(1, 201)]
    assert report.seconds > 0


@pytest.mark.parametrize("average_folds", [False, True])
def test_users_get_what_the_adapter_fits(monkeypatch, average_folds):
    """The model that `hardner adapt` hands over is the one that the evaluation scores."""
    recipe = replace(
        RULE, average_folds=average_folds, replacements=8, negatives=2, start="zero", steps=80
    )
    monkeypatch.setattr(fitting, "recipe_for", lambda *_: recipe)
    found = adapt_predictor(known(), DRUGS).predictor.params
    (adapter,) = adapting.adapters_for(known(), ["Drug"], {})
    fitted = adapter.fit([Sample(examples(DRUGS).sentences)])
    assert found.keys() == fitted.keys()
    assert all(torch.equal(value, fitted[name]) for name, value in found.items())


def test_folds_are_averaged_with_the_fit_to_all():
    sample, adapter = Sample(DRUGS), drug_adapter(RULE)
    whole = adapter.fit([sample])
    parts = [adapter.fit([part]) for part in parts_of(sample, folds_of(sample), 0)]
    assert len(parts) == 3
    found = drug_adapter(replace(RULE, average_folds=True)).fit([sample])
    for name, value in found.items():
        each = np.stack([model[name].numpy() for model in (whole, *parts)])
        np.testing.assert_allclose(value.numpy(), each.mean(0), atol=1e-6)
    assert any(not torch.equal(found[name], whole[name]) for name in found)


def test_the_seed_decides():
    one, again, other = (adapt_predictor(known(), DRUGS, seed=s).predictor for s in (0, 0, 1))
    assert all(torch.equal(p, again.params[n]) for n, p in one.params.items())
    assert not torch.equal(one.params["decoder.weight"], other.params["decoder.weight"])


def test_the_start_stays_as_it_was():
    before = {n: p.clone() for n, p in known().params.items()}
    adapt_predictor(known(), DRUGS, keep=True)
    assert all(torch.equal(p, before[n]) for n, p in known().params.items())


@pytest.mark.parametrize("decoder", ["crf", "softmax"])
def test_kept_types_are_found_exactly_as_before(decoder, monkeypatch, tmp_path):
    rule = replace(RULE, layers=1, decoder="crf")
    monkeypatch.setattr(fitting, "recipe_for", lambda preset, kind: rule)
    start = known(decoder)
    text = " ".join(" ".join(s.tokens) for s in (*DRUGS, *GENES))
    alone = adapt_predictor(start, DRUGS, force=True).predictor
    kept = adapt_predictor(start, DRUGS, keep=True, force=True).predictor
    assert kept.labels == ("Gene", "Species", "Drug")
    assert len(start(text)) > 5
    assert [e for e in kept(text) if e.label != "Drug"] == start(text)  # bit for bit
    assert [e for e in kept(text) if e.label == "Drug"] == alone(text)
    assert kept.hardness(DRUGS, labels=["Gene"]) == start.hardness(DRUGS, labels=["Gene"])
    kept.save(tmp_path / "kept")
    assert Predictor.load(tmp_path / "kept")(text) == kept(text)


def test_a_second_type_can_be_kept_too():
    start = known()
    first = adapt_predictor(start, DRUGS, keep=True).predictor
    species = renamed(tiny.sentences("Species")[:9], "Beast")
    both = adapt_predictor(first, species, keep=True, force=True).predictor
    assert both.labels == ("Gene", "Species", "Drug", "Beast")
    test = [*DRUGS, *species]
    assert spans_of(both, test, "Gene", "Species", "Drug") == spans_of(first, test)
    assert f1(both, species) > 0.5 or spans_of(both, species, "Beast") != [[]] * 9


def test_only_what_has_changed_is_held_twice():
    rule = replace(RULE, layers=1)
    adapter = drug_adapter(rule)
    model = Model(known().tagger, known().params)
    tagger, whole = add_heads(model, Model(adapter.tagger, adapter.fit([Sample(DRUGS)])))
    assert isinstance(tagger.encoder, EncoderWithCopies)
    changed = {name for names in tagger.encoder.changed for name in names}
    assert changed and all(n.startswith(("encoder.layer1.", "encoder.norm.")) for n in changed)
    assert {n: tuple(p.shape) for n, p in whole.items()} == parameter_shapes(tagger)


@pytest.fixture
def elsewhere(tmp_path):
    """A model of the same kind without labels, as a folder."""
    tagger = known().tagger.with_domains([TagSet("none", ())])
    params = tagger.init(7)
    save_model(tmp_path / "start", tagger, params, dtype=torch.int8)
    return tmp_path / "start", load_model(tmp_path / "start")[1]


def differing(params, others):
    pairs = ((n, p) for n, p in params.items() if n.startswith("encoder."))
    return {n for n, p in pairs if not torch.equal(p, others[n])}


def test_a_new_type_begins_with_the_encoder_of_the_start(elsewhere, monkeypatch):
    folder, params = elsewhere
    start = replace(known(), start=folder)
    rule = replace(RULE, layers=1)
    monkeypatch.setattr(fitting, "recipe_for", lambda preset, kind: rule)
    found = adapt_predictor(start, DRUGS).predictor
    changed = differing(found.params, params)
    assert changed and all(n.startswith(("encoder.layer1.", "encoder.norm.")) for n in changed)
    assert differing(found.params, known().params) > changed
    assert (found.labels, found.start) == (("Drug",), folder)
    assert start.labels == ("Gene", "Species")


def test_a_known_type_begins_with_the_model_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "recipe_for", lambda *_: replace(RULE, steps=1, rate=1e-6))
    start = replace(known(), start=tmp_path / "never read")
    found, _ = adapt_predictor(start, renamed(GENES[:9], "Protein"), force=True)
    assert f1(found, renamed(GENES[:9], "Protein")) == 1.0


def test_a_start_that_is_missing_is_one_line(tmp_path):
    start = replace(known(), start=tmp_path / "none")
    with pytest.raises(HardnerError, match=r"none: not a hardner model: no config\.json in it$"):
        adapt_predictor(start, DRUGS)


def test_kept_types_are_as_before_beside_another_start(elsewhere, tmp_path):
    start = replace(known(), start=elsewhere[0])
    text = " ".join(" ".join(s.tokens) for s in (*DRUGS, *GENES))
    alone = adapt_predictor(start, DRUGS).predictor
    kept = adapt_predictor(start, DRUGS, keep=True).predictor
    assert [e for e in kept(text) if e.label != "Drug"] == start(text) != []  # bit for bit
    assert [e for e in kept(text) if e.label == "Drug"] == alone(text) != []
    assert all(torch.equal(p, kept.params[n]) for n, p in known().params.items() if n[0] == "e")
    (changed,) = kept.tagger.encoder.changed
    assert set(changed) == differing(alone.params, known().params)
    beasts = renamed(tiny.sentences("Species")[:9], "Beast")
    both = adapt_predictor(kept, beasts, keep=True, force=True).predictor
    assert [e for e in both(text) if e.label != "Beast"] == kept(text)
    both.save(tmp_path / "both")
    again = Predictor.load(tmp_path / "both")
    assert again(text) == both(text) and again.start is None


def test_the_grafted_network_itself_says_the_same():
    """Without taking it apart, up to the rounding of longer sums."""
    kept = adapt_predictor(known(), DRUGS, keep=True).predictor
    store = kept.tagger.store([replace(s, spans=()) for s in DRUGS])
    rows = torch.arange(len(DRUGS))[None]
    batch = store.batch(rows, store.widths(rows[0].numpy()))
    tags = kept.tagger.decode(kept.params, batch, torch.tensor([0, 1, 2]))
    names = TagSet("", ("Drug",)).tags
    for row, (sentence, spans) in enumerate(zip(DRUGS, spans_of(kept, DRUGS, "Drug"), strict=True)):
        said = [names[t] for t in tags[2, row, : len(sentence)].tolist()]
        assert sum(t.startswith("B") for t in said) == len(spans)


def test_a_label_cannot_be_there_twice():
    with pytest.raises(HardnerError, match="the model finds 'Gene' already; name the new type"):
        adapt_predictor(known(), GENES[:6], keep=True)


def test_a_label_that_is_known_is_where_learning_starts(monkeypatch):
    monkeypatch.setattr(fitting, "recipe_for", lambda *_: replace(RULE, steps=1, rate=1e-6))
    found, report = adapt_predictor(known(), renamed(GENES[:9], "Protein"), force=True)
    assert report.known == ("Gene", 1.0)
    assert f1(found, renamed(GENES[:9], "Protein")) == 1.0


def test_worse_than_a_known_label_is_refused(monkeypatch):
    monkeypatch.setattr(fitting, "_USEFUL_HEAD_F1", 2.0)  # no head to start from
    monkeypatch.setattr(fitting, "recipe_for", lambda *_: replace(RULE, steps=12))
    with pytest.raises(
        AdaptationRefused, match=r"the model.s own Gene does better .*: F1 1.00, adapted 0"
    ):
        adapt_predictor(known(), renamed(GENES, "Protein"))
    found, report = adapt_predictor(known(), renamed(GENES, "Protein"), force=True)
    assert found.labels == ("Protein",)
    assert "the model's own Gene reaches F1 1.00 as it is" in report.notes


def test_one_sentence_works_and_says_what_is_missing():
    found, report = adapt_predictor(known(), DRUGS[:1])
    assert report.expected is None
    assert any("too few" in note for note in report.notes)
    assert f1(found, DRUGS[:1]) == 1.0
    assert found.temperatures == (1.0,)


@pytest.mark.parametrize("average_folds", [False, True])
def test_a_single_mention_is_not_judged(monkeypatch, average_folds):
    """No fold that holds it out has a mention to learn from."""
    rule = replace(RULE, average_folds=average_folds)
    monkeypatch.setattr(fitting, "recipe_for", lambda *_: rule)
    given = [DRUGS[0], Sentence(("he", "went", "home")), Sentence(("it", "rained"))]
    one = replace(given[0], spans=given[0].spans[:1])
    found, report = adapt_predictor(known(), [one, *given[1:]])
    assert (report.expected, found.temperatures) == (None, (1.0,))
    assert spans_of(found, [one]) == [list(one.spans)]


def test_the_order_of_the_sentences_changes_nothing():
    one, other = (adapt_predictor(known(), given).predictor for given in (DRUGS, DRUGS[::-1]))
    assert all(torch.equal(p, other.params[n]) for n, p in one.params.items())
    assert one.temperatures == other.temperatures


def test_the_number_of_threads_changes_nothing():
    """And it is as it was afterwards."""
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(adapt_predictor(known(), DRUGS).predictor)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    one, other = found
    assert all(torch.equal(p, other.params[n]) for n, p in one.params.items())


def test_adapting_again_with_more_sentences_starts_afresh(elsewhere, tmp_path, monkeypatch):
    """A head cannot be judged by what it has learnt from, nor can one with its encoder."""
    monkeypatch.setattr("hardner.tag.predictor.BUNDLED_START", elsewhere[0])
    start = replace(known(), start=elsewhere[0])
    start.adapt(DRUGS[:6]).save(tmp_path / "first")
    first = Predictor.load(tmp_path / "first")
    assert first.start == elsewhere[0]
    found, report = adapt_predictor(first, DRUGS)
    assert report.known is None
    (note,) = (note for note in report.notes if "learnt afresh" in note)
    assert note == (
        "the model's own Drug has learnt from 6 of the sentences, which cannot judge it; Drug is "
        "learnt afresh from all of them"
    )
    fresh = adapt_predictor(start, DRUGS).predictor
    assert all(torch.equal(p, fresh.params[n]) for n, p in found.params.items())
    others = adapt_predictor(first, DRUGS[6:]).report  # it has not seen these
    assert others.known is not None and not any("afresh" in note for note in others.notes)


def test_new_sentences_alone_are_learnt_beside_those_that_the_model_keeps(
    elsewhere, tmp_path, monkeypatch
):
    monkeypatch.setattr("hardner.tag.predictor.BUNDLED_START", elsewhere[0])
    start = replace(known(), start=elsewhere[0])
    part = replace(DRUGS[5], spans=(), state="partial", rejected=(Span(0, 1, "Drug"),))
    start.adapt([*DRUGS[:5], part], keep_sentences=True).save(tmp_path / "first")
    first = Predictor.load(tmp_path / "first")
    mended = replace(DRUGS[1], spans=DRUGS[1].spans[1:])  # what is new is right
    found = first.adapt([*DRUGS[6:], mended], continued=True)
    assert found.report.notes.count("learnt afresh, with 5 sentences that the model has kept") == 1
    assert found.report.known is None  # its own Drug cannot judge these
    fresh = start.adapt([DRUGS[0], mended, *DRUGS[2:5], part, *DRUGS[6:]])
    assert found.params.keys() == fresh.params.keys()
    assert all(torch.equal(p, fresh.params[n]) for n, p in found.params.items())
    assert found.report.expected == fresh.report.expected
    found.save(tmp_path / "second")  # it keeps all of them, under a new name as well
    second = rename_labels(Predictor.load(tmp_path / "second"), {"Drug": "Medicine"})
    kept = origin_of(second, "Medicine").kept
    assert {s.tokens for s in kept} == {s.tokens for s in DRUGS}
    assert [s.rejected for s in kept if s.partial] == [((0, 1),)]
    again = second.adapt(renamed([DRUGS[5]], "Medicine"), continued=True)
    assert again.report.sentences == 9  # labelled to its end, it is no part any more


def test_other_types_stay_as_they_are_when_one_is_continued(elsewhere, tmp_path, monkeypatch):
    monkeypatch.setattr("hardner.tag.predictor.BUNDLED_START", elsewhere[0])
    start = replace(known(), start=elsewhere[0])
    both = [replace(s, spans=(*s.spans, Span(0, 1, "First"))) for s in DRUGS]
    first = start.adapt(both[:6], keep=True, keep_sentences=True)
    found = first.adapt(DRUGS[6:], continued=True)
    assert sorted(found.labels) == ["Drug", "First", "Gene", "Species"]
    others = ("First", "Gene", "Species")
    assert spans_of(found, GENES, *others) == spans_of(first, GENES, *others)
    assert origin_of(found, "Drug").sentences == 9
    assert origin_of(found, "First").sentences == 6
    with pytest.raises(HardnerError, match="Drug and First were learnt from different sentences"):
        found.adapt(both[6:], continued=True)
    joint = first.adapt(both[6:], continued=True)
    assert (joint.report.sentences, len(joint.report.learnt)) == (9, 2)


def test_what_cannot_be_continued_says_why(elsewhere):
    start = replace(known(), start=elsewhere[0])
    with pytest.raises(HardnerError, match="the model has no label 'Drug'"):
        start.adapt(DRUGS, continued=True)
    with pytest.raises(HardnerError, match="does not hold the sentences that Gene was learnt"):
        start.adapt(GENES, continued=True)
    bare = known().adapt(DRUGS[:6], keep_sentences=True)
    with pytest.raises(HardnerError, match="the encoder that this model began with is not there"):
        bare.adapt(DRUGS[6:], continued=True)
    for span in ((0, 4), (2, 2), (1,)):
        with pytest.raises(HardnerError, match="of a sentence of 3 tokens"):
            KeptSentence(("a", "b", "c"), (span,))


def test_a_model_that_cannot_start_afresh_says_so():
    first = known().adapt(DRUGS[:6])
    report = adapt_predictor(first, DRUGS).report
    assert any("has seen them too: expect less than is said" in note for note in report.notes)
    kept = known().adapt(DRUGS[:6], keep=True)  # whose encoder is as it was, beside a copy
    renamed_drugs = renamed(DRUGS, "Medicine")
    report = adapt_predictor(kept, renamed_drugs, keep=True).report
    assert any("learnt afresh" in note for note in report.notes)
    assert not any("expect less" in note for note in report.notes)


def test_a_predictor_adapts_to_a_file_and_keeps_the_report(tmp_path):
    path = tmp_path / "drugs.tsv"
    write([Document("d", "", sentences=DRUGS)], path, report=Report())
    found = known().adapt(path, "Drug", seed=3, force=True)
    assert found.report.expected.f1.value > 0
    again = adapt_predictor(known(), DRUGS, seed=3, force=True).predictor
    assert all(torch.equal(p, again.params[n]) for n, p in found.params.items())
    cut = ("Aspirin helps.", [(0, 4, "Drug")])
    report = known().adapt([*DRUGS, cut], "Drug").report
    assert "given: document '9': a mention cuts a token: its sentence is left out" in report.notes


def test_steps_are_bounded_but_no_less_than_an_epoch():
    recipe = recipe_for("quick", "transformer")
    assert [recipe.inner(n).steps for n in (5, 20, 100, 200)] == [35, 35, 117, 234]
    assert [recipe.inner(n).steps for n in (206, 500, 5000)] == [240, 240, 834]
    assert [recipe.inner(200, types).steps for types in (1, 3, 4, 10)] == [234, 181, 165, 165]
    assert [recipe.inner(20, types).steps for types in (1, 3, 10)] == [35] * 3


def test_divergence_is_refused(monkeypatch):
    monkeypatch.setattr(fitting, "recipe_for", lambda *_: replace(RULE, rate=1e30, clip=0.0))
    with pytest.raises(AdaptationRefused, match="learning diverged"):
        adapt_predictor(known(), DRUGS[:3])


def test_what_learns_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(fitting, "recipe_for", lambda *_: replace(RULE, o_bias=1e3))
    with pytest.raises(AdaptationRefused):
        adapt_predictor(known(), DRUGS[:3])


def test_guards_by_hand():
    sentence = Sentence(("a", "b", "c", "d"), (Span(0, 1, "X"),))
    judge.check_spans([sentence], [[Span(1, 2, "X")]])
    judge.check_spans([sentence], [[Span(0, 2, "X")]])
    with pytest.raises(
        AdaptationRefused, match="tags nothing, not even the mentions it learnt from"
    ):
        judge.check_spans([sentence], [[]])
    with pytest.raises(
        AdaptationRefused, match="nearly everything: 75% of the words where 25% are right"
    ):
        judge.check_spans([sentence], [[Span(0, 3, "X")]])
    judge.check_loss(2.0, 1.0)
    for after in (2.0, 3.0, float("nan")):
        with pytest.raises(AdaptationRefused, match="the loss on the sentences went from 2 to"):
            judge.check_loss(2.0, after)
    with pytest.raises(AdaptationRefused, match=r"\(w is not finite\)"):
        judge.check_finite([{"v": torch.ones(1), "w": torch.tensor([0.0, torch.inf])}])


def test_plain_text_must_not_be_tagged_all_over():
    text = [Sentence(("a", "b", "c", "d"))] * 2
    judge.check_text(text, [[Span(0, 4, "X")], []])
    with pytest.raises(AdaptationRefused, match="tags 62% of the words of unlabelled text"):
        judge.check_text(text, [[Span(0, 4, "X")], [Span(3, 4, "X")]])


def test_text_without_labels_is_learnt_from(monkeypatch):
    text = [*tiny.sentences("Drug")[9:], *tiny.sentences("Disease")]
    on_progress = []
    alone = adapt_predictor(known(), DRUGS)
    found, report = adapt_predictor(
        known(), DRUGS, unlabelled=text, on_progress=lambda *told: on_progress.append(told)
    )
    assert report.unlabelled == len({s.tokens for s in text})
    assert alone.report.unlabelled == 0 and alone.report.expected.on_text is None
    assert report.expected.f1 == alone.report.expected.f1
    assert 0 <= report.expected.on_text.low < report.expected.on_text.high <= 1
    assert on_progress == [(i, 240) for i in range(1, 241)]  # a student takes 40 steps more
    weight = "decoder.weight"
    assert not torch.allclose(found.params[weight], alone.predictor.params[weight])
    assert f1(found, DRUGS) > 0.9
    bare = [replace(s, spans=()) for s in reversed(text)]
    again, _ = adapt_predictor(known(), DRUGS, unlabelled=iter(bare))
    assert torch.allclose(again.params[weight], found.params[weight])
    monkeypatch.setattr(adapting, "_MOST_UNLABELLED", {"cpu": 4})
    assert adapt_predictor(known(), DRUGS, unlabelled=text).report.unlabelled == 4


def test_text_that_is_only_looked_at_changes_no_model():
    alone = adapt_predictor(known(), DRUGS)
    seen, report = adapt_predictor(known(), DRUGS, text=tiny.sentences("Disease"))
    assert torch.equal(seen.params["decoder.weight"], alone.predictor.params["decoder.weight"])
    assert report.unlabelled == 0 and report.expected.f1 == alone.report.expected.f1
    assert report.expected.on_text is not None
    # Sentences that are not learnt from are looked at, where there are some.
    other = adapt_predictor(known(), DRUGS, text=[*tiny.sentences("Disease")] * 2)
    assert other.report.expected == report.expected


def test_text_that_is_labelled_already_teaches_nothing():
    found, report = adapt_predictor(known(), DRUGS, unlabelled=[Sentence(()), *DRUGS])
    assert report.unlabelled == 0
    assert "the unlabelled text holds no sentence that can be learnt from" in report.notes
    alone = adapt_predictor(known(), DRUGS).predictor
    assert torch.equal(found.params["decoder.weight"], alone.params["decoder.weight"])


def test_text_must_not_end_up_tagged_all_over(monkeypatch):
    def everything(text, found):
        assert len(text) == len(found) == 4
        raise AdaptationRefused("all over")

    monkeypatch.setattr(judge, "check_text", everything)
    monkeypatch.setattr(adapting, "_MOST_LOOKED_AT", 4)
    with pytest.raises(AdaptationRefused, match="all over"):
        adapt_predictor(known(), DRUGS[:3], unlabelled=tiny.sentences("Disease"))


def test_a_close_call_is_no_reason_to_refuse():
    """A label that is a little better on a few sentences may be so by chance."""
    counts = np.array([[1.0, 0, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0]])
    large = HeldOutScores(3, counts)
    seen = forecast(large, None, 4)
    better = counts + np.array([[0, 0, 0], [0, 0, -1.0], [0, 0, 0], [0, 0, 0]])
    assert f1_of(better) > f1_of(counts)
    assert judge.chance_of(better, large, seen) < judge.SURE
    sure = np.array([[1.0, 0, 0]] * 40)
    poor = HeldOutScores(30, np.array([[0.0, 1, 1]] * 40))
    assert judge.chance_of(sure, poor, forecast(poor, None, 40)) > 0.99
    with pytest.raises(AdaptationRefused):
        judge.check_better("Gene", 1.0, 0.99, forecast(poor, None, 40))


@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_folds_part_the_sentences_and_spread_the_mentions(count):
    sentences = [Sentence((f"w{i}",), (Span(0, 1, "X"),) * (i % 2)) for i in range(count)]
    folds = folds_of(Sample(tuple(sentences)), 3)
    assert len(folds) == min(3, count)
    assert sorted(row for fold in folds for row in fold.held_out) == list(range(count))
    assert all(sorted(f.train + f.held_out) == list(range(count)) for f in folds)
    with_mentions = [sum(bool(sentences[row].spans) for row in fold.held_out) for fold in folds]
    assert max(with_mentions) - min(with_mentions) <= 1
    sizes = [len(fold.held_out) for fold in folds]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_a_mention_is_not_both_learnt_and_held_out(seed):
    words = ["a b", "b c", "c d", "e", "E", "f", "g", "h", "i"]
    spans = [tuple(Span(i, i + 1, "X") for i in range(len(w.split()))) for w in words]
    sentences = [Sentence(tuple(w.split()), s) for w, s in zip(words, spans, strict=True)]
    folds = folds_of(Sample(tuple(sentences), (seed,)), 3)
    assert [len(fold.held_out) for fold in folds] == [3, 3, 3]
    for fold in folds:
        assert {0, 1, 2} <= set(fold.held_out) or {0, 1, 2}.isdisjoint(fold.held_out)
        assert {3, 4} <= set(fold.held_out) or {3, 4}.isdisjoint(fold.held_out)
    same = tuple(Sentence(("w", str(i)), (Span(0, 1, "X"),)) for i in range(7))
    folds = folds_of(Sample(same, (seed,)), 3)
    assert sorted(len(fold.held_out) for fold in folds) == [1, 3, 3]


def test_folds_are_scored_on_what_they_have_not_seen():
    adapter = drug_adapter(RULE)
    folded = cross_validate(adapter, Sample(DRUGS), 3)
    assert (folded.heads[0].large.learnt, folded.heads[0].small.learnt) == (6, 3)
    for params, held_out in folded.models:
        gold = [DRUGS[row].spans for row in held_out]
        found = find_spans(adapter, params, [DRUGS[row] for row in held_out])
        right = score(gold, found)
        counts = folded.heads[0].large.counts[held_out].sum(0)
        assert (right.tp, right.fp, right.fn) == tuple(counts)
    first = folded.models[0].held_out
    mentions = [len(s.spans) * (row not in first) for row, s in enumerate(DRUGS)]
    assert folded.heads[0].small.counts[:, [0, 2]].sum(1).tolist() == mentions


def test_two_sentences_are_too_few_for_a_curve():
    fitted = []
    few = Sample(DRUGS[:2])
    assert cross_validate(drug_adapter(RULE), few, 3, fitted.append).heads[0].small is None
    assert fitted == [1] * 80


def test_counts_are_those_of_the_score():
    gold = [(Span(0, 1, "X"), Span(2, 4, "X")), ()]
    found = [(Span(0, 1, "X"), Span(2, 3, "X")), (Span(0, 1, "X"),)]
    counts = count_spans(gold, found)
    total = score(gold, found)
    assert tuple(counts.sum(0)) == (total.tp, total.fp, total.fn)
    assert counts.tolist() == [[1, 1, 1], [0, 1, 0]]
    assert count_spans([], []).shape == (0, 3)


def test_padding_changes_nothing():
    """As all samples are fitted at once on a GPU: rows of -1 change nothing."""
    adapter = drug_adapter(RULE)
    params, store = adapter.start([Sample(DRUGS)]), adapter.tagger.store(DRUGS)
    rows = [np.array([[0, 1, 2]]), np.array([[0, 1, 2, -1, -1]])]
    few = replace(RULE, steps=4)  # rounding grows with every step
    plain, filled = (fit_samples(adapter.tagger, params, store, r, few, [0]) for r in rows)
    for name, value in plain.items():
        assert torch.allclose(value, filled[name], atol=1e-4), name


def test_folds_learn_no_mention_that_they_are_scored_on():
    sample = Sample(DRUGS, (3,))
    folds = folds_of(sample)
    every = {r.sentence: r for r in replace_mentions(DRUGS, 16, seed_of("swaps", 3))}
    for fold, part in zip(folds, parts_of(sample, folds, 16), strict=True):
        assert part.sentences == tuple(DRUGS[row] for row in fold.train)
        assert part.replaced
        made = [every[sentence] for sentence in part.replaced]
        assert all({r.context, r.donor} <= set(fold.train) for r in made)


def test_a_range_is_of_its_draws():
    found = Interval.of(np.linspace(0, 1, 1001))
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.05, 0.95))
