"""The page at three sizes, by touch, from right to left, and with a very long document."""

import os
from pathlib import Path
from typing import Any

import pytest
import workbench_acts as acts
from workbench_model import TEXTS
from workbench_server import Server

expect = pytest.importorskip("playwright.sync_api").expect

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZES = {"desktop": (1440, 900), "laptop": (1024, 700), "tablet": (768, 1024)}


@pytest.mark.parametrize("name", SIZES)
def test_three_sizes(visit: Any, shared: Server, tmp_path: Path, name: str) -> None:
    """Its screenshots are those of the docs; HARDNER_SCREENSHOTS=1 writes them there."""
    width, height = SIZES[name]
    text = " ".join(TEXTS)
    shared.ask("/api/documents", {"documents": [{"name": f"trial on a {name}", "text": text}]})
    tablet = {"has_touch": True, "is_mobile": True} if name == "tablet" else {}
    size = {"width": width, "height": height}
    page = visit(shared, color_scheme="light", viewport=size, **tablet)
    acts.open_document(page, f"trial on a {name}")
    acts.label(page, 0, "stent", "d")
    acts.label(page, 2, "adverse", "s", "event")
    acts.pick(page, 1, "catheter")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.evaluate("() => document.documentElement.scrollHeight") <= height
    tops = page.locator("#toolbar button:visible").evaluate_all(
        "all => all.map((one) => Math.round(one.getBoundingClientRect().top))"
    )
    assert max(tops) - min(tops) <= 4, "the toolbar is one row"
    text = page.locator("#text").bounding_box()
    assert text["height"] > 0.6 * height and text["width"] > 0.45 * width
    images = IMAGES if os.environ.get("HARDNER_SCREENSHOTS") else tmp_path
    page.screenshot(path=images / f"workbench-{name}.png", animations="disabled")


def test_parts_fold_and_stay_folded(visit: Any, shared: Server) -> None:
    page = visit(shared)
    before = page.locator("#labelling").bounding_box()["width"]
    page.click("#fold-documents")
    page.click("#fold-panels")
    expect(page.locator("#documents")).to_be_hidden()
    assert page.locator("#labelling").bounding_box()["width"] > before + 300
    page.reload()
    expect(page.locator("#fold-panels")).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#panels")).to_be_hidden()
    page.click("#fold-panels")
    expect(page.locator("#panels")).to_be_visible()


def test_the_menu_holds_what_the_row_has_no_room_for(visit: Any, shared: Server) -> None:
    shared.ask("/api/documents", {"documents": [{"name": "menu", "text": TEXTS[0]}]})
    page = visit(shared)
    acts.open_document(page, "menu")
    acts.label(page, 0, "stent", "d")
    more = page.get_by_role("button", name="More", exact=True)
    expect(page.get_by_role("button", name="Partly done")).to_be_hidden()
    more.click()
    page.get_by_role("button", name="Partly done").click()
    expect(acts.row(page, 0)).to_have_attribute("data-state", "partial")
    page.keyboard.press("Escape")
    acts.pick(page, 1, "catheter")
    expect(page.get_by_role("button", name="Partly done")).to_be_hidden()


def test_a_finger_picks_several_words(visit: Any, shared: Server) -> None:
    shared.ask("/api/documents", {"documents": [{"name": "touched", "text": TEXTS[0]}]})
    page = visit(shared, has_touch=True, is_mobile=True)
    acts.open_document(page, "touched")
    row = acts.row(page, 0)
    row.get_by_text("stent", exact=True).tap()
    expect(page.locator(".word.picked")).to_have_text(["stent"])
    drag(page, "stent", "placed")
    expect(page.locator(".word.picked")).to_have_text(["stent", "was", "placed"])
    drag(page, "stent", "The")  # from the front, the end stays
    expect(page.locator(".word.picked")).to_have_text(["The", "stent", "was", "placed"])
    page.locator(".type", has_text="Device").click()
    expect(row.locator(".tag.label")).to_have_text("Device")


def drag(page: Any, first: str, last: str) -> None:
    """A finger goes from a word to another."""
    wire = page.context.new_cdp_session(page)

    def at(word: str) -> list[dict[str, float]]:
        place = acts.row(page, 0).get_by_text(word, exact=True).first
        place.hover(trial=True)  # waits until it stays where it is
        box = place.bounding_box()
        return [{"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}]

    begins, ends = at(first), at(last)
    for kind, points in (
        ("touchStart", begins),
        ("touchMove", begins),
        ("touchMove", ends),
        ("touchEnd", []),
    ):
        wire.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def test_from_right_to_left(visit: Any, shared: Server) -> None:
    text = "أظهر المريض حمى شديدة. The patient had a stent."
    added = shared.ask("/api/documents", {"documents": [{"name": "rtl", "text": text}]})
    page = visit(shared)
    acts.open_document(page, "rtl")
    ways = page.locator("#text .words").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).direction)"
    )
    assert ways[0] == "rtl" and (len(ways) == 1 or ways[1] == "ltr")
    page.focus("#text")
    for key in ("Control+Home", "ArrowLeft", "ArrowLeft", "Shift+ArrowLeft"):
        page.keyboard.press(key)
    expect(page.locator(".word.picked")).to_have_text(["حمى", "شديدة"])
    page.keyboard.press("s")
    acts.saved(page, 0)
    sentence = shared.ask(f"/api/documents/{added['first']}")["sentences"][0]
    assert acts.labels_of(sentence) == ["حمى شديدة"]


def test_a_long_document_has_words_only_where_it_is_read(visit: Any, shared: Server) -> None:
    text = " ".join(f"Case {n} had a stent in the left artery for weeks." for n in range(700))
    number = shared.ask("/api/documents", {"documents": [{"name": "700 cases", "text": text}]})[
        "first"
    ]
    page = visit(shared)
    acts.open_document(page, "700 cases")
    rows = page.locator("#text .sentence")
    while rows.count() < 700:  # more come by themselves near the end
        seen = rows.count()
        page.locator("#text").evaluate("e => e.scrollTop = e.scrollHeight")
        expect(rows.nth(seen)).to_be_attached()
    assert page.locator("#text .word").count() < 2_000
    shown = page.locator("#text .words").all_text_contents()
    assert [int(words.split()[1]) for words in shown] == list(range(700)), "in the order of reading"
    assert page.evaluate("() => window.find('Case 350 had')"), "the browser finds what is far away"

    page.focus("#text")
    page.keyboard.press("Control+End")
    expect(page.locator(".sentence.current")).to_contain_text("Case 699")
    page.keyboard.press("Control+Home")
    for _ in range(12):
        page.keyboard.press("ArrowDown")
    for _ in range(12):
        page.keyboard.press("ArrowUp")
    expect(page.locator(".sentence.current")).to_contain_text("Case 0")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".head")).to_have_text("Case")
    middle = rows.nth(400)
    middle.scroll_into_view_if_needed()
    middle.get_by_text("stent", exact=True).click()
    page.keyboard.press("d")
    expect(middle.locator(".tag.label")).to_have_text("Device")
    page.locator("#text").evaluate("e => e.scrollTop = 0")
    expect(rows.nth(300).locator(".word")).to_have_count(0)
    middle.scroll_into_view_if_needed()
    expect(middle.locator(".tag.label")).to_have_text("Device")
    page.keyboard.press("ArrowUp")
    found = shared.ask(f"/api/documents/{number}?start=400&limit=1")["sentences"][0]
    assert acts.labels_of(found) == ["stent"]
