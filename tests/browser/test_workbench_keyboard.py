"""Everything without a mouse, from the first Tab on, and at 200 %."""

from typing import Any

import pytest
import workbench_acts as acts
from workbench_server import Server

expect = pytest.importorskip("playwright.sync_api").expect

TEXT = "The drug-eluting stent caused chest pain. It was removed."


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def tab_to(page: Any, selector: str) -> None:
    """Presses Tab until something has the focus, and sees that the focus is visible."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.locator(f"{selector}:focus").count():
            style = page.locator(selector).evaluate("e => getComputedStyle(e).outlineStyle")
            assert style != "none", f"{selector} does not show its focus"
            return
    raise AssertionError(f"Tab does not reach {selector}")


def test_a_document_is_added_and_labelled(visit: Any, shared: Server) -> None:
    page = visit(shared)
    tab_to(page, "#add")
    press(page, "Enter")
    page.keyboard.type(TEXT)
    tab_to(page, "#add-name")
    page.keyboard.type("typed")
    press(page, "Enter")
    expect(page.locator("dialog")).to_have_count(0)
    press(page, "/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("typed")
    expect(page.locator(".row")).to_have_count(1)
    tab_to(page, "#rows")
    press(page, "Enter")
    expect(page.locator("#text")).to_be_focused()
    press(page, "Home", "ArrowRight", *["Shift+ArrowRight"] * 3)
    expect(page.locator("#live")).to_contain_text("“drug-eluting stent”")
    press(page, "d")
    acts.saved(page, 0)
    press(page, "Escape", "Shift+ArrowRight", "s")
    expect(acts.row(page, 0).locator(".tag.label")).to_have_text(["Device", "Symptom"])
    press(page, "Control+z")
    expect(acts.row(page, 0).locator(".tag.label")).to_have_text(["Device"])
    press(page, "Control+y")
    expect(acts.row(page, 0).locator(".tag.label")).to_have_text(["Device", "Symptom"])
    press(page, "Control+End", "-")
    expect(acts.row(page, 1)).to_have_attribute("data-state", "none")
    acts.saved(page, 1)
    number = shared.ask("/api/documents?query=typed")["documents"][0]["id"]
    one, two = shared.ask(f"/api/documents/{number}")["sentences"]
    assert acts.labels_of(one) == ["drug - eluting stent", "stent caused"]
    assert two["state"] == "none"
    press(
        page, "Home", "ArrowUp", "End", "ArrowLeft", "Backspace", "Home", "ArrowRight", "Backspace"
    )
    expect(acts.row(page, 0).locator(".tag.label")).to_have_text(["Symptom"])


def test_arrows_move_by_word_and_line(visit: Any, shared: Server) -> None:
    text = " ".join(f"word{i}" for i in range(80)) + ". Second sentence."
    shared.ask("/api/documents", {"documents": [{"name": "long lines", "text": text}]})
    page = visit(shared)
    acts.open_document(page, "long lines")
    page.focus("#text")

    def box() -> dict[str, float]:
        return dict(page.locator(".head").bounding_box())

    press(page, "Home", *["ArrowRight"] * 3)
    expect(page.locator(".head")).to_have_text("word3")
    start = box()
    press(page, "ArrowDown")
    assert box()["y"] > start["y"] and abs(box()["x"] - start["x"]) < 60
    press(page, "ArrowUp")
    expect(page.locator(".head")).to_have_text("word3")
    press(page, "Control+End")
    expect(page.locator(".head")).to_have_text(".")
    press(page, "Home", "Shift+ArrowLeft")
    expect(page.locator(".word.picked")).to_have_text(["Second"])
    press(page, "ArrowLeft", "ArrowLeft")
    expect(page.locator(".head")).to_have_text("word79")


def test_help_lists_the_keys_and_gives_the_focus_back(visit: Any, shared: Server) -> None:
    page = visit(shared)
    page.focus("#help")
    press(page, "?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    expect(page.locator("dialog dt").first).to_be_visible()
    press(page, "Escape")
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.locator("#help")).to_be_focused()


def test_tabs_turn_by_arrow(visit: Any, shared: Server) -> None:
    page = visit(shared)
    page.focus("#tabs [aria-selected=true]")
    press(page, "End")
    expect(page.get_by_role("tab", name="Export")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Export")).to_be_visible()
    press(page, "ArrowRight")
    expect(page.get_by_role("tab", name="Types")).to_be_focused()


@pytest.mark.parametrize("width", [640, 320])
def test_readable_at_200_and_400_percent(visit: Any, shared: Server, width: int) -> None:
    """1280 pixels at 200 % are 640 to the page: nothing may need scrolling sideways."""
    shared.ask("/api/documents", {"documents": [{"name": f"zoom {width}", "text": TEXT * 5}]})
    page = visit(shared, viewport={"width": width, "height": 400})
    acts.open_document(page, f"zoom {width}")
    acts.unfold(page, "panels")
    for name in ("types", "adapt", "next", "models", "people", "export"):
        page.click(f"#tab-{name}")
        wide = page.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= width, name
    page.keyboard.press("Escape")
    expect(page.locator("#fold-panels")).to_be_focused()
    expect(page.locator("#panels")).to_be_hidden()
    acts.label(page, 0, "stent", "d")
