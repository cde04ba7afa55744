"""The commands `hardner score` and `hardner compare`, and thresholds on the command line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from formats.command import Command
from tag import small_models as models

import hardner
from hardner.formats import read, write
from hardner.scale.tagging import TagJob
from hardner.tag.thresholds import PrecisionRecallCurve
from hardner.types import Document, Entity

TEXT = "Aspirin may worsen asthma in mice. BRCA1 is a gene; p53 is one too."
GOLD = tuple(
    Document(
        f"d{i}", TEXT, (Entity(0, 7, "Chemical", "Aspirin"), Entity(29, 33, "Species", "mice"))
    )
    for i in range(3)
)
CURVE = PrecisionRecallCurve(90, (30, 90), (30, 60), (5, 59))
MODEL = models.folder()


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "120")
    return Command(capfd, monkeypatch)


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    write(GOLD, tmp_path / "gold.jsonl")
    return tmp_path / "gold.jsonl"


@pytest.fixture
def curved(tmp_path: Path) -> Path:
    """A model that knows of its chemicals how precise they are."""
    replace(models.predictor(), curves={"Chemical": CURVE}).save(tmp_path / "curved")
    return tmp_path / "curved"


def test_a_table_and_the_worst_sentences(call: Command, gold: Path) -> None:
    code, out, err = call("score", MODEL, gold, "-n", 1)
    assert code == 0
    assert err == "warning: not scored, as the data has none of them: Disease, Gene\n"
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:8]] == ["label", "Chemical", "Species", "all"] * 2
    report = hardner.load(MODEL).score(gold)
    assert f"{report.total.f1.value:.3f}" in lines[3]
    (worst,) = report.worst(1)
    assert lines[8:] == [f"{worst.gold.document}: {worst.marked()}"]


def test_the_same_as_json(call: Command, gold: Path) -> None:
    code, out, _ = call("score", MODEL, gold, "--json", "--labels", "Chemical,Gene")
    assert code == 0
    said = json.loads(out)
    report = hardner.load(MODEL).score(gold, ["Chemical", "Gene"])
    assert said["labels"] == report.to_records()
    assert said["errors"] == report.error_records()
    assert (said["documents"], said["sentences"], said["unit"]) == (3, 6, "sentence")


def test_worst_sentences_as_a_page(call: Command, gold: Path, tmp_path: Path) -> None:
    page = tmp_path / "worst.html"
    code, _, err = call("score", MODEL, gold, "--html", page, "-n", 2)
    assert code == 0
    assert f"2 sentences -> {page}" in err
    text = page.read_text()
    assert text.count("<h2>") == 2
    assert "Species spurious" in text


def test_partial_matches(call: Command, gold: Path) -> None:
    pytest.importorskip("nervaluate", reason="nervaluate is not installed")
    code, out, _ = call("score", MODEL, gold, "--partial")
    assert code == 0
    assert "partial F1" in out


def test_two_models(call: Command, gold: Path, tmp_path: Path) -> None:
    strict = tmp_path / "strict"
    models.predictor().with_thresholds(1.0).save(strict)
    code, out, err = call("compare", MODEL, strict, gold, "-n", 2)
    assert (code, err.count("\n")) == (0, 1)
    report = hardner.load(MODEL).compare(hardner.load(strict), gold)
    kinds = [c.kind for c in report.changes]
    assert f"{report.total.difference.value:+.3f}" in out
    for kind in set(kinds):
        assert f"{kind}: {kinds.count(kind)}" in out.splitlines()
    code, out, _ = call("compare", MODEL, strict, gold, "--json")
    assert code == 0
    assert json.loads(out)["changes"] == report.change_records()
    assert json.loads(out)["labels"] == report.to_records()


def test_the_bundled_model_has_a_name(call: Command, gold: Path) -> None:
    code, out, _ = call("score", "bundled", gold, "--labels", "Chemical", "--json")
    assert code == 0
    assert json.loads(out)["labels"][0]["f1"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("no-model", "{gold}"), 1, "hardner: no-model: no such model folder"),
        (("{model}", "no.jsonl"), 1, "hardner: no.jsonl: no such file or folder"),
        (("{model}", "{gold}", "--labels", "Device"), 1, "the model has no label 'Device'"),
        (("{model}", "{gold}", "--threshold", "2"), 2, "'2' is no score from 0 to 1, such as"),
        (("{model}", "{gold}", "--threshold", "Gene=x"), 2, "'Gene=x' is no score from 0 to 1"),
        (("{model}", "{gold}", "--min-precision", "0.9"), 1, "nothing is known of the precision"),
        (("{model}", "{gold}", "--encoding", "zip"), 2, "'zip' is no encoding of text"),
        (("{model}", "{gold}", "--map", "DRUG"), 2, "'DRUG' is not of the form ITS=OURS"),
        (("{model}", "{gold}", "--map", "A=Gene"), 1, "labelled 'A'; it has Chemical, Species"),
        (("{model}", "{gold}", "--map", "Species=Beast"), 1, "the model has no label 'Beast'"),
    ],
)
def test_mistakes_are_one_line(
    call: Command, gold: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    filled = [word.format(gold=gold, model=MODEL) for word in arguments]
    ended, out, err = call("score", *filled)
    assert (ended, out, err.count("\n")) == (code, "", 1)
    assert said in err


def test_other_names_of_types(call: Command, gold: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    names = {"Chemical": "DRUG", "Species": "Organism"}
    write(
        (
            replace(d, entities=tuple(replace(e, label=names[e.label]) for e in d.entities))
            for d in GOLD
        ),
        other,
    )
    code, _, err = call("score", MODEL, other)
    assert code == 1
    assert "DRUG (3), Organism (3)" in err and "--map ITS=OURS" in err
    pairs = ("--map", "DRUG=Chemical", "--map", "Organism=Species", "--json")
    wanted = json.loads(call("score", MODEL, gold, "--json")[1])["labels"]
    code, out, _ = call("score", MODEL, other, *pairs)
    assert (code, json.loads(out)["labels"]) == (0, wanted)
    wanted = json.loads(call("compare", MODEL, MODEL, gold, "--json")[1])["labels"]
    assert json.loads(call("compare", MODEL, MODEL, other, *pairs)[1])["labels"] == wanted


def test_evaluate_points_to_score(call: Command, gold: Path) -> None:
    code, _, err = call("evaluate", MODEL, gold)
    assert code == 1
    assert err.endswith(f"hardner score {MODEL} {gold}\n")


def labels_and_scores(out: str) -> list[tuple[str, float]]:
    return [
        (e["label"], e["score"]) for line in out.splitlines() for e in json.loads(line)["entities"]
    ]


def test_thresholds_of_tag(call: Command, gold: Path) -> None:
    every = labels_and_scores(call("tag", gold, "--model", MODEL)[1])

    def kept(*options: object) -> list[tuple[str, float]]:
        code, out, _ = call("tag", gold, "--model", MODEL, *options)
        assert code == 0
        return labels_and_scores(out)

    def above(**least: float) -> list[tuple[str, float]]:
        return [(name, s) for name, s in every if s >= least.get(name, least.get("rest", 0.0))]

    assert kept("--threshold", "0.6") == kept("--min-score", "0.6") == above(rest=0.6)
    both = kept("--threshold", "Gene=0.7", "--threshold", "0.5")
    assert both == above(Gene=0.7, rest=0.5) != above(rest=0.5)
    assert kept("--threshold", "Gene=0.7") == above(Gene=0.7) != every


def test_a_precision_that_is_promised(call: Command, gold: Path, curved: Path) -> None:
    promised = CURVE.at(0.9).promised - 0.001
    every = labels_and_scores(call("tag", gold, "--model", curved)[1])
    code, out, err = call("tag", gold, "--model", curved, "--min-precision", promised)
    assert code == 0
    assert err == (
        "warning: --min-precision: nothing is known of Disease, Gene, Species; "
        "their thresholds stay\n"
    )
    expected = [(name, s) for name, s in every if name != "Chemical" or s >= 0.9]
    assert labels_and_scores(out) == expected != every
    # A threshold that is named counts more; a label that is named has to be known.
    own = ("--threshold", "Chemical=0")
    code, out, _ = call("tag", gold, "--model", curved, "--min-precision", promised, *own)
    assert (code, labels_and_scores(out)) == (0, every)
    code, _, err = call(
        *("tag", gold, "--model", curved, "--min-precision", promised, "--labels", "Gene")
    )
    assert (code, err.count("\n")) == (1, 1)
    assert "nothing is known of the precision of Gene" in err
    code, _, err = call("tag", gold, "--model", curved, "--min-precision", "0.999")
    assert code == 1
    assert "no threshold of Chemical promises a precision of 0.999" in err


def test_a_plan_remembers_thresholds_as_it_always_did() -> None:
    assert TagJob(str(MODEL)).threshold_setting == 0.0
    assert TagJob(str(MODEL), min_score=0.5).threshold_setting == 0.5
    least = {"Gene": 0.7}
    setting = TagJob(str(MODEL), min_score=least).threshold_setting
    assert setting == {"Disease": 0.0, "Chemical": 0.0, "Species": 0.0, "Gene": 0.7}
    json.dumps(setting)


@pytest.mark.parametrize("command", ["tag", "convert", "suggest", "score", "adapt"])
def test_text_in_another_encoding(call: Command, tmp_path: Path, command: str) -> None:
    mouse = {"start": 6, "end": 10, "label": "Species", "text": "mice"}
    record = {"id": "d", "text": "Naïve mice had asthma.", "entities": [mouse]}
    lines = json.dumps(record, ensure_ascii=False).encode("latin-1") + b"\n"
    (tmp_path / "a.jsonl").write_bytes(lines)
    arguments = {
        "tag": ("a.jsonl", "--model", MODEL),
        "convert": ("a.jsonl", "-", "--to", "jsonl"),
        "suggest": ("a.jsonl", "--model", MODEL, "--json"),
        "score": (MODEL, "a.jsonl", "--json"),
        "adapt": ("a.jsonl", "--out", tmp_path / "made", "--model", MODEL),
    }[command]
    words = [tmp_path / word if word == "a.jsonl" else word for word in arguments]
    code, _, err = call(command, *words)
    assert code == 1
    assert "byte 0xEF is not UTF-8; re-code the file" in err
    assert "or name its --encoding" in err
    code, out, err = call(command, *words, "--encoding", "latin-1")
    if command == "adapt":  # which then says that one sentence is too few, or learns from it
        assert "UTF-8" not in err
    else:
        assert code == 0, err
        assert "Naïve" in out


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8"])
def test_an_encoding_is_of_the_text_alone(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.txt").write_bytes("Naïve mice – all".encode(encoding, "replace"))
    wanted = "Naïve mice – all".encode(encoding, "replace").decode(encoding)
    documents = read(tmp_path / "a.txt", encoding=encoding)
    (document,) = documents
    assert document.text == wanted
    # It does not outlast the reader's turn.
    (tmp_path / "b.txt").write_text("naïve", "utf-8")
    reader = read(tmp_path / "a.txt", encoding=encoding)
    next(reader)
    assert next(iter(read(tmp_path / "b.txt"))).text == "naïve"
    with pytest.raises(hardner.errors.HardnerError, match="unknown encoding 'utf-99'"):
        next(read(tmp_path / "b.txt", encoding="utf-99"))
