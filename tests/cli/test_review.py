"""`hardner review`: questions in order, answers that are kept at once and learnt from."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
import tiny
from adapt.adapted import known
from formats.command import Command

from hardner.adapt.examples import examples, read_labelled
from hardner.formats import read
from hardner.tag.predictor import Predictor
from hardner.tag.review import answered, questions, wording
from hardner.types import Sentence, Span

TEXT = "\n".join(" ".join(s.tokens) for s in tiny.sentences("Gene", "test"))


class Fixed(Predictor):
    """Finds what it is told."""

    def __init__(self, found: dict[str, list[tuple[Span, float]]]) -> None:
        self.found = found

    def spans(self, sentences, **_):  # type: ignore[no-untyped-def]
        return [self.found.get(" ".join(s.tokens), []) for s in sentences]


def test_the_wording_that_is_wrong_by_most_comes_first() -> None:
    def at(word: int, score: float) -> tuple[Span, float]:
        return Span(word, word + 1, "X"), score

    found = {
        "a pump": [at(1, 0.6)],
        "the Pump here": [at(1, 0.5)],
        "rare thing": [at(1, 0.3)],
        "sure thing": [at(0, 0.99)],
    }
    given = [Sentence(tuple(text.split())) for text in [*found, "a pump"]]  # one of them twice
    told: list[tuple[int, int]] = []
    asked = questions(Fixed(found), given, on_progress=lambda *at: told.append(at))
    shown = [(wording(q.sentence, q.span), q.score, q.others) for q in asked]
    # pump is wrong by .4 + .5, thing by .7; asked once, what is left of pump is worth .45
    assert shown == [("pump", 0.5, 1), ("thing", 0.3, 0), ("pump", 0.6, 1), ("sure", 0.99, 0)]
    assert told == [(4, 4)]


def test_an_answer_says_no_more_than_was_asked() -> None:
    sentence = Sentence(("a", "pump"), (Span(0, 1, "Y"),), "s", ((0, 1), (2, 6)))
    (question,) = questions(Fixed({"a pump": [(Span(1, 2, "X"), 0.5)]}), [sentence])
    yes, no = answered(question, True), answered(question, False)
    assert (yes.spans, yes.rejected, yes.state) == ((Span(1, 2, "X"),), (), "partial")
    assert (no.spans, no.rejected, no.state) == ((), (Span(1, 2, "X"),), "partial")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "genes"
    known().save(folder)
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capfd, monkeypatch)


def typed(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{key}\n" for key in keys)))


def answers(path: Path) -> list[tuple[list[str], list[str]]]:
    return [
        ([e.text for e in d.entities], [e.text for e in d.rejected]) for d in read(path, "jsonl")
    ]


def test_answers_are_kept_and_asked_no_more(
    call: Command, model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = text.with_name("answers.jsonl")
    command = ("review", text, "--model", model, "--out", out, "--label", "Gene")
    typed(monkeypatch, "y", "what?", "no", "s", "q")
    code, said, err = call(*command)
    assert code == 0
    assert err.startswith(f"2 answers (1 yes, 1 no) in {out}; next: hardner adapt LABELLED {out}")
    assert said.count("y: yes, it is one; n: no") == 2  # at the start, and for want of an answer
    first = answers(out)
    assert [(len(yes), len(no)) for yes, no in first] == [(1, 0), (0, 1)]
    typed(monkeypatch, "n", "u", "u", "y")  # the first takes back, the second finds nothing to
    code, said, err = call(*command)
    assert code == 0
    assert answers(out)[:2] == first
    assert len(answers(out)) == 3
    assert not any(yes + no in [f[0] + f[1] for f in first] for yes, no in answers(out)[2:])
    held = read_labelled(str(out), "Gene")
    assert {s.state for s in held} == {"partial"}
    learnt = examples([*tiny.sentences("Gene")[:3], *held], "Gene")
    assert sum(len(s.spans) + len(s.rejected) for s in learnt.partial) == 3


def test_an_end_of_the_input_ends_it_and_a_torn_line_is_cut(
    call: Command, model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = text.with_name("answers.jsonl")
    typed(monkeypatch, "n")
    assert call("review", text, "--model", model, "--out", out, "-n", 5)[0] == 0
    whole = out.read_bytes()
    out.write_bytes(whole + whole[:20])
    typed(monkeypatch, "y")
    assert call("review", text, "--model", model, "--out", out, "-n", 5)[0] == 0
    assert out.read_bytes().startswith(whole)
    assert len(answers(out)) == 2


def test_what_is_labelled_is_not_asked_about(
    call: Command, model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "y")
    out = text.with_name("answers.jsonl")
    code, _, err = call("review", text, "--model", model, "--out", out, "--labelled", text)
    assert code == 0 and not out.exists()
    assert "the model finds no other mention there" in err


def test_other_files_are_not_appended_to(
    call: Command, model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labelled = text.with_name("labelled.jsonl")
    labelled.write_text(json.dumps({"text": "A stent.", "entities": []}) + "\n")
    before = labelled.read_bytes()
    for out, said in ((labelled, "holds other than answers"), ("-", "review reads answers")):
        code, _, err = call("review", text, "--model", model, "--out", out)
        assert (code, said in err) == (1, True)
    code, _, err = call("review", text, "--model", model, "--out", text)
    assert code == 1
    assert labelled.read_bytes() == before and text.read_text("utf-8") == TEXT


def test_keys_on_a_terminal_and_an_interrupt_that_loses_nothing(model: Path, text: Path) -> None:
    out = text.with_name("answers.jsonl")
    main, other = pty.openpty()
    command = [sys.executable, "-m", "hardner", "review", text, "--model", model, "--out", out]
    process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other)
    os.close(other)
    shown = b""

    def until(wanted: bytes) -> None:
        nonlocal shown
        while wanted not in shown:
            shown += os.read(main, 4096)

    until(b"[1/")
    while termios.tcgetattr(main)[3] & termios.ICANON:  # a key is read from now on, not a line
        time.sleep(0.01)
    os.write(main, b"n")  # without Enter
    until(b"[2/")
    assert len(answers(out)) == 1
    process.send_signal(signal.SIGINT)
    until(b"stopped; the answers are in")
    for _ in range(600):
        if process.poll() is not None:
            break
        time.sleep(0.1)
    assert process.wait(60) == 130
    os.close(main)
    assert len(answers(out)) == 1
