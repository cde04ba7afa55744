"""Rows whose new decoders are told what their labels are called, or mean."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
from adapt.adapted import RULE, describing, knowing
from evaluate.test_protocol import PLAN, lines, system
from formats.command import Command

from hardner.corpora import Corpora, load_corpus
from hardner.errors import HardnerError
from hardner.evaluate.execute import EvaluationFolders, execute
from hardner.evaluate.runners import fitted_runner, runner_for
from hardner.evaluate.score import Scorer
from hardner.evaluate.system import System, told_labels
from hardner.model.tagger import Model
from hardner.tag.predictor import Predictor

CATALOGUE = """[Drug]
domain = "Drug"
train = { path = "train.tsv" }
devel = { path = "devel.tsv" }
test = { path = "test.tsv" }
descriptions = { Chemical = "a chemical that is given as a treatment" }
"""


def told(predictor: Predictor, labels: str = "descriptions") -> System:
    made = replace(system(Model(predictor.tagger, predictor.params)), adaptation=RULE)
    return told_labels(made, labels)  # type: ignore[arg-type]


def test_without_a_sentence_a_row_scores_what_users_get_by_the_description(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.toml"
    path.write_text(CATALOGUE, "utf-8")
    plan = replace(PLAN, targets=("Drug",), sizes=(0, 1), samples=2)
    folders = EvaluationFolders(tiny.ROOT, tmp_path / "out", catalogue=path)
    list(execute(plan, told(knowing()), folders))
    corpus = load_corpus("Drug", tiny.ROOT)
    meant = Corpora.under(tiny.ROOT, path).descriptions_of("Drug")
    (label,) = meant
    users = knowing().with_types({"Drug": meant[label]})
    found = [
        [s._replace(label=label) for s, _ in x] for x in users.spans(corpus.test, labels=["Drug"])
    ]
    right = [{*s.spans} for s in corpus.test]
    tp = sum(len(r.intersection(f)) for r, f in zip(right, found, strict=True))
    none, *one = lines(tmp_path / "out")
    assert (none["shots"], none["tp"], none["tp"] + none["fp"]) == (0, tp, sum(map(len, found)))
    assert tp > 0 and [row["shots"] for row in one] == [1, 1]
    assert none["method"].endswith(", descriptions")
    configs = json.loads((tmp_path / "out" / "configs.json").read_text("utf-8"))
    assert configs[none["config"]]["labels"] == "descriptions"
    # Nothing is computed twice.
    assert all(done.f1 is None for done in execute(plan, told(knowing()), folders))


def test_samples_begin_with_the_description_where_it_helps() -> None:
    corpus = load_corpus("Drug", tiny.ROOT)
    drawn = {0: {corpus.name: tuple(range(9))}, 1: {corpus.name: tuple(range(9, 18))}}
    labels = {span.label for sentence in corpus.train for span in sentence.spans}
    meant = dict.fromkeys(labels, "a chemical that is given as a treatment")

    def found(of: System) -> list[object]:
        run = runner_for(of, [corpus], {corpus.name: corpus.train}, True, descriptions=meant)
        every = sorted(run(9, drawn), key=lambda some: some.samples)
        return [spans for some in every for spans in some.predictions]

    plain = replace(told(knowing()), labels="")
    assert found(told(knowing())) != found(plain)
    # One that says nothing changes nothing.
    assert found(told(describing())) == found(replace(told(describing()), labels=""))


def test_what_a_row_cannot_be_told() -> None:
    corpus = load_corpus("Drug", tiny.ROOT)
    with pytest.raises(HardnerError, match="no description of"):
        fitted_runner(told(knowing()), corpus, corpus.train, False)
    nothing = replace(told(knowing()), labels="")
    run = fitted_runner(nothing, corpus, corpus.train, False)
    with pytest.raises(HardnerError, match="nothing to learn from but --labels"):
        list(run(0, {0: {corpus.name: ()}}))
    with pytest.raises(HardnerError, match="makes no new decoder"):
        told_labels(replace(told(knowing()), adapt=False), "names")
    assert Scorer(corpus.test)


def test_the_command_takes_zero_sentences(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Command(capfd, monkeypatch)
    knowing().save(tmp_path / "model")
    arguments = ["evaluate", tmp_path / "model", "--root", tiny.ROOT, "--corpora", "Drug"]
    arguments += ["--out", tmp_path / "out", "--shots", "0", "--samples", "3"]
    code, _, err = call(*arguments, "--labels", "names")
    assert code == 0, err
    (line,) = lines(tmp_path / "out", "few_shot")
    assert line["shots"] == 0 and line["method"] == "model, names"
    assert call(*arguments)[0] == 1
    assert call(*arguments, "--labels", "colours")[0] == 2
