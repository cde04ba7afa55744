"""Two tabs on one project never overwrite each other."""

from typing import Any

import pytest
import workbench_acts as acts
from workbench_model import TEXTS
from workbench_server import Server

expect = pytest.importorskip("playwright.sync_api").expect

SLEEPING = "**/api/status*"


def opened(visit: Any, server: Server, name: str, count: int = 2) -> tuple[int, list[Any]]:
    """A new document, open in some tabs that hear of each other's changes only when they save."""
    documents = [{"name": name, "text": TEXTS[0]}]
    number = server.ask("/api/documents", {"documents": documents})["first"]
    pages = [visit(server) for _ in range(count)]
    for page in pages:
        page.route(SLEEPING, lambda route: route.abort())
        acts.open_document(page, name)
    return number, pages


def first(server: Server, document: int) -> dict[str, Any]:
    return dict(server.ask(f"/api/documents/{document}")["sentences"][0])


@pytest.mark.parametrize("choice", ["Keep mine", "Take theirs"])
def test_a_conflict_shows_both_states(visit: Any, shared: Server, choice: str) -> None:
    number, (one, two) = opened(visit, shared, f"conflict {choice}")
    acts.label(one, 0, "stent", "d")
    acts.pick(two, 0, "left", "artery")
    two.keyboard.press("s")
    expect(two.locator("dialog .side").nth(0)).to_contain_text("left artery")
    expect(two.locator("dialog .side").nth(0).locator(".tag")).to_have_text("Symptom")
    expect(two.locator("dialog .side").nth(1).locator(".tag")).to_have_text("Device")
    expect(two.locator("#saving")).not_to_have_text("All saved")
    assert acts.labels_of(first(shared, number)) == ["stent"]
    two.get_by_role("button", name=choice).click()
    expect(two.locator("#saving")).to_have_text("All saved")
    expected = ["left artery"] if choice == "Keep mine" else ["stent"]
    assert acts.labels_of(first(shared, number)) == expected
    expect(acts.row(two, 0).locator(".tag.label")).to_have_count(1)


def test_a_conflict_may_wait(visit: Any, shared: Server) -> None:
    number, (one, two) = opened(visit, shared, "conflict waits")
    acts.label(one, 0, "stent", "d")
    acts.pick(two, 0, "artery")
    two.keyboard.press("s")
    two.locator("dialog").wait_for()
    two.keyboard.press("Escape")
    two.get_by_role("button", name="1 conflict: decide").click()
    two.get_by_role("button", name="Keep mine").click()
    acts.saved(two, 0)
    assert acts.labels_of(first(shared, number)) == ["artery"]


def test_different_sentences_go_through(visit: Any, shared: Server) -> None:
    number, (one, two) = opened(visit, shared, "no conflict")
    acts.label(one, 0, "stent", "d")
    acts.label(two, 1, "catheter", "d")
    found = shared.ask(f"/api/documents/{number}")["sentences"]
    assert [acts.labels_of(s) for s in found] == [["stent"], ["catheter"], []]
    for page in (one, two):
        page.unroute(SLEEPING)
        expect(acts.row(page, 0).locator(".tag.label")).to_have_text("Device")
        expect(acts.row(page, 1).locator(".tag.label")).to_have_text("Device")
