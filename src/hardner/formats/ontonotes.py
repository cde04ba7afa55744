"""OntoNotes 5 in the layout of CoNLL-2012: files whose names end in ``gold_conll``, read only.

The word is the fourth column, the names the eleventh, as brackets: ``(PERSON*``, ``*``, ``*)``.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from hardner.files import LINE_LIMIT, PathLike, is_standard, lines, plain_name
from hardner.formats.conll import join_sentences
from hardner.formats.format import Format, Place, Report, short
from hardner.types import Document, Sentence, Span

_ENDING = "gold_conll"
_BEGIN = re.compile(r"#begin document \((.*)\); part (\d+)")
_NAME = re.compile(r"(?:\(([^()*]+))?\*?(\))?")
_WORD, _NAMES = 3, 10


def _read(path: PathLike, report: Report) -> Iterator[Document]:
    if is_standard(path) or not Path(path).is_dir():
        yield from _documents(path)
        return
    for file in sorted(Path(path).rglob("*")):
        if plain_name(file).endswith(_ENDING):
            yield from _documents(file)


def _documents(path: PathLike) -> Iterator[Document]:
    name = ""
    sentences: list[Sentence] = []
    words: list[str] = []
    names: list[tuple[int, str]] = []
    size = 0
    for number, line in lines(path):
        place = Place(path, number)
        size += len(line)
        if size > LINE_LIMIT:
            raise place.error("no #end document for so long")
        if line.strip() and not line.startswith(("#begin", "#end")):
            cells = line.split()
            if len(cells) < _NAMES + 2:
                raise place.error(f"{len(cells)} columns, expected at least {_NAMES + 2}")
            words.append(cells[_WORD])
            names.append((number, cells[_NAMES]))
            continue
        if words:
            sentences.append(Sentence(tuple(words), _spans(names, path), str(len(sentences) + 1)))
            words, names = [], []
        if line.startswith("#begin"):
            if sentences:
                raise place.error("no #end document before it")
            if (begin := _BEGIN.match(line)) is None:
                raise place.error("expected #begin document (NAME); part NUMBER")
            name = f"{begin[1]}/{begin[2]}"
        elif line.startswith("#end"):
            yield join_sentences(name, sentences)
            sentences, size = [], 0
    if words or sentences:
        raise Place(path).error("no #end document: the file is cut short")


def _spans(names: list[tuple[int, str]], path: PathLike) -> tuple[Span, ...]:
    spans: list[Span] = []
    start, label = -1, ""
    for index, (number, cell) in enumerate(names):
        name = _NAME.fullmatch(cell)
        place = Place(path, number)
        if name is None or (name[1] and start >= 0) or (name[2] and not name[1] and start < 0):
            raise place.error(f"{short(cell)}: its brackets do not match those before")
        if name[1]:
            start, label = index, name[1]
        if name[2]:
            spans.append(Span(start, index + 1, label))
            start = -1
    if start >= 0:
        raise Place(path, names[-1][0]).error(f"the name {label} has no closing bracket")
    return tuple(spans)


ONTONOTES = Format(
    "ontonotes",
    (_ENDING, ".conll"),
    "OntoNotes 5 in the layout of CoNLL-2012",
    _read,
    sniff=lambda start: start.lstrip().startswith("#begin document"),
    folder=True,
)
