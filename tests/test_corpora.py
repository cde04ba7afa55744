import ast
import json
import lzma
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from itertools import chain
from pathlib import Path

import pytest
from shared import CORPORA
from tiny import ROOT as EXAMPLES
from typer.testing import CliRunner

from hardner import corpora
from hardner.catalogue import BENCHMARK, builtin_rows
from hardner.cli import app
from hardner.corpora import Corpora
from hardner.errors import FileError, HardnerError
from hardner.formats import Report
from hardner.types import Sentence, Span

EIGHT = list(BENCHMARK)
BUILT_IN = Corpora.under("nowhere").entries


def readme_table(root: Path) -> dict[str, dict[str, object]]:
    """The eight corpora as the README beside them counts them."""
    rows = {}
    for line in (root / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and re.fullmatch(r"\d+/\d+/\d+", cells[2]):
            domain, name, sentences, mentions, percent = cells
            rows[name.split()[0]] = {
                "domain": domain,
                "sentences": [int(number) for number in sentences.split("/")],
                "mentions": [int(number) for number in mentions.split("/")],
                "percent": float(percent),
            }
    return rows


@pytest.mark.shared(*EIGHT)
def test_counts_are_those_of_the_readme():
    expected = readme_table(CORPORA)
    assert set(expected) == set(EIGHT)
    done = CliRunner().invoke(app, ["corpora", "--root", str(CORPORA), "--json", *EIGHT])
    assert (done.exit_code, done.stderr) == (0, "")
    for record in json.loads(done.stdout):
        splits = record["splits"]
        assert expected[record["name"]] == {
            "domain": record["domain"],
            "sentences": [splits[split]["sentences"] for split in corpora.SPLITS],
            "mentions": [splits[split]["mentions"] for split in corpora.SPLITS],
            "percent": splits["all"]["percent"],
        }
        assert list(splits["all"]["labels"]) == [record["domain"]]
        assert abs(record["published"]["percent"] - splits["all"]["percent"]) < 1


@pytest.mark.shared
def test_every_corpus_there_is_known_and_as_catalogued():
    found = Corpora.under(CORPORA).present()
    folders = {row.folder or row.name for row in found}
    assert folders == {path.name for path in CORPORA.iterdir() if path.is_dir()}
    assert [path for row in found for path in row.changed(CORPORA)] == []
    for row in found:
        own = {path.name.split(".")[0] for path in (CORPORA / (row.folder or row.name)).iterdir()}
        assert own == set(row.parts)
        assert "devel" in own | set(row.hold_out)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(row.name, marks=pytest.mark.shared(row.name))
        for row in BUILT_IN.values()
        if (row.domains or row.labels) and not row.published
    ],
)
def test_catalogued_labels_are_the_labels_of_the_files(name):
    row = BUILT_IN[name]
    corpus = corpora.load_corpus(name, CORPORA)
    seen = {s.label for s in chain.from_iterable(sentence.spans for sentence in corpus.train)}
    if row.labels:
        assert seen == set(row.labels.values()) == {row.domain}
    else:
        assert seen == set(row.domains)


@pytest.mark.shared("BC4CHEMD")
def test_a_large_corpus_is_slim():
    """All of BC4CHEMD, 2.5 million tokens, in memory."""
    code = (
        "import re, sys\n"
        "from hardner.corpora import load_corpus\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "before = peak()\n"
        "corpus = load_corpus('BC4CHEMD', sys.argv[1])\n"
        "print(peak() - before)\n"
    )
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc to read the peak from")
    done = subprocess.run(
        [sys.executable, "-c", code, str(CORPORA)], capture_output=True, text=True, check=True
    )
    assert 10_000 < int(done.stdout) < 1_000_000  # KiB


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)


def tagged(*words: str) -> str:
    return "".join(f"{word}\t{'B-X' if word[0] == 'x' else 'O'}\n" for word in words) + "\n"


HEAD = 'domain = "D"\n'


def test_a_new_corpus_is_a_row(tmp_path):
    toml = f"""[Mine]
    {HEAD}
    labels = {{ X = "Thing" }}
    train = {{ path = "a.tsv" }}
    test = {{ path = "b.tsv" }}"""
    write(tmp_path / "catalogue.toml", toml)
    write(tmp_path / "Mine" / "a.tsv", tagged("x1", "a") + tagged("b"))
    write(tmp_path / "Mine" / "b.tsv", tagged("x2"))
    assert [row.name for row in Corpora.under(tmp_path).present()] == ["Mine"]
    corpus = corpora.load_corpus("Mine", tmp_path)
    assert corpus.domain == "D"
    assert corpus.train == (
        Sentence(("x1", "a"), (Span(0, 1, "Thing"),), "Mine/train/1"),
        Sentence(("b",), (), "Mine/train/2"),
    )
    assert corpus.devel == ()
    assert corpus.test[0].spans == (Span(0, 1, "Thing"),)


def texts_of(source: str) -> Iterator[str]:
    """The strings of a module, but for its docstrings."""
    tree = ast.parse(source)
    lone = [n.value for n in ast.walk(tree) if isinstance(n, ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in lone:
            yield node.value


def test_a_type_of_a_corpus_is_a_corpus():
    whole = Corpora.under(EXAMPLES).load("Gene")
    alone = Corpora.under(EXAMPLES).load("Gene:Gene")
    assert (alone.name, alone.domain, alone.train) == ("Gene:Gene", "Gene", whole.train)
    assert Corpora.under(EXAMPLES).domain_of("Gene:Gene") == "Gene"
    assert Corpora.under(EXAMPLES).holds("Gene:Gene")
    with pytest.raises(HardnerError, match="Gene:Cell: no such type; Gene has Gene"):
        Corpora.under(EXAMPLES).load("Gene:Cell")


def test_code_names_no_corpus():
    """The catalogue and other tables do."""
    names = Corpora.under("nowhere").rows.keys()
    for path in Path(corpora.__file__).parent.rglob("*.py"):
        assert not names & set(texts_of(path.read_text("utf-8"))), path
    assert set(texts_of('"""S800"""\nx = "BC2GM"\n"doc"')) == {"BC2GM"}


def test_a_tenth_of_train_is_held_out_once_and_for_all(tmp_path):
    toml = f"""[Mine]
    {HEAD}
    hold_out = ["devel", "test"]
    train = {{ path = "a.tsv" }}"""
    write(tmp_path / "catalogue.toml", toml)
    write(tmp_path / "Mine" / "a.tsv", "".join(tagged(f"w{n}") for n in range(101)))
    corpus = corpora.load_corpus("Mine", tmp_path)
    parts = [[int(s.id.split("/")[-1]) for s in getattr(corpus, p)] for p in corpora.SPLITS]
    assert [len(part) for part in parts] == [79, 11, 11]
    assert sorted(chain(*parts)) == list(range(1, 102))
    assert all(part == sorted(part) for part in parts)
    assert parts[1] not in ([*range(1, 12)], [*range(91, 102)])
    assert corpora.load_corpus("Mine", tmp_path) == corpus


FILE = 'train = { path = "a" }\n'


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (f'[Mine]\n{HEAD}{FILE}label = "x"', "Mine.label: no such key; [Mine] has name, domain, "),
        (f"[Mine]\n{HEAD}", "[Mine]: train is missing"),
        (f"[Mine]\n{FILE}", "[Mine]: domain is missing"),
        (f"[Mine]\n{FILE}domain = 5", "Mine.domain: expected a text, got 5"),
        (f"[Mine]\n{HEAD}train = 'a'", "Mine.train: expected a section [Mine.train], got 'a'"),
        (
            f"[Mine]\n{HEAD}train = {{ file = 'a' }}",
            "Mine.train.file: no such key; ",
        ),
        (f"[Mine]\n{HEAD}train = {{ path = 1 }}", "Mine.train.path: expected a text, got 1"),
        (f"[Mine]\n{HEAD}train = {{}}", "[Mine.train]: path is missing"),
        (f"[Mine]\n{HEAD}{FILE}labels = {{ X = 1 }}", "Mine.labels: expected a table of texts"),
        (f"[Mine]\n{HEAD}{FILE}labels = 1", "Mine.labels: expected a table of texts, got 1"),
        (f"[Mine]\n{HEAD}{FILE}format = 'connl'", "Mine.format: no format is 'connl'; there are "),
        (f"[Mine]\n{HEAD}{FILE}hold_out = ['train']", 'Mine.hold_out: expected a list of "devel"'),
        (f"[Mine]\n{HEAD}{FILE}innermost = 1", "Mine.innermost: expected true or false, got 1"),
        (f"[Mine]\n{HEAD}{FILE}published = 1", "Mine.published: expected a section [Mine.publ"),
        ("Mine = 5", "Mine: expected a section [Mine], got 5"),
        ("[Mine", "cannot be read: Expected ']'"),
        ("Mine = " + "[" * 100_000, "cannot be read: maximum recursion depth exceeded"),
        ("Mine = " + "9" * 5_000, "cannot be read: Exceeds the limit (4300 digits)"),
        (f"[S800]\n{HEAD}{FILE}", "[S800]: another corpus has that name"),
        ("[Both]\njoins = ['S800', 'S801']", "Both.joins: no row is named 'S801'"),
        ("[Both]\njoins = ['S800', 'BC5CDR']", "Both.joins: no row is named 'BC5CDR'"),
        ("[Both]\njoins = []", "Both.joins: name at least one row"),
        ("[Both]\njoins = 'S800'", "Both.joins: expected a list of texts, got 'S800'"),
        (f"[Both]\n{HEAD}joins = ['S800', 'BC2GM']", "Both.domain: no such key; [Both] has name, "),
    ],
)
def test_a_wrong_row_is_said_with_file_and_key(tmp_path, rows, said):
    mine = tmp_path / "mine.toml"
    write(mine, rows)
    with pytest.raises(FileError) as found:
        Corpora.under(tmp_path, mine)
    assert str(found.value).startswith(f"{mine}: {said}")
    assert "\n" not in str(found.value)


def test_a_catalogue_may_say_again_what_is_built_in(tmp_path):
    built_in = files("hardner").joinpath("catalogue.toml").read_text("utf-8")
    write(tmp_path / "catalogue.toml", built_in + f"[Mine]\n{HEAD}{FILE}")
    assert list(Corpora.under(tmp_path).entries) == [*BUILT_IN, "Mine"]


def test_parts_that_are_joined_are_of_the_same_sentences(tmp_path):
    rows = "".join(f'[{name}]\n{HEAD}train = {{ path = "a.tsv" }}\n' for name in "AB")
    write(tmp_path / "catalogue.toml", rows + '[Both]\njoins = ["A", "B"]\n')
    write(tmp_path / "A" / "a.tsv", tagged("a") + tagged("b"))
    for other, said in (
        (tagged("a"), "Both: its parts do not have as many train sentences"),
        (tagged("a") + tagged("c"), "A/train/2 and B/train/2 are not the same sentence"),
    ):
        write(tmp_path / "B" / "a.tsv", other)
        with pytest.raises(HardnerError, match=said):
            corpora.load_corpus("Both", tmp_path)


SGM = """<DOC>
<DOCID> x.1 </DOCID>
<BODY>
<TEXT>
Orders went out today to deploy 17,000 U.S. Army soldiers in the Persian Gulf region.
They leave U.S. soil. Now.
</TEXT>
</BODY>
</DOC>
"""
MENTIONS = {
    "17,000 U.S. Army soldiers": "PER",
    "U.S. Army": "ORG",
    "U.S.": "GPE",
    "the Persian Gulf region": "LOC",
    "Persian Gulf": "LOC",
    "They": "PER",
}


def ace(folder: Path) -> None:
    text = re.sub(r"<[^>]*>", "", SGM)
    entities = ""
    for number, (mention, label) in enumerate(MENTIONS.items()):
        start = text.index(mention)
        entities += (
            f'<entity ID="E{number}" TYPE="{label}"><entity_mention ID="M{number}"><extent>'
            f'<charseq START="{start}" END="{start + len(mention) - 1}">{mention}</charseq>'
            "</extent></entity_mention></entity>\n"
        )
    write(folder / "x.1.sgm", SGM)
    write(
        folder / "x.1.apf.xml",
        f'<source_file URI="x.1.sgm"><document DOCID="x.1">{entities}</document></source_file>',
    )


def test_ace_keeps_the_innermost_mentions(tmp_path):
    """The example is MetaNER's own."""
    ace(tmp_path / "ACE2005" / "data" / "English" / "un" / "timex2norm")
    assert [row.name for row in Corpora.under(tmp_path).present()] == ["ACE2005-UN"]
    report = Report()
    corpus = corpora.load_corpus("ACE2005-UN", tmp_path, report)
    found = {
        (" ".join(sentence.tokens[s.start : s.end]), s.label)
        for sentence in chain(corpus.train, corpus.devel, corpus.test)
        for s in sentence.spans
    }
    assert found == {("U . S .", "GPE"), ("Persian Gulf", "LOC"), ("They", "PER")}
    assert sum(report.counts.values()) == 3
    assert len(corpus.devel) == len(corpus.test) == 1


def test_ontonotes_lies_in_the_layout_of_conll_2012(tmp_path):
    row = "nw/x 0 {} {} NN * - - - - {} -\n"
    text = "#begin document (nw/x); part 000\n"
    text += row.format(0, "Kofi", "(PERSON*") + row.format(1, "Annan", "*)") + "\n#end document\n"
    for split in ("train", "development", "test"):
        folder = tmp_path / "OntoNotes5" / "data" / split / "data/english/annotations/nw"
        write(folder / "x.gold_conll", text)
    corpus = corpora.load_corpus("OntoNotes5", tmp_path)
    for split, found in (("train", corpus.train), ("devel", corpus.devel), ("test", corpus.test)):
        (sentence,) = found
        assert (sentence.tokens, sentence.spans) == (("Kofi", "Annan"), (Span(0, 2, "PERSON"),))
        assert sentence.id.startswith(f"OntoNotes5/{split}/")


def test_labels_have_domains():
    row = BUILT_IN["CRAFT"]
    assert [row.domain_of(label) for label in ("CHEBI", "Taxon", "other")] == [
        "Drug",
        "Species",
        "Mouse",
    ]


def test_statistics_are_those_counted_by_hand():
    sentences = [
        Sentence(("a", "b", "a"), (Span(0, 1, "X"), Span(1, 3, "Y"))),
        Sentence(("b", "c"), ()),
        Sentence(("c",), (Span(0, 1, "X"),)),
    ]
    found = corpora.corpus_statistics(iter(sentences))
    assert found == corpora.Statistics(3, 2, 6, 3, {"X": 2, "Y": 1})
    assert found.mentions == 3
    assert found.percent == pytest.approx(200 / 3)
    assert corpora.corpus_statistics([]).percent == 0


def tiny(root: Path) -> None:
    for split in corpora.SPLITS:
        write(root / "S800" / f"{split}.tsv.xz", tagged("x1", "a") + tagged("b"))
    write(root / "wikigold" / "train.tsv.xz", "".join(tagged(f"w{n}") for n in range(10)))


def test_the_command_shows_what_is_there(tmp_path):
    tiny(tmp_path)
    done = CliRunner().invoke(app, ["corpora", "--root", str(tmp_path)])
    assert done.exit_code == 0
    cells = [line.split() for line in done.stdout.splitlines()]
    assert ["S800", "6", "9", "3", "3", "1", "50.0", "20,526", "30"] in cells
    assert ["devel*", "1", "1", "0", "1", "0", "0.0"] in cells
    assert max(map(len, done.stdout.splitlines())) <= 80
    changed = done.stderr.splitlines()
    assert len(changed) == 4
    assert all("not the file the catalogue knows" in line for line in changed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--root", "nowhere"], "no such folder"),
        (["--root", "."], "holds no known corpus"),
        (["--root", "here", "S801"], "unknown corpus 'S801'; known are NCBI-disease, "),
        (["--root", "here", "BC2GM"], "no such file, so no BC2GM"),
        (["--root", "broken"], "train.tsv.xz:2: "),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, arguments, message):
    tiny(tmp_path / "here")
    tiny(tmp_path / "broken")
    write(tmp_path / "broken" / "S800" / "train.tsv.xz", "a\tO\nb\n")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["corpora", *arguments])
    assert done.exit_code == 1
    assert isinstance(done.exception, HardnerError)
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)


def test_a_missing_split_names_its_file(tmp_path):
    tiny(tmp_path)
    (tmp_path / "S800" / "test.tsv.xz").unlink()
    with pytest.raises(FileError, match=r"test\.tsv\.xz"):
        corpora.load_corpus("S800", tmp_path)
    with pytest.raises(FileError, match=r"test\.tsv\.xz"):
        BUILT_IN["S800"].changed(tmp_path)


def test_a_row_may_describe_its_labels_otherwise(tmp_path: Path) -> None:
    built_in = files("hardner").joinpath("catalogue.toml").read_text("utf-8")
    older = "".join(x for x in built_in.splitlines(True) if not x.startswith("descriptions = "))
    write(tmp_path / "catalogue.toml", older)
    own = Corpora.under(tmp_path).descriptions_of("NCBI-disease")
    assert own == Corpora(tmp_path, builtin_rows()).descriptions_of("NCBI-disease")
    head, row, rest = older.partition("[NCBI-disease]\n")
    write(tmp_path / "catalogue.toml", f'{head}{row}descriptions = {{ Disease = "ill" }}\n{rest}')
    assert Corpora.under(tmp_path).descriptions_of("NCBI-disease") == {"Disease": "ill"}


def test_every_label_of_the_benchmark_is_described_as_the_page_says() -> None:
    page = (Path(__file__).parents[1] / "docs" / "descriptions.md").read_text("utf-8")
    shown = re.findall(r"^\| ([\w-]+) \| (\w+) \| (.+) \|$", page, re.M)
    known = Corpora(Path(), builtin_rows())
    told = {name: known.descriptions_of(name) for name in BENCHMARK}
    assert [(n, label, t) for n, own in told.items() for label, t in own.items()] == shown[-8:]
    assert {n: {*own} for n, own in told.items()} == {n: {known.domain_of(n)} for n in BENCHMARK}
    assert known.descriptions_of("BC5CDR").keys() == {"Disease", "Drug"}
    assert known.descriptions_of("NCBI-disease:Disease") == told["NCBI-disease"]
    assert known.descriptions_of("none") == {}
