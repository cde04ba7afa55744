"""``hardner export`` and ``hardner distil``: models for other tools, and small ones."""

import re
from pathlib import Path
from typing import Any

import pytest
import tiny
from formats.command import Command
from tag.small_models import folder, predictor

import hardner
from hardner.export import quantise

TEXT = "Aspirin may worsen asthma in mice. BRCA1 is a gene."


@pytest.fixture
def call(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, single: None
) -> Command:
    """Only the form of a model is compared, in one precision."""
    return Command(capfd, monkeypatch)


def places(model: hardner.Predictor) -> list[tuple[int, int, str]]:
    return [(e.start, e.end, e.label) for e in model(TEXT)]


def test_an_onnx_model_is_written_and_compared(call: Command, tmp_path: Path) -> None:
    out = tmp_path / "onnx"
    options = ("--float32", "--model", folder("transformer"))
    code, said, err = call("export", "--onnx", out, *options)
    assert (code, said) == (0, "")
    assert re.search(r"scores differ by \d+e-0[5-9] at most; F1 1.000 -> 1.000", err)
    assert re.search(r"[\d,]+ -> [\d,]+ words/s", err)
    assert places(hardner.load(out)) == places(predictor("transformer"))


def test_eight_bits_are_written_where_they_cost_little(call: Command, tmp_path: Path) -> None:
    out = tmp_path / "int8"
    code, said, err = call("export", "--onnx", out, "--model", folder("transformer"))
    assert (code, said) == (0, "")
    assert re.search(r"8-bit weights; F1 1.000 -> (0.99\d|1.000) against the model's own", err)
    assert hardner.load(out)(TEXT)


def test_eight_bits_are_refused_where_they_cost_too_much(
    call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = quantise._integers

    def coarse(matrix: Any, axis: int) -> tuple[Any, Any]:
        numbers, scales = exact(matrix, axis)
        return (numbers // 48 * 48).astype(numbers.dtype), scales

    monkeypatch.setattr(quantise, "_integers", coarse)
    out = tmp_path / "int8"
    code, said, err = call("export", "--onnx", out, "--int8", "--model", folder("transformer"))
    assert (code, said) == (1, "")
    assert re.fullmatch(r"hardner: F1 drops from 1.000 to 0.\d+, more than 0.01; .*\n", err)
    assert not out.exists()
    code, said, err = call("export", "--onnx", out, "--model", folder("transformer"))
    assert (code, said) == (0, "")
    first, second = err.splitlines()
    assert re.fullmatch(r"8 bits would cost too much \(F1 1.000 -> 0.\d+\): in single .*", first)
    assert "scores differ by" in second
    assert places(hardner.load(out)) == places(predictor("transformer"))


def test_a_labelled_file_decides(call: Command, tmp_path: Path) -> None:
    labelled = tiny.ROOT / "Gene" / "test.tsv"
    out = tmp_path / "int8"
    model = folder("transformer")
    code, _, err = call("export", "--onnx", out, "--int8", "--model", model, "--check", labelled)
    before, after = map(float, re.search(r"F1 .*?(\d\.\d+) (?:->|to) (\d\.\d+)", err).groups())
    assert code == (1 if before - after > 0.01 else 0)
    assert before < 0.5, "a random model cannot be right"


def test_labels_that_are_not_there_are_one_clear_line(call: Command, tmp_path: Path) -> None:
    empty = tmp_path / "empty.tsv"
    empty.write_text("a\tO\nb\tO\n\n", "utf-8")
    code, _, err = call("export", "--onnx", tmp_path / "o", "--check", empty, "--model", folder())
    assert code == 1
    assert err == f"hardner: {empty}: holds no mentions to check with\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Say one of --onnx OUT and --huggingface OUT"),
        (["--onnx", "a", "--huggingface", "b"], "Say one of"),
        (["--huggingface", "b", "--int8"], "--int8, --float32 and --check are for"),
    ],
)
def test_options_that_do_not_go_together(call: Command, options: list[str], message: str) -> None:
    code, _, err = call("export", *options)
    assert code == 2
    assert message in err


def test_what_hugging_face_cannot_hold_is_one_clear_line(call: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, _, err = call("export", "--huggingface", out, "--model", folder("transformer"))
    assert code == 1
    assert err.startswith("hardner: Hugging Face has no network like this one")
    assert err.count("\n") == 1 and not out.exists()


@pytest.mark.parametrize("named", ["option", "folder"])
def test_a_small_model_is_taught(call: Command, tmp_path: Path, named: str) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(s.tokens) for s in tiny.everything()[0][:40]), "utf-8")
    out = tmp_path / "small"
    model = folder("transformer")
    given = (text, "--model", model) if named == "option" else (model, text)
    size = ("--hidden", 8) if named == "option" else ("--layers", 1)
    options = ("--steps", 3, "--batch", 8, *size, "--device", "cpu")
    code, said, err = call("distil", *given, "--out", out, *options)
    assert (code, said) == (0, "")
    found = re.search(
        r"taught with (\d+) sentences; F1 0\.\d+ against the teacher's own \d+ mentions in (\d+) "
        r"others; \d+\.\d times as fast",
        err,
    )
    assert found
    taught, held = map(int, found.groups())
    assert 1 <= held <= -(-(taught + held) // 10)
    small = hardner.load(out)
    assert small.labels == predictor("transformer").labels
    encoder = small.tagger.encoder
    assert encoder.hidden == 8 if named == "option" else encoder.transformer.layers == 1


def test_one_model_teaches_from_some_text(call: Command, tmp_path: Path) -> None:
    model = folder("transformer")
    code, _, err = call("distil", model, "--out", tmp_path / "small")
    assert (code, err.count("\n")) == (1, 1)
    assert "there is no text to learn from" in err
    code, _, err = call("distil", model, "a.txt", "--model", model, "--out", tmp_path / "small")
    assert code == 1 and "two models" in err
    text = tmp_path / "a.txt"
    text.write_text("One.", "utf-8")
    out = ("--out", tmp_path / "small")
    code, _, err = call("distil", model, text, *out, "--hidden", 8, "--layers", 1)
    assert code == 1 and "--hidden is of a BiLSTM" in err
    code, _, err = call("distil", model, text, *out, "--layers", 9)
    assert code == 1 and "its student has 1 to 1" in err
