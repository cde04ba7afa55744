"""The page: every character there, everything escaped, overlaps told apart."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from strategies import rich_documents

from hardner.formats import Report, write
from hardner.formats.html import HIGHLIGHT_COLOURS, LINES, visible
from hardner.types import Document, Entity


class Page(HTMLParser):
    """What a browser makes of the page: text without labels, and who covers each character."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.labels, self.covers, self.legend = "", [], [], ""
        self.tags: set[str] = set()
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag != "meta":
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        within = [tag for tag, _ in self.open]
        if "footer" in within:
            self.legend += data
        elif "small" in within:
            self.labels.append(data)
        elif "p" in within:
            self.text += data
            around = frozenset(a["title"] for tag, a in self.open if tag == "span")
            lanes = [a["style"] for tag, a in self.open if tag == "span"]
            assert len(set(lanes)) == len(lanes), "two mentions on one line"
            self.covers += [around] * len(data)


def page(tmp_path: Path, *documents: Document) -> tuple[str, Page]:
    path = tmp_path / "page.html"
    write(documents, path, strict=True, report=(report := Report()))
    assert not report.counts
    content = path.read_text("utf-8")
    return content, Page(content)


def test_mentions_that_overlap(tmp_path: Path) -> None:
    text = "breast cancer type 1 gene"
    entities = (
        Entity(0, 13, "Disease", "breast cancer", 0.98),
        Entity(0, 25, "Gene", text, 0.5),
        Entity(7, 20, "Kind", "cancer type 1", identifier="X:1"),
    )
    _, shown = page(tmp_path, Document("d<1>", text, entities))
    assert shown.text == text
    assert shown.labels == ["Disease", "Kind", "Gene"]
    titles = {
        "Disease 0.98: breast cancer",
        f"Gene 0.50: {text}",
        "Kind: cancer type 1 (X:1)",
    }
    assert shown.covers[0] == {t for t in titles if not t.startswith("Kind")}
    assert shown.covers[8] == titles
    assert shown.covers[15] == {t for t in titles if not t.startswith("Disease")}
    assert shown.covers[22] == {t for t in titles if t.startswith("Gene")}
    assert shown.legend.split() == ["Disease", "1", "Gene", "1", "Kind", "1"]


def test_nothing_of_the_text_becomes_markup(tmp_path: Path) -> None:
    nasty = "</p><script>alert('x')</script> & \"quoted\" \x1b[31m\u202e"
    entity = Entity(0, len(nasty), '"><b>', nasty, 0.1)
    content, shown = page(tmp_path, Document("<i>", nasty, (entity,)))
    assert not {"script", "b", "i"} & shown.tags
    assert shown.text == visible(nasty)
    assert "\x1b" not in content
    assert shown.labels == ['"><b>']


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    content, shown = page(tmp_path, Document("d", "a b", (Entity(0, 1, "X", "a"),)))
    assert not {"link", "img", "script", "iframe"} & shown.tags
    assert "://" not in content
    assert "url(" not in content
    assert "prefers-color-scheme: dark" in content
    assert 'dir="auto"' in content


def test_more_labels_than_colours_are_still_told_apart(tmp_path: Path) -> None:
    many = [Entity(i, i + 1, f"L{i}", "x") for i in range(len(HIGHLIGHT_COLOURS) + 1)]
    content, _ = page(tmp_path, Document("d", "x" * len(many), tuple(many)))
    styles = [row for row in content.splitlines() if row.startswith(".c")]
    assert len(set(styles)) == len(HIGHLIGHT_COLOURS) * len(LINES)
    assert 'class="m c0"' in content
    assert f'class="m c{len(HIGHLIGHT_COLOURS)}"' in content


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(document=rich_documents())
def test_every_character_and_every_mention_is_shown(tmp_path: Path, document: Document) -> None:
    # A page does not show how far sentences were labelled, nor what was rejected.
    document = replace(document, sentences=(), rejected=())
    _, shown = page(tmp_path, document)
    assert shown.text == visible(document.text)
    assert sorted(shown.labels) == sorted(visible(e.label) for e in document.entities if e.label)
