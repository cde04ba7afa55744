"""A reload or a killed server: what was shown as saved is there, and the rest is not lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import workbench_acts as acts
from workbench_model import TEXTS
from workbench_server import Server

expect = pytest.importorskip("playwright.sync_api").expect


@pytest.fixture(scope="module")
def own(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("own") / "own.db", model) as server:
        server.ask("/api/types", {"name": "Device", "key": "d", "colour": 0})
        yield server


def add(server: Server, name: str, text: str = TEXTS[0]) -> None:
    server.ask("/api/documents", {"documents": [{"name": name, "text": text}]})


def sentences(server: Server, name: str) -> list[dict[str, Any]]:
    rows = server.ask("/api/documents?limit=1000")["documents"]
    number = next(row["id"] for row in rows if row["name"] == name)
    return list(server.ask(f"/api/documents/{number}")["sentences"])


def test_kill_during_a_save(visit: Any, own: Server) -> None:
    """Shown as saved: on the disk. Not shown as saved: kept, also over a reload, and sent later."""
    add(own, "save")
    page = visit(own)
    acts.open_document(page, "save")
    acts.label(page, 0, "stent", "d")
    page.route("**/api/sentences/*", lambda route: (own.kill(), route.abort()))
    acts.pick(page, 1, "catheter")
    page.keyboard.press("d")
    expect(page.locator("#banner")).to_contain_text("1 change not saved yet")
    expect(acts.row(page, 1)).to_have_attribute("data-save", "waiting")
    expect(page.locator("#saving")).to_have_text("1 change not saved")
    page.unroute("**/api/sentences/*")
    own.start()
    acts.saved(page, 1)
    expect(page.locator("#banner")).to_be_hidden()
    assert [acts.labels_of(s) for s in sentences(own, "save")] == [["stent"], ["catheter"], []]


def test_kill_after_the_write(visit: Any, own: Server) -> None:
    """The server wrote and died before it could say so: the retry is no conflict."""
    add(own, "write")
    page = visit(own)
    acts.open_document(page, "write")

    def answer_lost(route: Any) -> None:
        route.fetch()
        own.kill()
        route.abort()

    page.route("**/api/sentences/*", answer_lost)
    acts.pick(page, 0, "stent")
    page.keyboard.press("d")
    expect(page.locator("#banner")).to_be_visible()
    page.unroute("**/api/sentences/*")
    own.start()
    acts.saved(page, 0)
    expect(page.locator("dialog")).to_have_count(0)
    (first, *_) = sentences(own, "write")
    assert acts.labels_of(first) == ["stent"] and len(first["spans"]) == 1


def test_reload_with_unsaved_labels(visit: Any, own: Server) -> None:
    add(own, "reload")
    page = visit(own)
    acts.open_document(page, "reload")
    page.route("**/api/sentences/*", lambda route: route.abort())
    acts.pick(page, 0, "stent")
    page.keyboard.press("d")
    expect(acts.row(page, 0)).to_have_attribute("data-save", "waiting")
    page.reload()
    expect(page.locator("#document-title")).to_have_text("reload")
    expect(acts.row(page, 0).locator(".tag.label")).to_have_text("Device")
    expect(page.locator("#saving")).not_to_have_text("All saved")
    assert acts.labels_of(sentences(own, "reload")[0]) == []
    page.unroute("**/api/sentences/*")
    acts.saved(page, 0)
    assert acts.labels_of(sentences(own, "reload")[0]) == ["stent"]


def test_kill_during_adapt(visit: Any, own: Server) -> None:
    for i in range(3):
        add(own, f"text {i}", TEXTS[i])
    page = visit(own)
    for name, word in (("text 0", "stent"), ("text 1", "pacemaker"), ("text 2", "catheter")):
        acts.open_document(page, name)
        acts.label(page, 0, word, "d")
    page.click("#tab-adapt")
    page.get_by_role("button", name="Adapt", exact=True).click()
    expect(page.locator("#panel-adapt progress")).to_be_visible()
    before = own.ask("/api/models")
    own.kill()
    expect(page.locator("#banner")).to_be_visible()
    own.start()
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator("#panel-adapt .stage")).to_contain_text("interrupted")
    assert own.ask("/api/models") == before
    for name in ("text 0", "text 1", "text 2"):
        assert len(acts.labels_of(sentences(own, name)[0])) == 1
    page.get_by_role("button", name="Adapt", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#panel-adapt .stage")).to_contain_text("cancelled")


def test_typed_text_stays_while_the_server_is_gone(visit: Any, own: Server) -> None:
    page = visit(own)
    own.kill()
    page.click("#add")
    page.fill("#add-text", "A long text that took a while to type.")
    page.click("dialog button[type=submit]")
    expect(page.locator("dialog .wrong")).to_contain_text("does not answer")
    expect(page.locator("#add-text")).to_have_value("A long text that took a while to type.")
    own.start()
    expect(page.locator("#banner")).to_be_hidden()
    page.click("dialog button[type=submit]")
    expect(page.locator("dialog")).to_have_count(0)
    assert own.ask("/api/documents?query=while")["total"] == 1


@pytest.fixture
def far(model: Path, tmp_path: Path) -> Iterator[Server]:
    """As other machines reach it."""
    with Server(tmp_path / "far.db", model, "--host", "0.0.0.0") as server:
        server.ask("/api/types", {"name": "Device", "key": "d", "colour": 0})
        add(server, "far")
        yield server


def label_while_gone(page: Any, server: Server) -> None:
    acts.open_document(page, "far")
    acts.label(page, 0, "stent", "d")
    server.kill()
    acts.pick(page, 1, "catheter")
    page.keyboard.press("d")
    expect(page.locator("#banner")).to_contain_text("1 change not saved yet")


def test_a_token_outlives_the_server(visit: Any, far: Server) -> None:
    page = visit(far)
    acts.enter_as(page, "Robin")
    label_while_gone(page, far)
    far.start()
    acts.saved(page, 1)
    assert [acts.labels_of(s) for s in sentences(far, "far")] == [["stent"], ["catheter"], []]


@pytest.mark.parametrize("how", ["dialog", "address"])
def test_labels_wait_for_a_new_token(visit: Any, far: Server, tmp_path: Path, how: str) -> None:
    page = visit(far)
    acts.enter_as(page, "Robin")
    label_while_gone(page, far)
    (tmp_path / "far.db-token").unlink()
    far.start()
    asked = page.get_by_role("dialog", name="This workbench asks for its token")
    expect(asked).to_be_visible()
    expect(page.locator("#saving")).not_to_contain_text("All saved")
    asked.get_by_role("textbox").fill("not this")
    asked.get_by_role("button", name="Open").click()
    expect(asked).to_contain_text("That is not the token")
    if how == "dialog":
        asked.get_by_role("textbox").fill(far.entrance)
        asked.get_by_role("button", name="Open").click()
    else:
        page.goto(far.entrance)
    expect(asked).to_have_count(0)
    expect(page.locator("#saving")).to_have_text("All saved")
    assert [acts.labels_of(s) for s in sentences(far, "far")] == [["stent"], ["catheter"], []]


def test_a_full_disk_is_named(visit: Any, own: Server) -> None:
    add(own, "full")
    page = visit(own)
    acts.open_document(page, "full")
    full = {"status": 507, "json": {"error": "the disk is full; free some space"}}
    page.route("**/api/sentences/*", lambda route: route.fulfill(**full))
    acts.pick(page, 0, "stent")
    page.keyboard.press("d")
    expect(page.locator("#banner")).to_contain_text("the disk is full")
    expect(page.locator("#saving")).not_to_contain_text("All saved")
    page.unroute("**/api/sentences/*")
    acts.saved(page, 0)
    expect(page.locator("#banner")).to_be_hidden()
    assert acts.labels_of(sentences(own, "full")[0]) == ["stent"]
