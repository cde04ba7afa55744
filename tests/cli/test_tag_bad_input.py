"""What `hardner tag` is given in the wild: each has a result, or one clear line."""

import json
import shutil
from pathlib import Path

import pytest
from formats.command import Command
from tag import small_models as models

MODEL = models.folder()


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capfd, monkeypatch)


@pytest.mark.parametrize(
    "text",
    [
        "Emoji 👩🏽‍🔬 and 🧬 beside BRCA1 and 😀asthma😀.",
        "Combining: Cafe\u0301, n\u0303, ạ̈ and o\u0308\u0323 in mice.",
        "Controls:\x01\x07\x1b[31mred\x1b[0m\x7f\x85\u2028 BRCA1 \u200b\ufeff.",
        "المريض يعاني من الربو ويأخذ الأسبرين. לחולה יש אסתמה.",
        "\u202eBRCA1 read backwards\u202c and on.",
        "CRLF\r\nline\rends with asthma.\r\n",
        "a" * 3_000 + " " + "b" * 2_000,
        "中文没有空格但是有基因BRCA1和疾病。",
    ],
)
@pytest.mark.parametrize("format", ["jsonl", "html", "text", "bioc", "conll"])
def test_unusual_characters(call: Command, tmp_path: Path, text: str, format: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text, "utf-8", newline="")
    code, out, err = call("tag", path, "--from", "text", "--to", format, "--model", MODEL)
    if format == "bioc" and code:  # XML has no place for some control characters
        assert (out, err.count("\n")) == ("", 1)
        assert "control" in err or "XML" in err
        return
    assert code == 0, err
    assert "Traceback" not in err
    if format == "jsonl":
        record = json.loads(out)
        assert record["text"] == text
        for found in record["entities"]:
            assert found["text"] == text[found["start"] : found["end"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no text"),
        (b" \n\t\n", "holds no text"),
        (b"asthma \xff\xfe", ":1: byte 0xFF is not UTF-8; re-code the file"),
        (b"one\ntwo\x00", ":2: a NUL byte"),
    ],
)
def test_what_is_no_text_is_one_line(
    call: Command, tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    for extra in ((), ("--out", tmp_path / "o.jsonl"), ("--out", f"{tmp_path}/o/")):
        code, out, err = call("tag", path, "--from", "text", "--model", MODEL, *extra)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert f"{path}" in err
        assert message in err


def test_an_empty_document_is_no_error(call: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": ""}\n{"text": " "}\n{"text": "asthma"}\n')
    code, out, _ = call("tag", path, "--model", MODEL)
    assert code == 0
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["", " ", "asthma"]


def test_missing_files_are_one_line(call: Command, tmp_path: Path) -> None:
    for extra in ((), ("--out", tmp_path / "o.jsonl"), ("--out", f"{tmp_path}/o/")):
        code, out, err = call("tag", tmp_path / "none.txt", "--model", MODEL, *extra)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "none.txt: " in err.lower()
        assert "no such file" in err.lower()


@pytest.mark.parametrize("how", ["missing", "truncated", "foreign"])
def test_a_bad_model_is_one_line(call: Command, tmp_path: Path, how: str) -> None:
    model = shutil.copytree(MODEL, tmp_path / "model")
    weights = model / "weights.safetensors"
    if how == "missing":
        shutil.rmtree(model)
    elif how == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    else:
        (model / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"]}')
    (tmp_path / "a.txt").write_text("asthma")
    code, out, err = call("tag", tmp_path / "a.txt", "--model", model)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"hardner: {model}")


def test_five_megabytes_on_one_line(call: Command, tmp_path: Path) -> None:
    """No space and no stop: one token that is read, in part, and never cut silently."""
    path = tmp_path / "a.txt"
    path.write_text("a" * 5_000_000 + " asthma BRCA1")
    code, out, err = call("tag", path, "--model", MODEL, "--from", "text")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert len(record["text"]) == 5_000_013
    for found in record["entities"]:
        assert found["text"] == record["text"][found["start"] : found["end"]]
