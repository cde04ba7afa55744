"""Protocols from start to end on the example corpus: results, samples, resuming, and plans."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import tiny

from hardner.adapt.adapter import Adapter
from hardner.adapt.recipe import Recipe, SelfTraining
from hardner.corpora import load_corpus
from hardner.episodes import few_shot
from hardner.errors import FileError, HardnerError
from hardner.evaluate.errors import prediction_file, read_predictions
from hardner.evaluate.execute import EvaluationFolders, execute
from hardner.evaluate.protocols import PROTOCOLS, SampleBook, as_tested
from hardner.evaluate.results import RESULT_KEY, ResultFile, read_configs, read_results
from hardner.evaluate.runners import fitted_runner
from hardner.evaluate.score import Scorer, count_errors, score
from hardner.evaluate.system import System
from hardner.meta.optim import Optimizer
from hardner.model.tagger import Model, Tagger
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor

RULE = Recipe(3, 1e-3, Optimizer("adamw"), batch=2, self_training=SelfTraining(steps=4, batch=3))
PLAN = replace(PROTOCOLS["few_shot"], targets=("Gene", "Species"), sizes=(3, 5), samples=3)


def trained(kind: str = "bilstm", decoder: str = "crf") -> Model:
    """A tagger that knows Disease and Drug."""
    whole = tiny.tagger(kind, decoder)
    tagger = whole.with_domains(whole.tag_sets[:2])
    return Model(tagger, tagger.init(3))


def system(model: Model | None = None, **changes: object) -> System:
    held = model or trained()
    made = System(
        method="HGDA",
        encoder="bilstm",
        preset="paper",
        adaptation=RULE,
        train="sources",
        adapt=True,
        seed=0,
        config={"kind": "test"},
        start=lambda targets, drawn, place: held,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def lines(out: Path, name: str = "few_shot") -> list[dict[str, object]]:
    """The results without the time they took."""
    found = [json.loads(line) for line in (out / f"{name}.jsonl").read_text().splitlines()]
    for line in found:
        assert line.pop("seconds") >= 0
    return found


def test_a_whole_few_shot_table(tmp_path):
    desk = EvaluationFolders(tiny.ROOT, tmp_path, predictions=True)
    done = list(execute(PLAN, system(), desk))
    assert sum(len(d.samples) for d in done) == 12
    found = list(read_results(tmp_path / "few_shot.jsonl"))
    assert {(r.corpus, r.shots, r.sample) for r in found} == {
        (c, k, s) for c in PLAN.targets for k in (3, 5) for s in range(3)
    }
    keys = "method encoder preset target_domain corpus shots sample tp fp fn unlabelled seed config"
    needed = {*keys.split(), "versions", "commit", "seconds"}
    assert all(needed <= line.keys() | {"seconds"} for line in lines(tmp_path))
    for r in found:
        test = tiny.sentences(r.corpus, "test")
        assert r.tp + r.fn == sum(len(s.spans) for s in test)
        assert (r.target_domain, r.unlabelled, r.natural, r.share) == (r.corpus, 0, False, None)
        assert read_configs(tmp_path)[r.config] == {"kind": "test"}
        kept = list(read_predictions(tmp_path / "predictions" / prediction_file(r)))
        gold, ours = [p.sentence.spans for p in kept], [p.found for p in kept]
        assert score(gold, ours) == r.score
        assert count_errors(gold, ours)[r.corpus].spurious == r.kinds["spurious"]
    assert len({(r.tp, r.fp, r.fn) for r in found}) > 2


def test_samples_are_written_down_once(tmp_path):
    list(execute(PLAN, system(), EvaluationFolders(tiny.ROOT, tmp_path)))
    list(execute(PLAN, system(method="MAML"), EvaluationFolders(tiny.ROOT, tmp_path)))
    held = json.loads((tmp_path / "samples.json").read_text())
    assert len(held) == 12
    train = load_corpus("Gene", tiny.ROOT).train
    assert held["Gene/5/2"] == [train[row].id for row in few_shot("Gene", train, 5, 2)]
    assert all(train[int(name.split("/")[-1]) - 1].spans for name in held["Gene/5/2"])


def test_natural_samples_are_others(tmp_path):
    plan = replace(PLAN, targets=("Gene",), sizes=(5,), samples=2)
    for natural in (False, True):
        list(
            execute(
                replace(plan, natural=natural), system(), EvaluationFolders(tiny.ROOT, tmp_path)
            )
        )
    held = json.loads((tmp_path / "samples.json").read_text())
    assert set(held) == {"Gene/5/0", "Gene/5/1", "Gene/5/0/natural", "Gene/5/1/natural"}
    assert [r.natural for r in read_results(tmp_path / "few_shot.jsonl")] == [
        False,
        False,
        True,
        True,
    ]


def test_changed_samples_are_refused(tmp_path):
    book = SampleBook(tmp_path / "samples.json")
    book.add("Gene", 2, {0: ["a", "b"]})
    SampleBook(tmp_path / "samples.json").add("Gene", 2, {0: ["a", "b"], 1: ["c", "d"]})
    again = SampleBook(tmp_path / "samples.json")
    with pytest.raises(FileError, match="sample Gene/2/0: has Gene changed"):
        again.add("Gene", 2, {0: ["b", "a"]})


def test_an_interrupted_run_goes_on(tmp_path):
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    list(execute(PLAN, system(), EvaluationFolders(tiny.ROOT, whole)))
    for stop in (1, 4):  # leave after so many; each time what is done is skipped
        work = execute(PLAN, system(), EvaluationFolders(tiny.ROOT, parted))
        news = 0
        while news < stop:
            news += next(work).f1 is not None
        work.close()
    file = parted / "few_shot.jsonl"
    torn = file.read_text()
    file.write_text(torn[: len(torn) - 30])  # as if the machine had died in the middle of a line
    started: list[str] = []
    model = trained()

    def start(found: Sequence[object], drawn: object, sample: object) -> Model:
        started.append(found[0].name)  # type: ignore[attr-defined]
        return model

    done = list(execute(PLAN, system(model, start=start), EvaluationFolders(tiny.ROOT, parted)))
    assert sum(len(d.samples) for d in done if d.f1 is None) == 4
    assert lines(parted) == lines(whole)
    assert started == ["Gene", "Species"]
    before = file.read_bytes()
    list(execute(PLAN, system(start=start), EvaluationFolders(tiny.ROOT, parted)))
    assert file.read_bytes() == before
    assert started == ["Gene", "Species"]  # nothing to do needs no model


def test_more_samples_can_follow(tmp_path):
    list(execute(replace(PLAN, samples=1), system(), EvaluationFolders(tiny.ROOT, tmp_path)))
    list(execute(PLAN, system(), EvaluationFolders(tiny.ROOT, tmp_path)))
    found = [tuple(line[k] for k in RESULT_KEY) for line in lines(tmp_path)]
    assert len(found) == len(set(found)) == 12


def test_another_configuration_is_another_result(tmp_path):
    plan = replace(PLAN, targets=("Gene",), sizes=(3,), samples=1)
    for config in ({"a": 1}, {"a": 2}, {"a": 1}):
        list(execute(plan, system(config=config), EvaluationFolders(tiny.ROOT, tmp_path)))
    assert len(lines(tmp_path)) == 2
    assert len(read_configs(tmp_path)) == 2


def test_results_are_never_written_twice(tmp_path):
    list(
        execute(replace(PLAN, targets=("Gene",)), system(), EvaluationFolders(tiny.ROOT, tmp_path))
    )
    path = tmp_path / "few_shot.jsonl"
    before, found = path.read_bytes(), list(read_results(path))
    ResultFile(path).append(found)
    assert path.read_bytes() == before


@pytest.mark.parametrize("line", ["{", "[]", '{"tp": 1}'])
def test_damaged_results_are_one_line(tmp_path, line):
    path = tmp_path / "few_shot.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(FileError, match=r"few_shot.jsonl:1: not a "):
        list(read_results(path))


@pytest.mark.parametrize("kind", ["transformer", "bert"])
def test_other_encoders(kind, tmp_path):
    plan = replace(PLAN, targets=("Gene",), sizes=(3,), samples=2)
    list(execute(plan, system(trained(kind), encoder=kind), EvaluationFolders(tiny.ROOT, tmp_path)))
    assert [line["encoder"] for line in lines(tmp_path)] == [kind] * 2


def test_prototypes(tmp_path):
    plan = replace(PLAN, targets=("Gene",), sizes=(3,), samples=2)
    rule = replace(RULE, prototypes=True)
    model = trained(decoder="softmax")
    list(execute(plan, system(model, adaptation=rule), EvaluationFolders(tiny.ROOT, tmp_path)))
    assert len(lines(tmp_path)) == 2


def test_text_without_labels_makes_cells_of_its_own(tmp_path):
    plan = replace(PLAN, targets=("Gene",), sizes=(3,), samples=2)
    desk = EvaluationFolders(tiny.ROOT, tmp_path, predictions=True)
    for unlabelled in (0, 6, 8, 6):
        list(execute(replace(plan, unlabelled=unlabelled), system(), desk))
    found = lines(tmp_path)
    assert [line["unlabelled"] for line in found] == [0, 0, 6, 6, 8, 8]
    assert len({r.key for r in read_results(tmp_path / "few_shot.jsonl")}) == 6
    assert len(list((tmp_path / "predictions").iterdir())) == 6
    for one in (system(adapt=False), system(train="target")):
        with pytest.raises(HardnerError, match=r"HGDA is no model .*cannot learn from unlabelled"):
            more = replace(plan, unlabelled=6, targets=("Drug",))
            list(execute(more, one, EvaluationFolders(tiny.ROOT, tmp_path / "other")))


def test_a_sample_is_not_its_own_unlabelled_text(monkeypatch):
    """It gets all others then, without their labels, and the same ones whoever asks."""
    seen = []

    def fit(adapter, samples, on_progress):
        seen.extend(samples)
        return adapter.start(samples)

    monkeypatch.setattr(Adapter, "fit", fit)
    corpus = load_corpus("Gene", tiny.ROOT)
    drawn = {i: {"Gene": few_shot("Gene", corpus.train, 5, i)} for i in range(3)}
    for most in (7, 1000):
        entered = fitted_runner(system(), corpus, corpus.train, False, most)
        assert len(list(entered(5, drawn))) == 3
    texts = {s.tokens for s in corpus.train}
    for made, number in zip(seen[3:], drawn, strict=True):
        own = [corpus.train[row] for row in drawn[number]["Gene"]]
        assert list(made.sentences) == own
        assert all(sentence.spans for sentence in made.sentences)
        others = texts - {sentence.tokens for sentence in own}
        assert sorted(s.tokens for s in made.unlabelled) == sorted(others)
    assert all(len(made.unlabelled) == 7 for made in seen[:3])
    again = [made.unlabelled for made in seen[:3]]
    seen.clear()
    entered = fitted_runner(system(), corpus, corpus.train, False, 7)
    list(entered(5, drawn))
    assert [made.unlabelled for made in seen] == again


def test_a_seen_target_is_refused(tmp_path):
    plan = replace(PLAN, targets=("Disease",))
    with pytest.raises(HardnerError, match="trained on Disease, so Disease is no unseen target"):
        list(execute(plan, system(), EvaluationFolders(tiny.ROOT, tmp_path)))
    seen = system(seen=frozenset({"Gene"}))
    with pytest.raises(HardnerError, match='train it with target = "Gene"'):
        list(execute(PLAN, seen, EvaluationFolders(tiny.ROOT, tmp_path)))


def test_without_adaptation_the_models_own_decoder_is_scored(tmp_path):
    plan = replace(PLAN, targets=("Drug",))
    model = trained()
    list(execute(plan, system(model, adapt=False), EvaluationFolders(tiny.ROOT, tmp_path)))
    expected = Scorer(tiny.sentences("Drug", "test"))(Predictor(*model), "Drug")
    found = lines(tmp_path)
    assert len(found) == 6
    assert {line["tp"] for line in found} == {expected["Chemical"].tp}
    with pytest.raises(HardnerError, match="no decoder for Gene, only for Disease, Drug"):
        list(execute(PLAN, system(adapt=False), EvaluationFolders(tiny.ROOT, tmp_path)))


def test_shares_of_the_data(tmp_path):
    plan = replace(PROTOCOLS["ratios"], targets=("Gene",), sizes=(0.25, 1.0), samples=2)
    list(execute(plan, system(), EvaluationFolders(tiny.ROOT, tmp_path)))
    number = len(tiny.sentences("Gene"))
    found = lines(tmp_path, "ratios")
    assert [(line["share"], line["shots"]) for line in found] == [
        (0.25, round(number / 4)),
        (0.25, round(number / 4)),
        (1.0, number),
        (1.0, number),
    ]
    assert not (tmp_path / "samples.json").exists()


def test_train_and_devel_together(tmp_path):
    plan = replace(PROTOCOLS["full"], targets=("Gene",))
    list(execute(plan, system(), EvaluationFolders(tiny.ROOT, tmp_path)))
    both = len(tiny.sentences("Gene")) + len(tiny.sentences("Gene", "devel"))
    assert [line["shots"] for line in lines(tmp_path, "full")] == [both]


def test_bad_corpora_are_one_line(tmp_path):
    with pytest.raises(HardnerError, match="no corpus 'Genes': no folder"):
        list(
            execute(
                replace(PLAN, targets=("Genes",)),
                system(),
                EvaluationFolders(tiny.ROOT, tmp_path),
            )
        )
    (tmp_path / "Gene").mkdir()
    with pytest.raises(FileError, match=r"Gene: holds no train.tsv"):
        load_corpus("Gene", tmp_path)
    with pytest.raises(HardnerError, match=r"Gene has 24 sentences.*lower the shots"):
        many = replace(PLAN, targets=("Gene",), sizes=(90,))
        list(execute(many, system(), EvaluationFolders(tiny.ROOT, tmp_path)))


def test_a_tagger_keeps_its_scheme(tmp_path):
    whole = tiny.tagger("bilstm", scheme="IOBES")
    tagger: Tagger = whole.with_domains([TagSet("Drug", ("Chemical",), "IOBES")])
    plan = replace(PLAN, targets=("Gene",), sizes=(3,), samples=1)
    model = Model(tagger, tagger.init(0))
    list(execute(plan, system(model), EvaluationFolders(tiny.ROOT, tmp_path)))
    assert len(lines(tmp_path)) == 1


def test_text_as_it_runs_is_scored_with_and_without_its_mention_free_sentences(tmp_path):
    plan = replace(
        PROTOCOLS["running"],
        targets=("Gene:Gene", "Species"),
        sizes=(6,),
        samples=2,
        most_tested=6,
    )
    list(execute(plan, system(), EvaluationFolders(tiny.ROOT, tmp_path, predictions=True)))
    found = list(read_results(tmp_path / "running.jsonl"))
    assert [r.corpus for r in found] == ["Gene:Gene"] * 2 + ["Species"] * 2
    for r in found:
        kept = list(read_predictions(tmp_path / "predictions" / prediction_file(r)))
        bearing = [p for p in kept if p.sentence.spans]
        apart = score([p.sentence.spans for p in bearing], [p.found for p in bearing])
        assert r.bearing == (apart.tp, apart.fp, apart.fn)
        assert len(kept) <= r.tested == 6
        value, low, high = r.expected
        assert 0 <= low <= value <= high <= 1
        assert (r.tp, r.fn) == (apart.tp, apart.fn) and r.fp >= apart.fp
    assert found[0].target_domain == "Gene"


def test_who_tests_on_devel_tests_on_nothing_else():
    corpus = load_corpus("Gene", tiny.ROOT)
    plan = replace(PROTOCOLS["running_devel"], most_tested=0)
    assert as_tested(plan, corpus).test == corpus.devel
    some = as_tested(replace(PROTOCOLS["running"], most_tested=4), corpus)
    assert len(some.test) == 4 and set(some.test) <= set(corpus.test)
    assert as_tested(replace(PROTOCOLS["running"], most_tested=4), corpus) == some
    assert (some.train, some.devel) == (corpus.train, corpus.devel)


def test_types_to_choose_by_are_not_those_to_report():
    report, choose = PROTOCOLS["running"], PROTOCOLS["running_devel"]
    assert not set(report.targets) & set(choose.targets)
    assert len(set(report.targets)) >= 15
