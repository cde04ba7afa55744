"""``hardner review``: say of what a model found what is right, the likeliest false alarms first."""

import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text
from typer import Argument, Option

from hardner.cli.common import check_not_read, message_on_interrupt, progress_bar, say
from hardner.cli.options import DEVICE_OPTION, MODEL_OPTION, SOURCE_FORMAT_OPTION
from hardner.cli.suggest import bare_sentences, sentence_as_document
from hardner.errors import FileError
from hardner.files import append_lines, is_standard
from hardner.formats import Report, read
from hardner.formats.format import Place
from hardner.formats.jsonl import encode_document
from hardner.text import sentences
from hardner.types import Document, Entity, Sentence, Span

if TYPE_CHECKING:
    from hardner.tag.review import Question

_HELP = "y: yes, it is one; n: no; s: skip it for now; u: undo the last answer; q: quit"
_Known = tuple[tuple[str, ...], Span]


def review_command(
    texts: Annotated[list[str], Argument(metavar="TEXT...", help="Files or folders.")],
    out: Annotated[Path, Option(metavar="FILE", help="Answers; those in it stay.")],
    model: MODEL_OPTION = None,
    label: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Ask about this type; may be repeated; default: all."),
    ] = None,
    count: Annotated[int, Option("-n", min=1, help="Questions at most.")] = 50,
    labelled: Annotated[
        list[str] | None,
        Option(metavar="LABELLED", help="Labelled sentences, not to be asked about."),
    ] = None,
    source_format: SOURCE_FORMAT_OPTION = None,
    device: DEVICE_OPTION = "auto",
) -> None:
    """Answer yes or no to mentions that a model finds, the likeliest false alarms first.

    A model of sentences that all hold mentions finds too many in a whole corpus. A few seconds of
    answers cure that: each says of one mention whether it is right, and nothing of the rest of its
    sentence. Wordings that are found often, and that the model is least sure of, come first. Every
    answer is in FILE as soon as it is given; the same command goes on later. Give FILE to hardner
    adapt beside your labelled sentences.

    Keys: y, n, s to skip, u to take back the last answer, q to quit; lines of these where standard
    input is no terminal.

    Examples:

    - `hardner review abstracts.txt --model device-model --out answers.jsonl`
    - `hardner adapt labelled.jsonl answers.jsonl --out better-model`
    """
    from hardner.tag.predictor import Predictor
    from hardner.tag.review import questions

    if is_standard(out) or any(map(is_standard, texts)):
        raise FileError(out if is_standard(out) else "-", "review reads answers from there")
    check_not_read(out, *texts, *(labelled or []))
    answers = _Answers.read(out)
    predictor = Predictor.load(model, device)
    with message_on_interrupt(f"stopped; the answers are in {out}"):
        done = {s.tokens for s in bare_sentences(labelled or [], None)}
        pool = [s for s in bare_sentences(texts, source_format) if s.tokens not in done]
        with progress_bar() as shown:
            task = shown.add_task("tagging", total=len(pool))
            found = questions(
                predictor, pool, label, lambda at, total: shown.update(task, completed=at)
            )
        asked = [q for q in found if (q.sentence.tokens, q.span) not in answers.known]
        _Review(answers, asked[:count]).run()
    say(f"{answers.said()}; next: hardner adapt LABELLED {out} --out DIR")


@dataclass
class _Answers:
    """The file of answers."""

    path: Path
    known: set[_Known]
    given: list[tuple[_Known, bool, int]] = field(default_factory=list)
    """In this sitting: what was asked about, the answer, and how long the file was before."""

    @classmethod
    def read(cls, path: Path) -> "_Answers":
        from hardner.evaluate.results import cut_partial_line

        known: set[_Known] = set()
        if path.exists() and path.stat().st_size:
            cut_partial_line(path)
            for document in read(path, "jsonl", report=Report()):
                for sentence in sentences(document):
                    if sentence.state != "partial":
                        message = "holds other than answers; name another file"
                        raise FileError(path, message)
                    spans = (*sentence.spans, *sentence.rejected)
                    known |= {(sentence.tokens, span) for span in spans}
        return cls(path, known)

    def add(self, question: "Question", is_mention: bool) -> None:
        from hardner.tag.review import answered

        before = self.path.stat().st_size if self.path.exists() else 0
        document = _document(answered(question, is_mention))
        record = encode_document(document, Report(), Place(self.path, document=document.id))
        append_lines(self.path, [record])
        known = question.sentence.tokens, question.span
        self.known.add(known)
        self.given.append((known, is_mention, before))

    def undo(self) -> bool:
        """Take back the last answer of this sitting; False where there is none."""
        if not self.given:
            return False
        known, _, size = self.given.pop()
        os.truncate(self.path, size)
        self.known.discard(known)
        return True

    def said(self) -> str:
        yes = sum(is_mention for _, is_mention, _ in self.given)
        count = len(self.given)
        return f"{count} answer{'s' * (count != 1)} ({yes} yes, {count - yes} no) in {self.path}"


def _document(answer: Sentence) -> Document:
    """The sentence of an answer by itself, labelled in part."""
    text, offsets = sentence_as_document(answer)
    yes, no = (
        tuple(
            Entity(
                start := offsets[span.start][0],
                end := offsets[span.end - 1][1],
                span.label,
                text[start:end],
            )
            for span in spans
        )
        for spans in (answer.spans, answer.rejected)
    )
    kept = replace(answer, offsets=tuple(offsets))
    return Document(answer.id, text, yes, (kept,), rejected=no)


class _Review:
    """One question after the other, until all are answered or the user has enough."""

    def __init__(self, answers: _Answers, asked: list["Question"]) -> None:
        self.answers, self.asked = answers, asked
        self.console = Console(highlight=False, soft_wrap=True)
        self.terminal = sys.stdin.isatty()

    def run(self) -> None:
        if not self.asked:
            say("nothing to ask: the model finds no other mention there")
            return
        self.console.print(_HELP, style="dim")
        place = 0
        went: list[int] = []  # the places of the answers of this sitting
        while place < len(self.asked):
            question = self.asked[place]
            self._show(question, place)
            key = self._key()
            if key == "q":
                return
            if key in ("y", "n"):
                self.answers.add(question, key == "y")
                went.append(place)
                place += 1
            elif key == "s":
                place += 1
            elif key == "u" and self.answers.undo():
                place = went.pop()
            else:
                self.console.print(_HELP, style="dim")

    def _show(self, question: "Question", place: int) -> None:
        text, offsets = sentence_as_document(question.sentence)
        span = question.span
        shown = Text(text)
        shown.stylize("bold yellow", offsets[span.start][0], offsets[span.end - 1][1])
        self.console.print(shown)
        words = text[offsets[span.start][0] : offsets[span.end - 1][1]]
        more = f", found {question.others + 1} times" if question.others else ""
        asked = (
            f"[{place + 1}/{len(self.asked)}] {span.label}: {words} ({question.score:.2f}{more})"
        )
        self.console.print(Text(f"{asked}? ", style="cyan"), end="")

    def _key(self) -> str:
        if self.terminal:
            key = typer.getchar()
            self.console.print(key if key.isprintable() else "")
            return "q" if key in ("", "\x04") else key.lower()
        line = sys.stdin.readline()
        self.console.print(line.strip())
        return line.strip()[:1].lower() if line else "q"
