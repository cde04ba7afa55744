"""``hardner suggest``: which sentences to label next."""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.text import Text
from typer import Argument, Option

from hardner.cli.common import check_not_read, progress_bar, say, warn
from hardner.cli.options import (
    ENCODING_OPTION,
    MODEL_OPTION,
    SOURCE_FORMAT_OPTION,
    TARGET_FORMAT_OPTION,
)
from hardner.files import atomic_write
from hardner.formats import Report, read, write
from hardner.formats.format import Place
from hardner.formats.jsonl import encode_document
from hardner.text import sentences, tokenize
from hardner.types import Document, Entity, Offset, Sentence

if TYPE_CHECKING:
    from hardner.tag.suggest import Suggestion


def suggest_command(
    texts: Annotated[list[str], Argument(metavar="TEXT...", help="Files or folders; - is stdin.")],
    model: MODEL_OPTION = None,
    count: Annotated[int, Option("-n", min=1, help="Number of sentences.")] = 10,
    label: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Entity type that you label, known to the model or not; default: all.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        Option(metavar="LABELLED", help="Sentences already labelled; may be repeated."),
    ] = None,
    source_format: SOURCE_FORMAT_OPTION = None,
    encoding: ENCODING_OPTION = None,
    target_format: TARGET_FORMAT_OPTION = None,
    out: Annotated[str, Option(metavar="OUT", help="File or folder to write; - is stdout.")] = "-",
    as_json: Annotated[bool, Option("--json", help="Print JSON lines on a terminal too.")] = False,
) -> None:
    """Choose the sentences that are most worth labelling next.

    Each comes with a reason. Sentences are ranked by hardness: the loss that the model expects of
    itself, with variety, so that no entity or phrase fills the list. With the bundled model they
    are sentences with likely mentions of a type that it does not know. Printed as JSON lines, they
    are ready to be labelled.

    Examples:

    - `hardner suggest abstracts.txt -n 20 --label Device > to-label.jsonl`
    - `hardner suggest abstracts/ --model device-model --exclude labelled.jsonl`
    - `hardner suggest pool.tsv --model device-model --to brat --out next-ten/`
    """
    from hardner.tag.predictor import Predictor
    from hardner.tag.suggest import MOST_WORDS, suggest_sentences

    check_not_read(out, *texts, *(exclude or []))
    predictor = Predictor.load(model)
    overlong = 0

    def watched(found: Iterable[Sentence]) -> Iterator[Sentence]:
        nonlocal overlong
        with progress_bar() as shown:
            task = shown.add_task("sentences", total=None)
            for sentence in found:
                shown.advance(task)
                overlong += len(sentence) > MOST_WORDS
                yield sentence

    found = suggest_sentences(
        predictor,
        watched(bare_sentences(texts, source_format, encoding)),
        count,
        label=label,
        known=bare_sentences(exclude or [], None, encoding),
    )
    if overlong:
        warn([f"{overlong:,} sentences of more than {MOST_WORDS} words not considered"])
    if not found:
        say("nothing to suggest: no other sentence has a chance of a mention")
    elif target_format or out != "-":
        report = Report()
        write(map(_document, found), out, target_format, report=report)
        warn(report.lines())
    elif as_json or not sys.stdout.isatty():
        _write_lines(found)
    else:
        _show(found)


def bare_sentences(
    paths: Iterable[str], format: str | None, encoding: str | None = None
) -> Iterator[Sentence]:
    """The sentences of some files, without their labels."""
    for path in paths:
        for document in read(path, format, report=Report(), encoding=encoding):
            yield from sentences(replace(document, entities=()))


def sentence_as_document(sentence: Sentence) -> tuple[str, list[Offset]]:
    """The text of a sentence by itself, and where its tokens stand in it."""
    offsets = _offsets(sentence)
    ends = (0, *(end for _, end in offsets))
    parts = zip(sentence.tokens, offsets, ends, strict=False)
    text = "".join(" " * (start - before) + token for token, (start, _), before in parts)
    return text, offsets


def _document(suggestion: "Suggestion") -> Document:
    """The sentence as a document; with its tokens where tokenising the text gives others."""
    sentence = suggestion.sentence
    text, offsets = sentence_as_document(sentence)
    same = offsets == list(tokenize(text))
    kept = replace(sentence, spans=(), offsets=tuple(offsets))
    return Document(sentence.id, text, sentences=() if same else (kept,))


def _offsets(sentence: Sentence) -> list[Offset]:
    """Where tokens stand in the sentence's own text; those without offsets are a space apart."""
    if sentence.offsets:
        first = sentence.offsets[0][0]
        return [(start - first, end - first) for start, end in sentence.offsets]
    found, start = [], 0
    for token in sentence.tokens:
        found.append((start, start + len(token)))
        start += len(token) + 1
    return found


def _write_lines(found: Iterable["Suggestion"]) -> None:
    with atomic_write("-") as file:
        for suggestion in found:
            document, report = _document(suggestion), Report()
            record = encode_document(document, report, Place("-", document=document.id))
            record |= {
                "hardness": round(suggestion.hardness, 4),
                "reason": suggestion.reason,
                "uncertain": [
                    {name: getattr(mention, name) for name in ("start", "end", "label", "text")}
                    | {"score": round(mention.score, 4)}
                    for mention in _mentions(suggestion, document)
                ],
            }
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _mentions(suggestion: "Suggestion", document: Document) -> Iterator[Entity]:
    offsets = _offsets(suggestion.sentence)
    for span, share in suggestion.uncertain:
        start, end = offsets[span.start][0], offsets[span.end - 1][1]
        yield Entity(start, end, span.label, document.text[start:end], share)


def _show(found: Iterable["Suggestion"]) -> None:
    console = Console(highlight=False)
    for number, suggestion in enumerate(found, 1):
        document = _document(suggestion)
        text = Text(document.text)
        for mention in _mentions(suggestion, document):
            text.stylize("bold yellow", mention.start, mention.end)
        console.print(Text.assemble((f"{number:>3}  ", "cyan"), text))
        where = f"     {document.id}, hardness {suggestion.hardness:.2f}: {suggestion.reason}"
        console.print(Text(where, style="dim"))
