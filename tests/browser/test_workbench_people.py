"""Several people at one project, each in a browser of their own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import workbench_acts as acts
from workbench_model import TEXTS
from workbench_server import Server

IMAGES = Path(__file__).parents[2] / "docs" / "images"
expect = pytest.importorskip("playwright.sync_api").expect


@pytest.fixture
def away(model: Path, tmp_path: Path) -> Iterator[Server]:
    """A server that other machines can reach."""
    with Server(tmp_path / "people.db", model, "--host", "0.0.0.0") as server:
        server.ask("/api/types", {"name": "Device", "key": "d", "colour": 0})
        server.ask("/api/types", {"name": "Symptom", "key": "s", "colour": 1})
        server.ask("/api/documents", {"documents": [{"name": "paper", "text": TEXTS[0]}]})
        yield server


def enter(visit: Any, server: Server, name: str) -> Any:
    page = visit(server)
    acts.enter_as(page, name)
    page.click("#tab-people")
    expect(page.locator("#my-name")).to_have_value(name)
    acts.open_document(page, "paper")
    return page


def people(server: Server) -> dict[str, Any]:
    return dict(server.ask("/api/people"))


def test_two_read_alone_and_a_third_decides(visit: Any, away: Server, tmp_path: Path) -> None:
    """Its screenshot is that of the docs; HARDNER_SCREENSHOTS=1 writes it there."""
    anna, ben = (enter(visit, away, name) for name in ("Anna", "Ben"))
    with anna.expect_navigation(), ben.expect_navigation():
        anna.check("#alone")
    for page in (anna, ben):
        acts.open_document(page, "paper")
    acts.label(anna, 0, "stent", "d")
    acts.label(anna, 0, "left", "s", "artery")
    acts.label(anna, 1, "catheter", "d")
    expect(acts.row(ben, 0).locator(".reader")).to_have_text("Anna")
    expect(acts.row(ben, 0).locator(".tag.label")).to_have_count(0)
    acts.label(ben, 0, "stent", "d")
    acts.label(ben, 1, "A", "d", "catheter")
    expect(acts.row(anna, 1).locator(".reader")).to_have_text("Ben")
    expect(acts.row(anna, 1).locator(".tag.label")).to_have_count(1)
    expect(anna.locator(".agreement tbody tr").first).to_contain_text("Device")
    expect(anna.locator("#panel-people")).to_contain_text("2 differences to decide")

    cora = enter(visit, away, "Cora Ω")
    cora.get_by_role("button", name="Decide").click()
    expect(cora.locator(".difference .side")).to_have_count(2)
    expect(cora.locator(".difference .side h3")).to_have_text(["Anna", "Ben"])
    expect(cora.locator(".difference .side").first).to_contain_text("left artery Symptom")
    expect(cora.get_by_role("button", name="Both")).to_have_count(0)  # as Anna's is all there is
    images = IMAGES if os.environ.get("HARDNER_SCREENSHOTS") else tmp_path
    cora.screenshot(path=images / "workbench-difference.png", animations="disabled")
    cora.get_by_role("button", name="Take Ben’s").click()
    expect(cora.locator(".difference")).to_contain_text("1 difference")
    cora.keyboard.press("1")
    expect(cora.locator("dialog")).to_have_count(0)
    expect(cora.locator("#panel-people")).to_contain_text("No difference is left")
    with anna.expect_navigation(), ben.expect_navigation(), cora.expect_navigation():
        cora.uncheck("#alone")
    found = away.ask("/api/documents/1")["sentences"]
    assert [acts.labels_of(one) for one in found] == [["stent"], ["catheter"], []]
    assert [one["readers"] for one in found] == [["Anna", "Ben"], ["Anna", "Ben"], []]
    agreed = people(away)["agreement"][0]
    assert (agreed["one"], agreed["other"], agreed["both"], agreed["differ"]) == (
        "Anna",
        "Ben",
        1,
        3,
    )


def test_one_project_for_all_is_live_and_undo_is_ones_own(visit: Any, away: Server) -> None:
    anna, ben = (enter(visit, away, name) for name in ("Anna", "Ben"))
    acts.label(anna, 0, "stent", "d")
    expect(acts.row(ben, 0).locator(".tag.label")).to_have_text("Device")
    expect(acts.row(ben, 0).locator(".reader")).to_have_text("Anna")
    acts.label(ben, 1, "catheter", "d")
    expect(acts.row(anna, 1).locator(".tag.label")).to_have_text("Device")
    expect(anna.locator("#undo")).to_have_attribute("title", 'label "stent" Device')
    anna.click("#undo")
    expect(acts.row(ben, 0).locator(".tag.label")).to_have_count(0)
    expect(acts.row(ben, 1).locator(".tag.label")).to_have_count(1)
    expect(anna.locator("#undo")).to_be_disabled()


def test_at_home_nobody_is_asked(visit: Any, shared: Server) -> None:
    page = visit(shared)
    page.click("#tab-people")
    expect(page.locator("#my-name")).to_have_value("me")
    expect(page.locator("dialog")).to_have_count(0)
    with page.expect_navigation():
        page.fill("#my-name", "Dora")
        page.keyboard.press("Enter")
    expect(page.locator("#my-name")).to_have_value("Dora")
