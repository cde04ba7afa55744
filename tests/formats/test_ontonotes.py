"""OntoNotes 5 in the layout of CoNLL-2012."""

from pathlib import Path

import pytest

from hardner.errors import FileError
from hardner.formats import detect, read
from hardner.types import Entity

ROW = "bc/x/00 0 {n} {word} NN (TOP* - - - Ann {name} * -"


def rows(*words: tuple[str, str]) -> str:
    return "".join(ROW.format(n=n, word=w, name=name) + "\n" for n, (w, name) in enumerate(words))


FIRST = rows(("Mary", "(PERSON*"), ("Smith", "*)"), ("visited", "*"), ("Rome", "(GPE)"))
CONTENT = (
    f"#begin document (bc/x/00); part 000\n{FIRST}\n{rows(('Yes', '*'))}\n#end document\n"
    f"#begin document (bc/x/00); part 001\n{rows(('#', '*'), ('1', '(CARDINAL)'))}\n#end document\n"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x.v4_gold_conll").write_text(CONTENT)
    return tmp_path


def test_read(path: Path) -> None:
    assert detect(path).name == "ontonotes"
    first, second = read(path, strict=True)
    assert (first.id, second.id) == ("bc/x/00/000", "bc/x/00/001")
    assert first.text == "Mary Smith visited Rome\nYes"
    assert first.entities == (Entity(0, 10, "PERSON", "Mary Smith"), Entity(19, 23, "GPE", "Rome"))
    assert second.sentences[0].tokens == ("#", "1")


def test_known_by_content(path: Path) -> None:
    file = path / "x.conll"
    file.write_text(CONTENT)
    assert detect(file).name == "ontonotes"
    assert len(list(read(file))) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONTENT[: CONTENT.index("#end")], "cut short"),
        (CONTENT.replace("(GPE)", "*)"), "gold_conll:5: '\\*\\)': its brackets"),
        (CONTENT.replace("*)", "*", 1), "gold_conll:5: '\\(GPE\\)': its brackets"),
        (CONTENT.replace("(GPE)", "(GPE*"), "gold_conll:5: the name GPE has no closing bracket"),
        (CONTENT.replace("; part 000", ""), "gold_conll:1: expected #begin document"),
    ],
)
def test_malformed(path: Path, content: str, message: str) -> None:
    (path / "sub" / "x.v4_gold_conll").write_text(content)
    with pytest.raises(FileError, match=message):
        list(read(path))
