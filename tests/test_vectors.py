"""Word vectors against gensim and, for classifiers, against fastText's own output."""

import base64
import gzip
import lzma
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gensim.models import FastText, KeyedVectors
from gensim.models.fasttext import ft_ngram_hashes, load_facebook_vectors, save_facebook_model
from hypothesis import given, settings
from hypothesis import strategies as st

from hardner.errors import FileError
from hardner.vectors import Vectors, character_vectors, load_vectors
from hardner.vectors.fasttext import FastTextHeader, ngram_buckets

WORDS = ["the", "Protein", "IL-2", "β-catenin", "naïve", "p53", "1", "日本語"]
MATRIX = np.random.default_rng(0).normal(size=(len(WORDS), 7)).astype(np.float32)
PACKED = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def as_text(header: bool, end: str) -> bytes:
    lines = [f"{len(WORDS)} {MATRIX.shape[1]}"] if header else []
    for word, row in zip(WORDS, MATRIX, strict=True):
        lines.append(" ".join([word, *(repr(float(number)) for number in row)]) + end)
    return "".join(line + "\n" for line in lines).encode()


def as_word2vec(end: bytes) -> bytes:
    rows = zip(WORDS, MATRIX, strict=True)
    body = b"".join(word.encode() + b" " + row.tobytes() + end for word, row in rows)
    return f"{len(WORDS)} {MATRIX.shape[1]}\n".encode() + body


def table(vectors: Vectors) -> dict[str, np.ndarray]:
    return dict(zip(vectors.words, vectors.matrix.numpy(), strict=True))


LAYOUTS = {
    "word2vec text": (as_text(True, ""), {}),
    "fastText text": (as_text(True, " "), {}),
    "GloVe": (as_text(False, ""), {"no_header": True}),
    "word2vec binary": (as_word2vec(b"\n"), {"binary": True}),
    "gensim binary": (as_word2vec(b""), {"binary": True}),
}


@pytest.mark.filterwarnings("ignore:unclosed file .*plain:ResourceWarning")  # gensim's own
@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_agree_with_gensim(layout: str, packing: str, tmp_path: Path) -> None:
    content, options = LAYOUTS[layout]
    plain, packed = tmp_path / "plain", tmp_path / f"vectors{packing}"
    plain.write_bytes(content)
    packed.write_bytes(PACKED[packing](content))
    theirs = KeyedVectors.load_word2vec_format(str(plain), **options)
    ours = load_vectors(packed, [*WORDS, "absent"])
    assert ours.words == tuple(sorted(WORDS)) and ours.missing == ("absent",)
    assert ours.dimension == 7 and ours.matrix.dtype == torch.float32
    for word, row in table(ours).items():
        assert np.array_equal(row, theirs[word])


@pytest.mark.parametrize("binary", [False, True])
def test_what_gensim_writes(binary: bool, tmp_path: Path) -> None:
    theirs = KeyedVectors(7)
    theirs.add_vectors(WORDS, MATRIX)
    theirs.save_word2vec_format(str(tmp_path / "vectors"), binary=binary)
    ours = table(load_vectors(tmp_path / "vectors", WORDS))
    assert all(np.array_equal(ours[word], MATRIX[row]) for row, word in enumerate(WORDS))


def test_glove_words_may_hold_spaces(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text(". . . 1 2 3\nto name@domain.com 4 5 6\nto 7 8 9\n\xa0x 1 1 1\n", "utf-8")
    ours = table(load_vectors(path, ["to", ". . .", "to name@domain.com", "name@domain.com"]))
    expected = {". . .": [1, 2, 3], "to": [7, 8, 9], "to name@domain.com": [4, 5, 6]}
    assert {word: row.tolist() for word, row in ours.items()} == expected


def test_case_falls_back_in_order_and_the_first_of_duplicates_counts(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("MIX 4\nMix 3\nmix 2\nmIx 1\nmIx 9\nUP 5\nCap 6\nlow 7\n")
    ours = load_vectors(path, ["mIx", "MiX", "Up", "cAP", "LOW", "none"])
    values = {word: row.item() for word, row in table(ours).items()}
    assert values == {"mIx": 1, "MiX": 2, "Up": 5, "cAP": 6, "LOW": 7}
    assert ours.found == {"exact": 1, "lower": 2, "capitalised": 1, "upper": 1, "subwords": 0}
    assert ours.missing == ("none",)


@pytest.fixture(scope="module")
def fasttext_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fasttext") / "model.bin"
    size = {"vector_size": 6, "bucket": 300, "min_n": 2, "max_n": 5}
    model = FastText([WORDS] * 5, **size, min_count=1, epochs=1, workers=1, seed=1)
    model.wv.vectors_ngrams[:] = np.random.default_rng(1).normal(size=(300, 6))
    save_facebook_model(model, str(path))
    return path


@pytest.mark.parametrize("packing", PACKED)
def test_fasttext_composes_as_gensim_does(
    packing: str, fasttext_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / f"model.bin{packing}"
    path.write_bytes(PACKED[packing](fasttext_file.read_bytes()))
    theirs = load_facebook_vectors(str(fasttext_file))
    unknown = ["β-catenins", "naïveté", "kinase", "日本", "x"]
    ours = load_vectors(path, [*WORDS, *unknown, "PROTEIN"])
    assert ours.missing == ()
    assert ours.found == {"exact": 8, "lower": 0, "capitalised": 1, "upper": 0, "subwords": 5}
    for word, row in table(ours).items():
        expected = theirs["Protein" if word == "PROTEIN" else word]
        np.testing.assert_allclose(row, expected, atol=1e-6)


@settings(deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(0, 4),
    st.sampled_from([7, 1000, 2_000_000]),
)
def test_subwords_hash_as_gensim_does(word: str, shortest: int, more: int, bucket: int) -> None:
    header = FastTextHeader(1, bucket, shortest, shortest + more, 1, 1)
    expected = ft_ngram_hashes(word, shortest, shortest + more, bucket)
    assert ngram_buckets(word.encode(), header) == list(expected)


CLASSIFIER = base64.b85decode(
    b"x)x6_3;+NC0{{R31poj582|tP0RR911poj50ssI20{{R30{{R32LJ#70ssI20{{R3WB>pFEkhjZ;x-"
    b"yT2mk;81^@s60ssI2Kmh;%00000|NsC0|NsC0=9i`BoU8yd0000000000bZBJ&GXMYp0000008nyobY*F705AXm000"
    b"00007Ri04@Lk00000003|`GXN|A000000000yFLOQsC;$Ke000000AF8hVPa)$UteJW761SM000000bgHiVPa)$Ute"
    b"MX5&!@I000000RRmE000000009300000007D&UB8g9P(LnRCBKWVZNAJ+U_QCLF}_hd$3C_MyuS7Ols+)&Z$3?EV!m"
    b"o;Gd|~Cv%X_RsXi+qhQ8Epy1kn4uRZZ;i@mqCr9X^foWDQTcRx)|ZavK7V7+28GCfY6Ex*LqBR?3_0lyuM?7l!e-"
    b"#$|0u)e`hCqBvK9lqT;`aS8B-@XX`(mvxbr@mHeb-"
    b"#$4XFtY;H@^S^0000000003000000000u20_0ADK<aBR}jBC20=doDK@{rR}en"
)
"""Trained and saved by fastText 0.9.2: two labels, word pairs, character n-grams of 2 and 3."""
CLASSIFIED = {
    "the": [-0.2614056468009949, 0.24668917059898376, -0.19547715783119202],
    "Protein": [0.4043293595314026, -0.3815777599811554, 0.3023592531681061],
    "β": [-0.4661441743373871, 0.43990838527679443, -0.3485800623893738],
    "</s>": [-0.09103170037269592, 0.08590812981128693, -0.06807316094636917],
    "p53s": [-0.12044737488031387, 0.11366775631904602, -0.09006908535957336],
    "日本語": [-0.12615223228931427, 0.11904933303594589, -0.09433479607105255],
}


def test_fasttext_classifier(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(CLASSIFIER)
    ours = load_vectors(path, CLASSIFIED)
    assert ours.found["exact"] == 4 and ours.found["subwords"] == 2
    for word, row in table(ours).items():
        np.testing.assert_allclose(row, CLASSIFIED[word], atol=1e-7)


def test_fasttext_without_subwords_leaves_unknown_words_missing(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(fasttext_bytes(bucket=0))
    ours = load_vectors(path, ["a", "b", "zz"])
    assert table(ours)["b"].tolist() == [3, 4] and ours.missing == ("zz",)


def fasttext_start(
    version: int = 12,
    dimension: int = 2,
    bucket: int = 2,
    pruned: int = -1,
    quantised: bytes = b"\0",
    columns: int | None = None,
    kind: int = 0,
) -> bytes:
    """A file of two words, "a" and "b", and of buckets of 2-grams, up to its numbers."""
    arguments = (dimension, 5, 1, 1, 5, 1, 2, 2, bucket, 2, 2, 100, 1e-4)
    dictionary = struct.pack("<3i2q", 2, 2, 0, 10, pruned)
    dictionary += b"a\0" + struct.pack("<qb", 5, kind) + b"b\0" + struct.pack("<qb", 5, 0)
    shape = struct.pack("<2q", 2 + bucket, columns or dimension)
    start = struct.pack("<2i12id", 793712314, version, *arguments)
    return start + dictionary + quantised + shape


def fasttext_bytes(bucket: int = 2, **options: Any) -> bytes:
    numbers = np.arange(1, (2 + bucket) * 2 + 1, dtype="<f4")
    return fasttext_start(bucket=bucket, **options) + numbers.tobytes()


BINARY = as_word2vec(b"\n")
NOT_FINITE = b"1 2\nthe " + struct.pack("<2f", 1, float("nan"))
BAD = {
    "empty": (b"", "is empty"),
    "blank": (b"\n \n", "is empty"),
    "no numbers": (b"the cat\nsat\n", ":1: not word vectors"),
    "an image": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ":1: not word vectors"),
    "an absurd dimension": (b"3 999999999\n" + b"the 1 2\n", ":1: not word vectors"),
    "no words announced": (b"0 3\n", ":1: not word vectors"),
    "header only": (b"2 3\n", "announces 2 words, the file holds 0"),
    "fewer rows": (b"2 3\nthe 1 2 3\n", "announces 2 words, the file holds 1"),
    "more rows": (b"1 3\na 1 2 3\nb 1 2 3\n", "announces 1 words, the file holds 2"),
    "short row": (b"a 1 2 3\nthe 1 2\n", ":2: expected a word and 3 numbers, got 2"),
    "long row": (b"2 3\na 1 2 3\nthe 1 2 3 4\n", ":3: expected a word and 3 numbers, got 4"),
    "not a number": (b"a 1 2 3\nthe 1 x 3\n", ":2: not a number: 'x'"),
    "first row not a number": (b"1 3\nthe 1 2 x\n", ":2: not a number: 'x'"),
    "infinite": (b"a 1 2 3\nthe 1 1e60 3\n", ":2: a number is not finite"),
    "binary cut short": (BINARY[:-9], "8 vectors of 7 do not fit|truncated: ends at byte"),
    "binary cut in half": (BINARY[: len(BINARY) // 2], "8 vectors of 7 do not fit in"),
    "binary with more": (BINARY + b"more", "follows the last of 8 vectors"),
    "binary not finite": (NOT_FINITE, "a number of the vector at byte 8 is not finite"),
    "quantised": (fasttext_bytes(quantised=b"\1"), "a quantised fastText model"),
    "pruned": (fasttext_bytes(pruned=0), "a quantised fastText model"),
    "newer fastText": (fasttext_bytes(version=13), "fastText version 13 is newer than 12"),
    "wrong shape": (fasttext_bytes(columns=3), r"is \(4, 3\), expected \(4, 2\)"),
    "negative sizes": (fasttext_bytes(bucket=-1), "damaged fastText header before byte"),
    "a label among words": (fasttext_bytes(kind=1), "damaged fastText dictionary before byte"),
    "cut in matrix": (fasttext_bytes()[:-4], "truncated: ends at byte"),
    "cut in dictionary": (fasttext_bytes()[:95], "truncated: ends at byte 95"),
    "cut in arguments": (fasttext_bytes()[:20], "truncated: ends at byte 20"),
}


@pytest.mark.parametrize("packing", ["", ".gz"])
@pytest.mark.parametrize("case", BAD)
def test_damage_is_one_line(case: str, packing: str, tmp_path: Path) -> None:
    content, message = BAD[case]
    path = tmp_path / f"vectors{packing}"
    path.write_bytes(PACKED[packing](content))
    if packing and "do not fit" in message:
        message = "truncated: ends at byte"
    with pytest.raises(FileError, match=message) as caught:
        load_vectors(path, ["the", "a", "ab", "日本語"])
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@pytest.mark.parametrize("packing", [".gz", ".xz"])
def test_damaged_compression_is_one_line(packing: str, tmp_path: Path) -> None:
    path = tmp_path / f"vectors{packing}"
    path.write_bytes(PACKED[packing](as_text(True, ""))[:-20])
    with pytest.raises(FileError, match="compressed data is cut short"):
        load_vectors(path, WORDS)


def test_absent_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        load_vectors(tmp_path / "absent", WORDS)


def test_cache_serves_the_same_file_and_vocabulary_only(tmp_path: Path) -> None:
    path, cache = tmp_path / "vectors.txt", tmp_path / "cache"

    def write(value: int, time: int) -> None:
        path.write_text(f"a {value} 1\nb 3 4\n")
        os.utime(path, ns=(time, time))

    def first(vocabulary: Iterable[str]) -> float:
        vectors = load_vectors(path, list(vocabulary), cache=cache)
        assert vectors.missing == ("x",) and vectors.found["lower"] == 1
        return vectors.matrix[0, 0].item()

    write(1, time=10**9)
    assert first("Axa") == 1
    write(2, time=10**9)
    assert first("axA") == 1, "read again though neither size nor time changed"
    assert first("Axab") == 2, "another vocabulary"
    write(3, time=2 * 10**9)
    assert first("axA") == 3, "another time of change"
    assert len(list(cache.iterdir())) == 3


@pytest.mark.parametrize("packing", PACKED)
def test_progress_counts_bytes_to_the_end(packing: str, tmp_path: Path) -> None:
    content = b"".join(b"w%d 0.25 0.5\n" % n for n in range(800_000))
    path, calls = tmp_path / f"vectors.txt{packing}", list[tuple[int, int | None]]()
    options = {"preset": 0} if packing == ".xz" else {"compresslevel": 1} if packing else {}
    path.write_bytes(PACKED[packing](content, **options))
    load_vectors(path, ["w5"], progress=lambda done, size: calls.append((done, size)))
    done = [call[0] for call in calls]
    assert len(calls) >= 3 and done == sorted(done) and done[-1] == len(content)
    assert {call[1] for call in calls} == {None if packing else len(content)}


def large_word2vec(path: Path) -> None:
    rows = np.zeros(250_000, [("word", "S8"), ("row", "<f4", 200)])
    rows["word"] = [b"w%06d " % n for n in range(len(rows))]
    with path.open("wb") as file:
        file.write(b"250000 200\n")
        rows.tofile(file)


def large_text(path: Path) -> None:
    numbers = b" 0.123456" * 200
    with path.open("wb") as file:
        file.writelines(b"w%06d%s\n" % (n, numbers) for n in range(110_000))


def large_fasttext(path: Path) -> None:
    """The numbers are a hole in the file, which reads as zeros."""
    start = fasttext_start(bucket=999_998, dimension=50)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(len(start) + 1_000_000 * 50 * 4)


LOADER = """
import resource, sys
from hardner.vectors import load_vectors
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
words = [f"w{n:06}" for n in range(0, 100_000, 1000)]
before = peak()
vectors = load_vectors(sys.argv[1], words)
print(peak() - before, vectors.found["exact"] + vectors.found["subwords"])
"""


@pytest.mark.parametrize("write", [large_word2vec, large_text, large_fasttext])
def test_memory_grows_with_the_vocabulary_only(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "vectors"
    write(path)
    assert path.stat().st_size > 190_000_000
    command = [sys.executable, "-c", LOADER, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    path.unlink()
    kilobytes, found = map(int, result.stdout.split())
    assert found == 100
    assert kilobytes < 20_000


def test_character_vectors_are_means_over_occurrences() -> None:
    words = ("aab", "bc", "éa")
    vectors = Vectors(words, torch.tensor([[3.0, 0], [6, 3], [9, 9]]), {}, ())
    expected = torch.tensor([[5.0, 3], [4.5, 1.5], [6, 3], [0, 0], [9, 9]])
    assert torch.equal(character_vectors(vectors, ["a", "b", "c", "z", "é"]), expected)


@settings(deadline=None)
@given(st.lists(st.text("abcß", max_size=6), unique=True, min_size=1, max_size=20))
def test_character_vectors_by_brute_force(words: list[str]) -> None:
    matrix = torch.randn(len(words), 3, generator=torch.Generator().manual_seed(0))
    ours = character_vectors(Vectors(tuple(words), matrix, {}, ()), "abcß")
    for row, character in zip(ours, "abcß", strict=True):
        held = [matrix[n] for n, word in enumerate(words) for other in word if other == character]
        expected = torch.stack(held).mean(0) if held else torch.zeros(3)
        torch.testing.assert_close(row, expected)
