"""The command `hardner adapt`: its report, what it refuses, and that nothing is left half done."""

import json
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
from adapt.adapted import DRUGS, RULE, known
from formats.command import Command

import hardner
from hardner import checkpoint
from hardner.adapt import adapter as fitting
from hardner.adapt import judge, workflow
from hardner.adapt.report import AdaptationRefused
from hardner.cli import adapt as command
from hardner.formats import Report, write
from hardner.types import Document, Entity, Sentence, Span

PLAIN = tiny.sentences("Disease")[:5]
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(fitting, "recipe_for", lambda preset, kind: RULE)
    return Command(capfd, monkeypatch)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("start") / "model"
    known().save(made)
    return made


@pytest.fixture
def drugs(tmp_path: Path) -> Path:
    path = tmp_path / "drugs.tsv"
    write([Document("d", "", sentences=DRUGS)], path, report=Report())
    return path


def conll(path: Path, *sentences: str) -> Path:
    """A file of sentences such as ``a stent/B-X``."""
    rows = [[word.partition("/") for word in sentence.split()] for sentence in sentences]
    lines = ["".join(f"{w}\t{tag or 'O'}\n" for w, _, tag in row) for row in rows]
    path.write_text("\n".join(lines))
    return path


def test_a_model_from_a_few_sentences(call: Command, model: Path, drugs: Path) -> None:
    out = drugs.with_name("new model")
    code, said, err = call("adapt", drugs, "--out", out, "--model", model, "--test", drugs)
    assert code == 0
    lines = said.splitlines()
    assert lines[0] == f"Drug: 9 sentences, {sum(len(s.spans) for s in DRUGS)} mentions"
    assert re.fullmatch(
        r"expected F1: 0\.\d\d \(90% interval 0\.\d\d to \d\.\d\d\), on sentences like these",
        lines[1],
    )
    assert lines[2].startswith("with 10 more sentences: +0.")
    assert lines[3].startswith("test F1: ")
    assert lines[4].startswith(f"model: {out}, after ")
    assert lines[5] == f"next: hardner tag TEXT --model '{out}'"
    assert "warning: 9 of the 9 test sentences were learnt from" in err
    assert hardner.load(out).labels == ("Drug",)


def test_answers_are_learnt_beside_sentences(call: Command, model: Path, drugs: Path) -> None:
    text = "Aspirin was given."
    answer = Document("a", text, rejected=(Entity(12, 17, "Drug", "given"),))
    write([answer], answers := drugs.with_name("answers.jsonl"))
    out = drugs.with_name("new")
    code, said, err = call("adapt", drugs, answers, "--out", out, "--model", model)
    assert code == 0, err
    assert said.startswith("Drug: 9 sentences, ")
    assert "1 sentences are labelled in part, and learnt from as far as they are known" in err
    code, _, err = call("adapt", drugs, "none.tsv", "--out", out, "--model", model, "--force")
    assert (code, "none.tsv" in err) == (1, True)


def test_the_report_as_json_and_a_kept_type(call: Command, model: Path, drugs: Path) -> None:
    out = drugs.with_name("kept")
    plain = conll(drugs.with_name("plain.tsv"), *(" ".join(s.tokens) for s in PLAIN))
    code, said, err = call(
        *("adapt", drugs, "--label", "Drug", "--out", out, "--model", model, "--keep", "--json"),
        *("--unlabelled", plain, "--test", drugs, "--seed", 3),
    )
    assert code == 0, err
    report = json.loads(said)
    assert (report["sentences"], report["unlabelled"]) == (9, 5)
    assert report["expected_f1"]["low"] < report["expected_f1"]["value"]
    assert report["expected_gain"].keys() == {"value", "low", "high"}
    assert report["expected_f1_on_text"]["low"] < report["expected_f1_on_text"]["value"]
    assert report["more_sentences"] == 10
    assert report["test"]["tp"] + report["test"]["fn"] == report["mentions"]
    assert report["model"] == str(out)
    kept = hardner.load(out)
    assert kept.labels == ("Gene", "Species", "Drug")
    text = " ".join(word for s in DRUGS for word in s.tokens)
    assert [e for e in kept(text) if e.label != "Drug"] == hardner.load(model)(text)


def test_any_labelled_format(
    call: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "recipe_for", lambda preset, kind: replace(RULE, steps=100))
    out = tmp_path / "devices"
    code, said, err = call(
        "adapt", EXAMPLES / "devices-train.jsonl", "--out", out, "--model", model
    )
    assert (code, "Device: 20 sentences" in said) == (0, True), err


def test_new_sentences_alone(
    call: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardner.tag.predictor.BUNDLED_START", model)
    replace(known(), start=model).save(start := tmp_path / "start")
    for name, some in (("old", DRUGS[:6]), ("new", DRUGS[6:])):
        write([Document("d", "", sentences=some)], tmp_path / f"{name}.tsv", report=Report())
    old, new, first = tmp_path / "old.tsv", tmp_path / "new.tsv", tmp_path / "first"
    code, _, err = call("adapt", old, "--model", start, "--out", first, "--keep-sentences")
    assert code == 0, err
    assert "; the folder holds the sentences" in call("model", "show", first)[1]
    code, said, err = call("adapt", new, "--model", first, "--continue", "--out", tmp_path / "two")
    assert (code, said.splitlines()[0].split(",")[0]) == (0, "Drug: 9 sentences")
    assert "warning: learnt afresh, with 6 sentences that the model has kept\n" in err
    assert "cannot judge" not in err
    code, _, err = call("adapt", new, "--continue", "--out", tmp_path / "three")
    assert (code, "--continue goes on with a model of yours" in err) == (1, True)
    call("adapt", old, "--model", start, "--out", tmp_path / "bare")
    code, _, err = call(
        *("adapt", new, "--model", tmp_path / "bare", "--continue"), "--out", tmp_path / "four"
    )
    assert (code, "with --keep-sentences for the next time" in err) == (1, True)
    assert not (tmp_path / "four").exists()
    assert "sentences" not in call("model", "diff", first, tmp_path / "bare")[1]
    assert call("model", "forget", first, "--out", tmp_path / "shared")[0] == 0
    assert "the folder holds the sentences" not in call("model", "show", tmp_path / "shared")[1]
    word = max(DRUGS[0].tokens, key=len)
    texts = [(tmp_path / n / "config.json").read_text("utf-8") for n in ("first", "shared")]
    assert [f'"{word}"' in text for text in texts] == [True, False]


def test_one_sentence(call: Command, model: Path, tmp_path: Path) -> None:
    one = conll(tmp_path / "one.tsv", "a stent/B-Device was placed")
    code, said, err = call("adapt", one, "--out", tmp_path / "m", "--model", model)
    assert code == 0
    assert "warning: one sentence is too few to say how well this will work" in err
    assert "expected F1: unknown, as too few sentences hold a mention to hold some" in said


def test_a_single_mention_cannot_be_judged(call: Command, model: Path, tmp_path: Path) -> None:
    path = conll(tmp_path / "few.tsv", "a stent/B-Device was placed", "he went home", "it rained")
    options = ("adapt", path, "--model", model, "--out")
    code, said, _ = call(*options, tmp_path / "m")
    assert (code, "nan" in said) == (0, False)
    assert "expected F1: unknown, as too few sentences hold a mention to hold some" in said
    code, said, _ = call(*options, tmp_path / "n", "--json")
    report = json.loads(said, parse_constant=pytest.fail)  # no NaN
    assert (code, report["expected_f1"], report["expected_gain"]) == (0, None, None)


@pytest.mark.parametrize(
    ("sentences", "options", "said"),
    [
        (["a stent/B-X"], ["--label", "Y"], "no mention is labelled 'Y'; the labels are X (1)"),
        (["a stent", "b"], [], "the sentences hold no mention at all; label at least one"),
        (["a/B-X b/B-Y"], ["--label", "X", "--label", "Z"], "no mention is labelled 'Z'"),
        (["a/B-X b", "a b/B-X"], [], "it occurs twice and is labelled differently, 'a' and 'b'"),
    ],
)
def test_labels_that_cannot_be_learnt(
    call: Command, model: Path, tmp_path: Path, sentences: list[str], options: list[str], said: str
) -> None:
    path = conll(tmp_path / "bad.tsv", *sentences)
    code, out, err = call("adapt", path, "--out", tmp_path / "m", "--model", model, *options)
    assert (code, out) == (1, "")
    assert err.startswith(f"hardner: {path}: ")
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "m").exists()


def test_two_labels_for_one_span(call: Command, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    mentions = tuple(Entity(2, 7, label, "stent") for label in ("Device", "Product"))
    write([Document("d", "a stent was placed", mentions)], path)
    code, said, err = call(
        "adapt", path, "--label", "Device", "--out", tmp_path / "m", "--model", model
    )
    assert (code, said.splitlines()[0]) == (0, "Device: 1 sentence, 1 mention"), err


def test_long_learning_is_announced(
    call: Command, model: Path, drugs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("adapt", drugs, "--model", model, "--out")
    for name, seconds, said in (("m", 1e9, 0), ("n", 0, 1)):
        monkeypatch.setattr(command, "_LONG", seconds)
        code, _, err = call(*options, drugs.with_name(name))
        assert (code, err.count("learning will take about ")) == (0, said)


def test_a_test_file_without_the_label(call: Command, model: Path, drugs: Path) -> None:
    other = conll(drugs.with_name("test.tsv"), "a stent/B-Device")
    out = drugs.with_name("m")
    code, _, err = call("adapt", drugs, "--out", out, "--model", model, "--test", other)
    assert code == 1
    assert err.startswith(f"hardner: {other}: no mention is labelled 'Drug'")


def test_plain_text_to_learn_from(call: Command, model: Path, drugs: Path) -> None:
    text = drugs.with_name("abstracts.txt")
    text.write_text("A stent was placed. Then aspirin was given.\n\nNothing else was done.\n")
    out = drugs.with_name("m")
    code, said, err = call("adapt", drugs, "--out", out, "--model", model, "--unlabelled", text)
    assert code == 0, err
    assert said.splitlines()[0].endswith(" mentions, beside 3 without labels")
    assert hardner.load(out).labels == ("Drug",)


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_empty_unlabelled_text(call: Command, model: Path, drugs: Path, content: str) -> None:
    text = drugs.with_name("text.txt")
    text.write_text(content)
    out = drugs.with_name("m")
    code, _, err = call("adapt", drugs, "--out", out, "--model", model, "--unlabelled", text)
    assert code == 1
    assert err.startswith(f"hardner: {text}: holds no ")
    assert err.count("\n") == 1


def test_a_mention_across_tokens_is_left_out_and_said(
    call: Command, model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "cut.jsonl"
    texts = ["a stent was placed", "the tube was removed", "no stent here"]
    spans = [(2, 7), (4, 8), (4, 8)]
    write(
        [
            Document(f"d{i}", text, (Entity(*span, "Device", text[span[0] : span[1]]),))
            for i, (text, span) in enumerate(zip(texts, spans, strict=True))
        ],
        path,
    )
    code, said, err = call("adapt", path, "--out", tmp_path / "m", "--model", model)
    assert code == 0, err
    assert "document 'd2': a mention cuts a token: its sentence is left out" in err
    assert said.startswith("Device: 2 sentences, 2 mentions")


def test_a_folder_that_exists(call: Command, model: Path, drugs: Path) -> None:
    out = drugs.with_name("there")
    known().save(out)
    before = checkpoint.load_checkpoint(out).tensors.keys()
    code, _, err = call("adapt", drugs, "--out", out, "--model", model)
    assert (code, checkpoint.load_checkpoint(out).tensors.keys()) == (1, before)
    assert (
        err == f"hardner: {out}: exists already; name another folder, or replace it with --force\n"
    )
    assert call("adapt", drugs, "--out", out, "--model", model, "--force")[0] == 0
    assert hardner.load(out).labels == ("Drug",)
    foreign = drugs.with_name("foreign")
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("mine")
    code, _, err = call("adapt", drugs, "--out", foreign, "--model", model, "--force")
    assert code == 1
    assert "is not a hardner model, so it is not replaced" in err
    assert (foreign / "thesis.tex").read_text() == "mine"


def test_a_refusal_writes_nothing(
    call: Command, model: Path, drugs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = replace(RULE, rate=1e30, clip=0.0)
    monkeypatch.setattr(fitting, "recipe_for", lambda preset, kind: rule)
    out = drugs.with_name("m")
    code, said, err = call("adapt", drugs, "--out", out, "--model", model, "--force")
    assert (code, said) == (1, "")
    assert err.startswith("hardner: learning diverged")
    assert [path.name for path in drugs.parent.iterdir()] == [drugs.name]


@pytest.mark.parametrize("where", ["fitting", "saving"])
def test_ctrl_c_leaves_nothing(
    call: Command, model: Path, drugs: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(command, "_LONG", 1e9)  # however slow the machine is
    owner, name = (fitting, "fit_samples") if where == "fitting" else (checkpoint, "save_file")
    monkeypatch.setattr(owner, name, interrupted)
    out = drugs.with_name("m")
    code, said, err = call("adapt", drugs, "--out", out, "--model", model)
    assert (code, said) == (130, "")
    assert err == "interrupted; nothing was written\n"
    assert [path.name for path in drugs.parent.iterdir()] == [drugs.name]


@pytest.mark.parametrize("there", [False, True])
def test_ctrl_c_in_cross_validation_keeps_the_first_model_where_none_was(
    call: Command, model: Path, drugs: Path, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(command, "_LONG", 1e9)
    monkeypatch.setattr(workflow, "cross_validate", interrupted)
    out = drugs.with_name("m")
    if there:
        known().save(out)
    code, said, err = call("adapt", drugs, "--out", out, "--model", model, "--force")
    assert (code, said) == (130, "")
    found = hardner.load(out)
    if there:  # a model is replaced only by one that was judged
        assert err == "interrupted; nothing was written\n"
        assert found.labels == known().labels and not found.origins
        return
    known_not = "holds the model, but which F1 to expect of it is not known"
    assert err == f"interrupted; {out} {known_not}\n"
    assert found.labels == ("Drug",)
    assert found.origins["Drug"].expected == ()


def test_a_model_that_turns_out_worse_is_taken_back(
    call: Command, model: Path, drugs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worse(*_: object, **__: object) -> None:
        raise AdaptationRefused("the model's own does better")

    monkeypatch.setattr(workflow, "cross_validate", worse)
    out = drugs.with_name("m")
    assert call("adapt", drugs, "--out", out, "--model", model)[0] == 1
    assert not out.exists()
    known().save(out)
    assert call("adapt", drugs, "--out", out, "--model", model, "--force")[0] == 1
    assert hardner.load(out).labels == ("Gene", "Species")  # as it was


def test_several_types_in_one_run(
    call: Command, model: Path, drugs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [
        replace(s, spans=(*s.spans, *(x._replace(label="Agent") for x in s.spans))) for s in DRUGS
    ]
    write([Document("d", "", sentences=both)], path := drugs.with_name("both.jsonl"))
    out = drugs.with_name("m")
    options = ("adapt", path, "--model", model, "--out")
    code, said, err = call(*options, out, "--test", drugs)
    assert code == 0, err
    lines = said.splitlines()
    mentions = sum(len(s.spans) for s in DRUGS)
    assert lines[0] == f"2 types: 9 sentences, {2 * mentions} mentions"
    assert lines[1].startswith(f"Agent: {mentions} mentions in ")
    assert lines[2].startswith("  expected F1: 0.")
    assert any(line.startswith("test F1 of Drug: ") for line in lines)
    assert hardner.load(out).labels == ("Agent", "Drug")
    check = judge.check_spans

    def refuse(gold: list[Sentence], found: list[list[Span]]) -> None:
        if any(span.label == "Agent" for sentence in gold for span in sentence.spans):
            raise AdaptationRefused("the adapted model tags nothing")
        check(gold, found)

    monkeypatch.setattr(judge, "check_spans", refuse)
    code, said, _ = call(*options, drugs.with_name("n"), "--json")
    report = json.loads(said)
    assert code == command.SOME_LEFT_OUT
    assert [(row["label"], row["outcome"]) for row in report["types"]] == [
        ("Agent", "left out"),
        ("Drug", "learnt"),
    ]
    assert report["types"][0]["reason"] == "the adapted model tags nothing"
    assert hardner.load(drugs.with_name("n")).labels == ("Drug",)
    code, said, _ = call(*options, drugs.with_name("o"), "--label", "Drug")
    assert (code, said.splitlines()[0]) == (0, f"Drug: 9 sentences, {mentions} mentions")


def test_no_model_folder(call: Command, drugs: Path) -> None:
    out, model = drugs.with_name("m"), drugs.with_name("nowhere")
    code, _, err = call("adapt", drugs, "--out", out, "--model", model)
    assert (code, err) == (1, f"hardner: {model}: no such model folder\n")


def test_help_shows_examples(call: Command) -> None:
    code, said, _ = call("adapt", "--help")
    assert code == 0
    for part in ("--label", "--keep", "--unlabelled", "hardner adapt examples/devices-train.jsonl"):
        assert part in said
