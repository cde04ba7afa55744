"""What the page makes of texts: hostile ones, odd ones, and labels that overlap."""

from itertools import combinations
from typing import Any

import pytest
import workbench_acts as acts
from hypothesis import given
from hypothesis import strategies as st
from workbench_server import Server

expect = pytest.importorskip("playwright.sync_api").expect

HOSTILE = (
    "<script>window.harmed = 1</script> <img src=x onerror='window.harmed = 1'> & "
    "</span></div><style>*{display:none}</style> javascript:alert(1) &lt;b&gt; ${window.harmed=1}"
)
ODD = "The 𝛽-blocker 💊 helped naïve cells\u00a0(n = 3). Ein zweiter Satz\u202ereversed\u202c."


def test_a_hostile_document_is_only_text(visit: Any, shared: Server) -> None:
    name = "<img src=x onerror=window.harmed=1>"
    added = shared.ask("/api/documents", {"documents": [{"name": name, "text": HOSTILE}]})
    page = visit(shared)
    acts.open_document(page, name)
    shown = "".join(page.locator("#text .word, #text .gap").all_text_contents())
    assert shown == HOSTILE.replace("\n", " ")
    assert page.locator("#text script, #text img, #text style, #documents img").count() == 0
    page.focus("#text")
    page.keyboard.press("Control+Home")
    page.keyboard.press("Shift+End")
    page.keyboard.press("d")
    acts.saved(page, 0)
    page.click("#remove")
    expect(page.locator(".toast")).to_contain_text(name)
    assert page.evaluate("() => window.harmed") is None
    assert added["added"] == 1


def test_letters_beyond_the_first_plane(visit: Any, shared: Server) -> None:
    """JavaScript counts UTF-16, Python letters; labels are counted in words, so neither matters."""
    number = shared.ask("/api/documents", {"documents": [{"name": "odd", "text": ODD}]})["first"]
    page = visit(shared)
    acts.open_document(page, "odd")
    acts.label(page, 0, "helped", "s")
    acts.label(page, 0, "naïve", "d", "cells")
    sentence = shared.ask(f"/api/documents/{number}")["sentences"][0]
    assert acts.labels_of(sentence) == ["helped", "naïve cells"]


def test_labels_that_overlap_stay_apart(visit: Any, shared: Server) -> None:
    """Each label has a line of its own under each of its words, and its name behind it."""
    text = "The drug eluting stent pain score was high."
    shared.ask("/api/documents", {"documents": [{"name": "overlap", "text": text}]})
    page = visit(shared)
    acts.open_document(page, "overlap")
    acts.label(page, 0, "drug", "d", "stent")
    acts.label(page, 0, "stent", "s", "score")
    expect(acts.row(page, 0).locator(".tag.label")).to_have_text(["Device", "Symptom"])
    both = acts.row(page, 0).locator(".piece", has_text="stent")
    lines = both.evaluate("e => getComputedStyle(e).backgroundPositionY.split(', ')")
    assert len(lines) == len(set(lines)) == 2


SPANS = st.lists(
    st.tuples(st.integers(0, 8), st.integers(1, 4)).map(
        lambda p: {"start": p[0], "end": p[0] + p[1], "type": 1, "kind": "label"}
    ),
    max_size=8,
)


def test_lanes_never_cross(visit: Any, shared: Server) -> None:
    page = visit(shared)

    @given(SPANS)
    def check(spans: list[dict[str, Any]]) -> None:
        script = "async spans => (await import('/static/text/paint.js')).lanes(spans)"
        placed = page.evaluate(script, spans)
        assert len(placed) == len(spans)
        for a, b in combinations(placed, 2):
            overlap = a["start"] < b["end"] and b["start"] < a["end"]
            assert not (overlap and a["lane"] == b["lane"])
        depth = max((sum(s["start"] <= t < s["end"] for s in spans) for t in range(13)), default=0)
        assert len({s["lane"] for s in placed}) == depth

    check()


def test_same_type_never_overlaps(visit: Any, shared: Server) -> None:
    """Whatever is pressed in whatever order, the server would take what comes of it."""
    page = visit(shared)
    span = st.tuples(st.integers(0, 6), st.integers(1, 3), st.integers(1, 2)).map(
        lambda p: {"start": p[0], "end": p[0] + p[1], "type": p[2], "score": 0.5}
    )
    deeds = st.lists(st.tuples(st.sampled_from(["label", "accept", "reject", "none"]), span))
    script = """async ([deeds, guesses]) => {
      const s = await import('/static/core/spans.js');
      let labels = {spans: [], none: false, rejected: []};
      for (const [deed, span] of deeds) {
        if (deed === 'label') labels = s.label(labels, span, guesses);
        if (deed === 'accept') labels = s.accept(labels, [span]);
        if (deed === 'reject') labels = s.reject(labels, [span]);
        if (deed === 'none') labels = s.toggleNone(labels);
      }
      return labels;
    }"""

    @given(deeds, st.lists(span, max_size=4))
    def check(deeds: list[Any], guesses: list[Any]) -> None:
        labels = page.evaluate(script, [deeds, guesses])
        for a, b in combinations(labels["spans"], 2):
            overlap = a["start"] < b["end"] and b["start"] < a["end"]
            assert not (overlap and a["type"] == b["type"])
        assert not (labels["none"] and labels["spans"])
        if deeds and deeds[-1][0] == "accept":
            wanted = {k: deeds[-1][1][k] for k in ("start", "end", "type")}
            assert wanted in labels["spans"]

    check()
