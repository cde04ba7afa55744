"""axe-core finds nothing serious in any main state, in light and in dark."""

from importlib.resources import files
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
    for name in ("types", "adapt", "next", "models", "people", "export"):
        page.click(f"#tab-{name}")
        assert findings(page) == [], name
    page.click("#add")
    assert findings(page) == [], "add"
    page.keyboard.press("Escape")
    page.click("#help")
    assert findings(page) == [], "help"


def test_axe_would_find_something(visit: Any, shared: Server) -> None:
    page = visit(shared)
    bare = "() => document.getElementById('search').closest('label').replaceWith(%s)"
    page.evaluate(bare % "document.createElement('input')")
    assert any("label" in finding for finding in findings(page))
