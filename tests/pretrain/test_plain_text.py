"""Text on its way to pieces: what enters, what does not, and how it is kept."""

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
import tiny
from sayings import sayings, write
from shared import CORPORA
from tokenizers import Tokenizer, models, pre_tokenizers

from hardner.errors import HardnerError
from hardner.pretrain import text as module
from hardner.pretrain.text import (
    SPECIAL,
    PlainText,
    continuing,
    encode_text,
    held_out,
    load_encoded,
    load_tokenizer,
    train_tokenizer,
    unspaced,
)


def test_lines_come_from_all_files_as_often_as_asked(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeff one \r\n\r\n  two\r\n".encode())
    (tmp_path / "b.txt.xz").write_bytes(lzma.compress(b"drei\n \nvier"))
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"cinq\n"))
    text = PlainText(sorted(tmp_path.iterdir()))
    for _ in range(2):
        assert list(text) == ["one", "two", "drei", "vier", "cinq"]
        assert (text.lines, text.left_out) == (5, 0)


def test_sentences_that_must_not_enter_do_not_however_they_are_spaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("IL-2 (interleukin) .\nA\u00a0b c\nIL-2 (interleukin) !\n a bc\nABC\n")
    text = PlainText([path], {unspaced("IL - 2 ( interleukin ) ."), unspaced("Abc")})
    assert list(text) == ["IL-2 (interleukin) !", "a bc", "ABC"]
    assert (text.lines, text.left_out) == (3, 2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two corpora of the catalogue, made of the tiny ones; one has no devel data of its own."""
    return tiny.write_catalogue_corpora(tmp_path)


def test_devel_and_test_sentences_of_the_known_corpora_are_held_out(root: Path) -> None:
    found = held_out(root)
    kept, held = set(), set()
    for domain in ("Drug", "Gene"):
        kept |= {"".join(s.tokens) for s in tiny.sentences(domain)}
        for split in ("devel", "test"):
            held |= {"".join(s.tokens) for s in tiny.sentences(domain, split)}
    assert found == held
    assert held
    assert kept - held
    path = root / "text.txt"
    everything = [
        s for d in ("Drug", "Gene") for x in ("train", "test") for s in tiny.sentences(d, x)
    ]
    path.write_text("".join(" ".join(s.tokens) + "\n" for s in everything))
    text = PlainText([path], found)
    assert {unspaced(line) for line in text} == kept - held
    assert text.left_out + text.lines == len(everything)
    assert text.left_out >= sum(len(tiny.sentences(d, "test")) for d in ("Drug", "Gene"))


def test_a_root_without_corpora_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HardnerError, match="holds none of the corpora"):
        held_out(tmp_path)
    with pytest.raises(HardnerError, match="no such folder"):
        held_out(tmp_path / "none")


@pytest.mark.shared("NCBI-disease")
def test_real_devel_and_test_sentences_are_held_out(tmp_path: Path) -> None:
    (tmp_path / "NCBI-disease").symlink_to(CORPORA / "NCBI-disease")
    found = held_out(tmp_path)
    assert 1500 < len(found) <= 923 + 940
    with lzma.open(CORPORA / "NCBI-disease" / "test.tsv.xz", "rt") as file:
        first = [line.split("\t")[0] for line in file.read().split("\n\n")[0].splitlines()]
    assert "".join(first) in found


def test_identity_is_of_the_content_and_of_what_is_left_out(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", seed=1), write(tmp_path / "b", seed=2)
    same = tmp_path / "copy"
    same.write_bytes(a.read_bytes())
    assert PlainText([a]).identity() == PlainText([same]).identity()
    others = [
        PlainText([b]),
        PlainText([a, b]),
        PlainText([b, a]),
        PlainText([a], {"x"}),
        PlainText([a], {"y"}),
    ]
    found = [tuple(text.identity().values()) for text in (PlainText([a]), *others)]
    assert len(set(found)) == 6
    with pytest.raises(HardnerError, match="none: no such file or folder"):
        PlainText([tmp_path / "none"]).identity()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(sayings(500), 250)


def test_the_tokenizer_is_cased_and_cuts_words_at_signs(tokenizer: Tokenizer) -> None:
    assert [tokenizer.id_to_token(i) for i in range(5)] == list(SPECIAL)
    assert tokenizer.get_vocab_size() <= 250
    assert tokenizer.encode("Lyon").tokens == ["Lyon"]
    assert tokenizer.encode("lyon").tokens != ["lyon"]
    found = tokenizer.encode("mice,rats of Oslo.").tokens
    assert found == ["mice", ",", "rats", "of", "Oslo", "."]
    assert tokenizer.encode("dogs").ids != tokenizer.encode("ﬁ dogs").ids


def test_the_same_text_gives_the_same_tokenizer(tokenizer: Tokenizer) -> None:
    for _ in range(3):
        assert train_tokenizer(sayings(500), 250).to_str() == tokenizer.to_str()
    assert tokenizer.encode("##a", add_special_tokens=False).tokens[0] != "##a"


def test_continuing_pieces_are_those_with_two_signs_before(tokenizer: Tokenizer) -> None:
    marks = continuing(tokenizer)
    assert len(marks) == tokenizer.get_vocab_size()
    for piece, number in tokenizer.get_vocab().items():
        assert bool(marks[number]) == piece.startswith("##")


def test_tokenizers_that_do_not_serve_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(HardnerError, match=r"tokenizer.json: no such file or folder"):
        load_tokenizer(path)
    path.write_text("{}")
    with pytest.raises(HardnerError, match=r"tokenizer.json: not a tokenizer: "):
        load_tokenizer(path)
    Tokenizer(models.BPE()).save(str(path))
    with pytest.raises(HardnerError, match="not a WordPiece tokenizer"):
        load_tokenizer(path)
    Tokenizer(models.WordPiece({"[UNK]": 0, "[PAD]": 1}, unk_token="[UNK]")).save(str(path))
    with pytest.raises(HardnerError, match=r"its subword 0 is \[UNK\], and must be \[PAD\]"):
        load_tokenizer(path)
    large(65_537).save(str(path))
    with pytest.raises(HardnerError, match="from 0 to at most 65,535"):
        load_tokenizer(path)
    tokenizer.save(str(path))
    assert load_tokenizer(path).to_str() == tokenizer.to_str()


def large(size: int) -> Tokenizer:
    pieces = [*SPECIAL, *(f"w{number}" for number in range(5, size))]
    made = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


def joined(tokenizer: Tokenizer, lines: list[str]) -> list[int]:
    """The pieces of whole lines, by the tokenizer alone."""
    return [
        piece
        for line in lines
        for piece in (*tokenizer.encode(line, add_special_tokens=False).ids, 3)
    ]


@pytest.mark.parametrize("chunk", [1, 7, 20_000])
def test_encoding_word_by_word_is_encoding_line_by_line(
    chunk: int, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = ["", "a\u00a0b\u3000ﬁne", "x\u00b4y é e\u0301", "(p<0.05),IL-2", "日本 𝛼β"]
    lines = [*sayings(50), *odd, *sayings(50, seed=1)]
    monkeypatch.setattr(module, "_CHUNK", chunk)
    monkeypatch.setattr(module, "_REMEMBERED", 30)
    found = np.frombuffer(b"".join(encode_text(tokenizer, lines)), "<u2")
    assert found.tolist() == joined(tokenizer, lines)


def test_pieces_above_15_bits_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("w5 w40000\nw65535 w32768 w32767\n")
    text = PlainText([path])
    found = load_encoded(text, text.identity(), large(65_536), tmp_path).ids
    assert found.tolist() == [5, 40_000, 3, 65_535, 32_768, 32_767, 3]


def test_pieces_are_kept_mapped_and_made_anew_for_another_text(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "text.txt")
    banned = {unspaced(sayings(400)[0])}
    text = PlainText([path], banned)
    first = load_encoded(text, text.identity(), tokenizer, tmp_path)
    assert isinstance(first.ids, np.memmap)
    assert first.ids.itemsize == 2
    assert first.ids.tolist() == joined(tokenizer, list(text))
    assert (first.lines, first.left_out) == (text.lines, text.left_out)
    assert first.left_out >= 1
    with monkeypatch.context() as patch:
        patch.setattr(module, "encode_text", None)
        again = load_encoded(PlainText([path], banned), text.identity(), tokenizer, tmp_path)
        assert np.array_equal(again.ids, first.ids)
        assert again[1:] == first[1:]
    write(path, seed=3)
    other = load_encoded(PlainText([path]), PlainText([path]).identity(), tokenizer, tmp_path)
    assert other.ids.tolist() == joined(tokenizer, sayings(400, seed=3))
    assert other.left_out == 0
    (tmp_path / "pieces.npy").write_bytes(b"damaged")
    with pytest.raises(HardnerError, match=r"pieces.npy: damaged: .*; delete .*pieces.json"):
        load_encoded(PlainText([path]), PlainText([path]).identity(), tokenizer, tmp_path)
