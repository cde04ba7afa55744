"""axe-core finds nothing serious in any main state, in light and in dark."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import workbench_acts as acts
from workbench_model import TEXTS
from workbench_server import Server

pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")


def findings(page: Any) -> list[str]:
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found = page.evaluate("() => axe.run()")["violations"]
    assert page.evaluate("() => axe.version")
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:120]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_findings(visit: Any, shared: Server, theme: str) -> None:
    documents = [{"name": f"axe {theme}", "text": TEXTS[0]}]
    shared.ask("/api/documents", {"documents": documents})
    page = visit(shared, color_scheme=theme, reduced_motion="reduce")
    assert findings(page) == []
    acts.open_document(page, f"axe {theme}")
    acts.label(page, 0, "stent", "d")
    acts.label(page, 0, "stent", "s", "placed")
    for name in ("types", "adapt", "next", "models", "people", "export", "guide"):
        page.click(f"#tab-{name}")
        assert findings(page) == [], name
    page.click("#add")
    assert findings(page) == [], "add"
    page.keyboard.press("Escape")
    page.click("#help")
    assert findings(page) == [], "help"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_findings_in_review(visit: Any, model: Path, tmp_path: Path, theme: str) -> None:
    with Server(tmp_path / "own.db", model) as own:
        for name in ("Device", *(f"Kind {n}" for n in range(15))):
            own.ask("/api/types", {"name": name})
        own.ask("/api/documents", {"documents": [{"name": "one", "text": TEXTS[0]}]})
        acts.swept(own)
        acts.suggest(tmp_path / "own.db", {1: [(1, 2, "Device", 0.9)], 2: [(1, 2, "Device", 0.8)]})
        own.ask("/api/sentences/1/note", {"start": 0, "end": 1, "text": "look"}, "PUT")
        page = visit(own, color_scheme=theme, reduced_motion="reduce")
        acts.open_document(page, "one")
        page.fill("#search", "stent")
        page.locator("#text .hit").first.wait_for()
        assert findings(page) == [], "hits and notes"
        page.click("#review-open")
        page.locator("#candidate .picked").first.wait_for()
        assert findings(page) == [], "a candidate"
        page.get_by_role("button", name="Accept many").click()
        page.locator(".ticks li").first.wait_for()
        assert findings(page) == [], "many"
        page.keyboard.press("Escape")
        page.focus("#candidate")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        page.get_by_text("That was all").wait_for()
        assert findings(page) == [], "the end"


def test_axe_would_find_something(visit: Any, shared: Server) -> None:
    page = visit(shared)
    bare = "() => document.getElementById('search').closest('label').replaceWith(%s)"
    page.evaluate(bare % "document.createElement('input')")
    assert any("label" in finding for finding in findings(page))
