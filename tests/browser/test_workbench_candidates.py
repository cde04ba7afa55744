"""Review: candidates one by one, each answered by one key, and many at once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import workbench_acts as acts
from workbench_server import Server

expect = pytest.importorskip("playwright.sync_api").expect

LINES = 60
TEXTS = [
    f"The new stent number {n} broke in the old catheter and caused pain." for n in range(LINES)
]


@pytest.fixture
def own(model: Path, tmp_path: Path) -> Iterator[Server]:
    """A project in which the model suggests "new stent" in each of sixty documents."""
    with Server(tmp_path / "own.db", model) as server:
        server.ask("/api/types", {"name": "Device", "key": "d", "colour": 0})
        server.ask("/api/types", {"name": "Symptom", "key": "s", "colour": 1})
        documents = [{"name": f"text {n}", "text": text} for n, text in enumerate(TEXTS)]
        server.ask("/api/documents", {"documents": documents})
        acts.swept(server)
        found = {n + 1: [(1, 3, "Device", round(0.99 - n / 1000, 4))] for n in range(LINES)}
        acts.suggest(tmp_path / "own.db", found)
        yield server


@pytest.fixture
def page(visit: Any, own: Server) -> Any:
    opened = visit(own)
    opened.click("#review-open")
    expect(opened.locator("#review-title")).to_have_text("“new stent”: Device? 0.99")
    return opened


def asked(page: Any) -> str:
    return page.locator("#candidate .words").inner_text()


def spans(server: Server, number: int) -> list[str]:
    return acts.labels_of(server.ask(f"/api/sentences/{number}"))


def all_saved(page: Any) -> None:
    expect(page.locator("#saving")).to_have_text("All saved")


def number(page: Any, n: int) -> None:
    """Waits for the candidate of a document."""
    expect(page.locator("#candidate .words")).to_contain_text(f"number {n} ")


def test_one_key_each(page: Any, own: Server) -> None:
    press = page.keyboard.press
    press("Enter")  # accept
    number(page, 1)
    press("Backspace")  # reject
    number(page, 2)
    press("Space")  # skip
    number(page, 3)
    press("s")  # another type
    number(page, 4)
    press("ArrowRight")
    press("Shift+ArrowRight")
    expect(page.locator("#review-title")).to_contain_text("“stent number”")
    press("Enter")  # another span
    number(page, 5)
    press("-")  # no entity
    number(page, 6)
    press("Comma")
    press("Comma")  # back over what was answered to what was skipped
    number(page, 2)
    all_saved(page)
    one, two, three, four, five, six = (own.ask(f"/api/sentences/{n}") for n in range(1, 7))
    assert [acts.labels_of(s) for s in (one, two, three, four, five)] == [
        ["new stent"], [], [], ["new stent"], ["stent number"]
    ]  # fmt: skip
    states = [s["state"] for s in (one, two, three, four, five, six)]
    assert states == ["partial", "partial", "open", "partial", "partial", "none"]
    assert [s["type"] for s in four["spans"]] == [2]
    rejected = [(s["start"], s["end"], s["type"]) for s in two["rejected"]]
    assert rejected == [(1, 3, 1)]
    assert len(four["rejected"]) == len(five["rejected"]) == 1
    press("Enter")
    number(page, 6)
    press(".")  # nothing is labelled in it: it cannot be done
    number(page, 6)


def test_undo_goes_back_over_all_answers(page: Any, own: Server) -> None:
    for key in ("Enter", "Backspace", "s", "Enter"):
        page.keyboard.press(key)
    number(page, 4)
    for n in (3, 2, 1, 0):
        page.keyboard.press("Control+z")
        number(page, n)
    expect(page.locator(".far")).to_contain_text("0 of 100 today")
    assert not any(own.ask(f"/api/sentences/{n}")["spans"] for n in range(1, 5))
    page.keyboard.press("Control+y")
    number(page, 1)
    assert spans(own, 1) == ["new stent"]


def test_answers_wait_for_no_server(page: Any, own: Server) -> None:
    """With every save held back, one candidate follows the other, and in the end all arrive."""
    held: list[Any] = []
    page.route("**/api/sentences/*", lambda route: held.append(route))
    for n in range(30):
        number(page, n)
        page.keyboard.press("Enter")
    number(page, 30)
    expect(page.locator(".far")).to_contain_text("30 of 100 today")
    assert not any(spans(own, n) for n in range(1, 31))
    for route in held:
        route.continue_()
    all_saved(page)
    assert all(spans(own, n) == ["new stent"] for n in range(1, 31))
    times = page.evaluate("performance.getEntriesByName('next candidate').map(m => m.duration)")
    assert len(times) == 30


def test_answers_outlive_the_server_and_the_page(page: Any, own: Server) -> None:
    own.kill()
    for _ in range(3):
        page.keyboard.press("Enter")
    number(page, 3)
    expect(page.locator("#saving")).to_have_text("3 changes not saved")
    own.start()
    all_saved(page)
    assert [spans(own, n) for n in (1, 2, 3, 4)] == [["new stent"]] * 3 + [[]]


def test_questions(page: Any, own: Server) -> None:
    page.select_option("[name=order]", "as in the text")
    page.fill("[name=high]", "0.95")
    page.locator("[name=high]").blur()
    number(page, 40)
    page.fill("[name=query]", "number 47")
    page.locator("[name=query]").blur()
    number(page, 47)
    page.fill("[name=query]", "")
    page.locator("[name=query]").blur()
    page.select_option("[name=type]", label="Symptom")
    expect(page.locator("#candidate")).to_contain_text("There is nothing to ask about")
    page.select_option("[name=type]", "")
    page.select_option("[name=source]", "matches")
    expect(page.locator("#candidate")).to_contain_text("There is nothing to ask about")
    page.select_option("[name=source]", "suggestions")
    number(page, 40)
    page.focus("#candidate")
    page.keyboard.press("Enter")
    all_saved(page)
    page.select_option("[name=source]", "matches")
    page.fill("[name=high]", "1")
    page.locator("[name=high]").blur()
    number(page, 0)
    expect(page.locator("#review-title")).to_have_text("“new stent”: Device? 1.00")


def test_differences_are_settled_both_ways(visit: Any, own: Server, tmp_path: Path) -> None:
    project = tmp_path / "own.db"
    span = {"start": 4, "end": 5, "type": 1}
    own.ask("/api/sentences/1", {"version": 0, "spans": [span]}, "PUT")
    with closing(sqlite3.connect(project)) as database, database:
        database.execute("UPDATE models SET labels = '[\"Device\"]'")
        database.execute("UPDATE predictions SET disagrees = 1 WHERE sentence = 1")
    page = visit(own)
    page.click("#review-open")
    page.select_option("[name=order]", "as in the text")
    page.select_option("[name=source]", "differences")
    title = page.locator("#review-title")
    expect(title).to_have_text("“new stent”: Device? 0.99")
    page.focus("#candidate")
    page.keyboard.press("Enter")
    expect(title).to_have_text("“0” labelled Device: right?")
    page.keyboard.press("Backspace")
    expect(page.locator("#candidate")).to_contain_text("That was all")
    all_saved(page)
    assert spans(own, 1) == ["new stent"]
    assert own.ask("/api/sentences/1")["state"] == "labelled"


def test_many_at_once_from_a_list(page: Any, own: Server) -> None:
    page.get_by_role("button", name="Accept many").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("li")).to_have_count(LINES)
    page.fill("#many-score", "0.97")
    page.locator("#many-score").blur()
    expect(dialog.locator("li")).to_have_count(21)
    expect(dialog.locator("li").first).to_contain_text("The new stent number 0")
    dialog.locator("input[type=checkbox]").nth(1).uncheck()
    dialog.get_by_role("button", name="Label 20 mentions").click()
    number(page, 1)
    assert [bool(spans(own, n)) for n in (1, 2, 3, 21, 22)] == [True, False, True, True, False]
    page.focus("#candidate")
    page.keyboard.press("Control+z")
    number(page, 0)
    assert not any(spans(own, n) for n in range(1, 25))


def test_the_same_words_everywhere(visit: Any, own: Server) -> None:
    page = visit(own)
    acts.open_document(page, "text 3")
    acts.label(page, 0, "catheter", "d")
    page.keyboard.press("*")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("li")).to_have_count(LINES - 1)
    dialog.get_by_role("button", name="Untick all").click()
    for n in (0, 5):
        dialog.locator("input[type=checkbox]").nth(n).check()
    dialog.get_by_role("button", name="Label 2 mentions").click()
    expect(page.locator(".toast").last).to_contain_text("Labelled 2 mentions")
    assert [bool(spans(own, n)) for n in (1, 2, 4, 7)] == [True, False, True, True]


def test_the_goal_and_the_pace(page: Any, own: Server) -> None:
    goal = page.get_by_role("spinbutton", name="Goal")
    goal.fill("4")
    goal.blur()
    page.focus("#candidate")
    for _ in range(3):
        page.keyboard.press("Enter")
    expect(page.locator(".far")).to_contain_text("3 of 4 today")
    expect(page.locator(".far")).to_contain_text("s an answer")
    expect(page.locator(".far")).to_contain_text("57 left")
    all_saved(page)
    page.reload()
    page.click("#review-open")
    expect(page.locator(".far")).to_contain_text("3 of 4 today")


def test_a_mouse_picks_another_span(page: Any, own: Server) -> None:
    page.locator("#candidate").get_by_text("catheter", exact=True).click()
    expect(page.locator("#review-title")).to_contain_text("“catheter”")
    page.get_by_role("button", name="Accept ↵").click()
    number(page, 1)
    all_saved(page)
    assert spans(own, 1) == ["catheter"]


def test_review_fits_a_small_screen(page: Any) -> None:
    page.set_viewport_size({"width": 1024, "height": 700})
    wide = "document.documentElement.scrollWidth <= innerWidth"
    assert page.evaluate(wide)
    for name in ("Accept ↵", "Reject ⌫", "Sentence done .", "Leave Esc"):
        box = page.get_by_role("button", name=name).bounding_box()
        assert box and box["y"] + box["height"] <= 700 and box["x"] + box["width"] <= 1024, name
    page.focus("#candidate")
    page.keyboard.press("Escape")
    expect(page.locator("#documents")).to_be_visible()
