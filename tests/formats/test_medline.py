"""PubMed's XML: a fixture in its layout, written here."""

import gzip
import tracemalloc
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command import Command

from hardner.errors import FileError
from hardner.formats import Place, Report, detect, read
from hardner.formats.format import check_document
from hardner.types import Document, Passage

FIXTURE = Path(__file__).with_name("pubmed-fixture.xml")
DOCTYPE = FIXTURE.read_text("utf-8").partition("<PubmedArticleSet>")[0]


def article(pmid: object, title: str = "A title.", abstract: str = "Some text.") -> str:
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><Article>'
        f"<ArticleTitle>{title}</ArticleTitle><Abstract><AbstractText>{abstract}</AbstractText>"
        f"</Abstract></Article></MedlineCitation></PubmedArticle>\n"
    )


def written(path: Path, *articles: str, head: str = DOCTYPE) -> Path:
    content = f"{head}<PubmedArticleSet>\n{''.join(articles)}</PubmedArticleSet>\n"
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


def test_the_fixture() -> None:
    assert detect(FIXTURE).name == "medline"
    report = Report()
    documents = list(read(FIXTURE, report=report))
    for document in documents:
        check_document(document, Place(FIXTURE))
    assert [d.id for d in documents] == ["90000001", "90000002", "90000003", "90000004"]
    plain, parted, markup, foreign = documents
    assert plain.text == "Stents in small arteries.\nA stent & a graft were compared: p < 0.05."
    assert plain.passages == (Passage(0, 25, "title"), Passage(26, 68, "abstract"))
    assert [p.kind for p in parted.passages] == ["title", "BACKGROUND", "METHODS", "RESULTS"]
    assert [parted.text[p.start : p.end] for p in parted.passages][1:3] == [
        "Asthma is common.",
        "We asked 12 patients.",
    ]
    assert "BACKGROUND" not in parted.text
    assert markup.text == (
        "Escherichia coli and Ca2+ uptake.\n"
        "Growth rose by 10\u20092 when x2 > 1 (β-lactam, H2O) and NF-κB fell."
    )
    assert foreign.text == "[Fever in children]."
    assert foreign.passages == (Passage(0, 20, "title"),)
    assert report.counts == {
        "title in another language left out": 1,
        "other abstract (another language or source) left out": 1,
        "article without a title or an abstract left out": 1,
        "book or chapter left out": 1,
        "deletion not carried out": 2,
    }


def test_the_text_is_that_of_another_parser() -> None:
    others = [
        "".join(article.find("MedlineCitation/Article/ArticleTitle").itertext())  # type: ignore[union-attr]
        for article in ElementTree.parse(FIXTURE).getroot().iterfind("PubmedArticle")
    ]
    titles = [d.text[: d.passages[0].end] for d in read(FIXTURE, report=Report())]
    assert titles == [" ".join(title.split()) for title in others if title.strip()]


def test_compressed_and_plain_read_alike(tmp_path: Path) -> None:
    packed = tmp_path / "pubmed25n0001.xml.gz"
    packed.write_bytes(gzip.compress(FIXTURE.read_bytes()))
    assert list(read(packed, report=Report())) == list(read(FIXTURE, report=Report()))


def test_convert_to_the_project_s_own_lines(hardner: Command, tmp_path: Path) -> None:
    code, _, err = hardner("convert", FIXTURE, tmp_path / "out.jsonl")
    assert code == 0
    assert err.splitlines()[-1].endswith("4 documents, 0 mentions")
    assert list(read(tmp_path / "out.jsonl")) == list(read(FIXTURE, report=Report()))
    code, _, err = hardner("convert", tmp_path / "out.jsonl", tmp_path / "x", "--to", "medline")
    assert (code, err) == (1, "hardner: medline can be read but not written\n")


def test_memory_is_flat(tmp_path: Path) -> None:
    def peak(articles: int) -> int:
        path = written(tmp_path / "a.xml.gz", *(article(n) for n in range(articles)))
        tracemalloc.start()
        assert sum(1 for _ in read(path)) == articles
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(10)
    assert peak(20_000) < 2 * peak(1000) + 1_000_000


def test_a_parsed_article_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """libxml2's memory is not Python's, so the tree itself is looked at."""
    from hardner.formats import medline

    kept: list[int] = []
    convert = medline._document

    def counted(element, place, report):  # type: ignore[no-untyped-def]
        kept.append(len(element.getparent()))
        return convert(element, place, report)

    monkeypatch.setattr(medline, "_document", counted)
    path = written(tmp_path / "a.xml", *(article(n) for n in range(5000)))
    assert sum(1 for _ in read(path)) == 5000
    assert max(kept) < 500, "what the parser has read ahead, and no more"


@pytest.mark.parametrize(
    ("articles", "head", "said"),
    [
        ([article(1), "<PubmedArticle>\n<b></PubmedArticle>"], "", r"a\.xml:4: not XML: .*"),
        ([article(1), article("")], "", r"a\.xml:3: an article without a PMID"),
        (
            [article(1, "&boom;")],
            '<!DOCTYPE PubmedArticleSet [<!ENTITY a "aaaa"><!ENTITY boom "&a;&a;&a;">]>\n',
            r"a\.xml:3: document '1': holds the XML entity &boom;, which is not expanded.*",
        ),
        (
            [article(1, "&file;")],
            '<!DOCTYPE PubmedArticleSet [<!ENTITY file SYSTEM "/etc/hostname">]>\n',
            r"a\.xml:3: document '1': holds the XML entity &file;, which is not expanded.*",
        ),
        ([article(1, "&nowhere;")], "", r"a\.xml:2: not XML: .*"),
        ([], "", r"a\.xml: holds no documents"),
    ],
    ids=["broken", "no PMID", "entity bomb", "file entity", "unknown entity", "empty"],
)
def test_bad_files(
    hardner: Command, tmp_path: Path, articles: list[str], head: str, said: str
) -> None:
    path = written(tmp_path / "a.xml", *articles, head=head)
    with pytest.raises(FileError, match=said):
        list(read(path))
    code, out, err = hardner("convert", path, tmp_path / "out.jsonl")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_cut_short(tmp_path: Path) -> None:
    path = written(tmp_path / "a.xml.gz", *(article(n) for n in range(500)))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(FileError, match="cut short"):
        list(read(path))


def test_an_article_in_pieces(tmp_path: Path) -> None:
    bare = "<PubmedArticle><MedlineCitation><PMID>7</PMID></MedlineCitation></PubmedArticle>"
    comments = article(8, "A <!-- not this --><?nor this?>stent")
    path = written(tmp_path / "a.xml", bare, comments)
    report = Report()
    assert list(read(path, report=report)) == [
        Document(
            "8",
            "A stent\nSome text.",
            passages=(Passage(0, 7, "title"), Passage(8, 18, "abstract")),
        )
    ]
    assert report.counts == {"article without a title or an abstract left out": 1}
