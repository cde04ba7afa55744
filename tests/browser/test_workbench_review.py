"""Counts that are right, nothing lost by one click, and the model's questions answered by a key."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import workbench_acts as acts
from workbench_server import Server

expect = pytest.importorskip("playwright.sync_api").expect

TEXT = "The new stent and the old catheter caused pain. Nothing else was seen."


@pytest.fixture
def own(model: Path, tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "own.db", model) as server:
        server.ask("/api/types", {"name": "Device", "key": "d", "colour": 0})
        server.ask("/api/types", {"name": "Symptom", "key": "s", "colour": 1})
        server.ask("/api/documents", {"documents": [{"name": "one", "text": TEXT}]})
        yield server


def guessed(*predicted: dict[str, Any]) -> Callable[[Any], None]:
    """A model that suggests these spans in the first sentence, between server and page."""

    def answer(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        for sentence in body.get("sentences", []):
            sentence["predicted"] = list(predicted) if sentence["id"] == 1 else []
        if "spans" in body:
            body["predicted"] = list(predicted) if body["id"] == 1 else []
        route.fulfill(response=response, json=body)

    return answer


def states(server: Server) -> list[str]:
    return [one["state"] for one in server.ask("/api/documents/1")["sentences"]]


def test_a_used_type_is_deleted_only_when_asked_twice_and_comes_back(
    visit: Any, own: Server
) -> None:
    page = visit(own)
    acts.open_document(page, "one")
    acts.label(page, 0, "stent", "d")
    acts.label(page, 0, "catheter", "d")
    acts.label(page, 0, "pain", "s")
    page.click("#tab-types")
    rows = page.locator(".typelist li")
    page.reload()
    expect(rows.nth(0)).to_contain_text("2 labels")
    expect(rows.nth(1)).to_contain_text("1 label")
    page.get_by_role("button", name="Delete Device", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("It is used by 2 labels")
    page.get_by_role("button", name="Close").click()
    assert len(own.ask("/api/types")["types"]) == 2
    page.get_by_role("button", name="Delete Device", exact=True).click()
    page.get_by_role("button", name="Delete Device and 2 labels").click()
    expect(rows).to_have_count(1)
    expect(acts.row(page, 0).locator(".tag.label")).to_have_text(["Symptom"])
    page.click("#undo")
    expect(rows).to_have_count(2)
    expect(acts.row(page, 0).locator(".tag.label")).to_have_text(["Device", "Device", "Symptom"])


def test_a_sentence_is_partly_reviewed_until_all_is_answered(visit: Any, own: Server) -> None:
    spans = [
        {"start": 2, "end": 3, "type": 1, "score": 0.9},
        {"start": 6, "end": 7, "type": 1, "score": 0.8},
    ]
    page = visit(own)
    for path in ("documents/1?*", "sentences?ids=*", "sentences/*"):
        page.route(f"**/api/{path}", guessed(*spans))
    acts.open_document(page, "one")
    expect(page.locator("#text .tag.guess")).to_have_count(2)
    page.focus("#text")

    def press(key: str, state: str) -> None:
        page.keyboard.press(key)
        expect(acts.row(page, 0)).to_have_attribute("data-state", state)
        acts.saved(page, 0)
        assert states(own)[0] == state

    page.keyboard.press("Control+Home")
    page.keyboard.press(".")
    press("Enter", "partial")  # one of two
    expect(page.locator("#counts")).to_contain_text("0 labelled sentences of 2")
    press("Enter", "labelled")  # both
    press("Space", "partial")
    press("Space", "labelled")


def test_enter_accepts_what_next_asks_about(visit: Any, own: Server) -> None:
    page = visit(own)
    doubts = [
        {"start": 2, "end": 3, "label": "Device", "type": 1, "score": 0.42},
        {"start": 7, "end": 9, "label": "Symptom", "type": 2, "score": 0.31},
    ]

    def suggest(route: Any) -> None:
        sentence = own.ask("/api/sentences/1")
        about = {"hardness": 1.0, "reason": "unsure about ‘stent’", "uncertain": doubts}
        route.fulfill(json={"suggestions": [{"sentence": sentence, **about}]})

    page.route("**/api/suggest", suggest)
    overlapping = {"start": 8, "end": 9, "type": 2, "score": 0.8}
    for path in ("documents/1?*", "sentences?ids=*", "sentences/*"):
        page.route(f"**/api/{path}", guessed(overlapping))
    page.click("#tab-next")
    page.get_by_role("button", name="Label the hardest").click()
    # What is suggested already is not asked about a second time.
    expect(page.locator("#text .tag.doubt")).to_have_text(["Device? 0.42"])
    expect(page.locator("#text .tag.guess")).to_have_text(["Symptom? 0.80"])
    expect(page.locator("#text .word.picked")).to_have_text(["stent"])
    page.keyboard.press("Enter")
    acts.saved(page, 0)
    assert acts.labels_of(own.ask("/api/sentences/1")) == ["stent"]
    assert states(own)[0] == "partial"


def test_next_lists_the_hardest_first_and_each_doubt_once(visit: Any, own: Server) -> None:
    page = visit(own)

    def suggest(route: Any) -> None:
        """The server's own order and words, of a model that is unsure of some words."""
        held = [own.ask(f"/api/sentences/{n}") for n in (1, 2)]
        doubts = [{"start": 2, "end": 3, "label": "Device", "type": 1, "score": 0.42}]
        shown = [
            {"sentence": one, "hardness": 3.0 - n, "reason": f"reason {n}", "uncertain": doubts}
            for n, one in enumerate(held)
        ]
        route.fulfill(json={"suggestions": shown})

    page.route("**/api/suggest", suggest)
    page.click("#tab-next")
    page.get_by_role("button", name="Label the hardest").click()
    cards = page.locator("#panel-next .card")
    expect(cards.locator(".reason")).to_have_text(["reason 0", "reason 1"])
    expect(cards.locator("p.quiet")).to_have_text(["hardness 3.00", "hardness 2.00 Label this"])
    for n in (0, 1):
        expect(cards.nth(n).locator(".tag.doubt")).to_have_text(["Device? 0.42"])
    expect(page.locator("#text .tag.doubt")).to_have_count(1)


def test_states_and_held_out_documents_come_back(visit: Any, own: Server, tmp_path: Path) -> None:
    own.ask("/api/documents", {"documents": [{"name": "two", "text": TEXT}], "held_out": True})
    page = visit(own, accept_downloads=True)
    acts.open_document(page, "one")
    acts.label(page, 0, "stent", "d")
    page.keyboard.press("Space")
    expect(acts.row(page, 0)).to_have_attribute("data-state", "partial")
    acts.saved(page, 0)
    acts.open_document(page, "two")
    acts.label(page, 0, "stent", "d")  # the second sentence stays open
    page.click("#tab-export")
    page.select_option("#export-format", "jsonl")
    with page.expect_download() as coming:
        page.get_by_role("link", name="Download labels").click()
    coming.value.save_as(tmp_path / "labels.jsonl")
    before = [own.ask(f"/api/documents/{n}") for n in (1, 2)]
    page.click("#add")
    page.set_input_files("#add-files", tmp_path / "labels.jsonl")
    page.click("dialog button[type=submit]")
    page.locator("dialog").wait_for(state="detached")
    after = [own.ask(f"/api/documents/{n}") for n in (3, 4)]
    for old, new in zip(before, after, strict=True):
        assert old["held_out"] == new["held_out"]
        assert [s["state"] for s in old["sentences"]] == [s["state"] for s in new["sentences"]]
        assert [s["spans"] for s in old["sentences"]] == [s["spans"] for s in new["sentences"]]
    assert [s["state"] for s in after[0]["sentences"]] == ["partial", "open"]
    assert [s["state"] for s in after[1]["sentences"]] == ["labelled", "open"]
    assert after[1]["held_out"]


def test_half_a_character_is_refused_in_words(visit: Any, own: Server) -> None:
    page = visit(own)
    page.click("#add")
    page.evaluate("document.getElementById('add-text').value = 'half \\ud83d of one'")
    page.click("dialog button[type=submit]")
    told = page.locator("dialog .wrong, .toast.bad").first
    expect(told).to_contain_text("lone surrogate")
    expect(told).not_to_contain_text("--from")


def outcome_of(page: Any, **result: Any) -> Any:
    """The panel of a run that ended with this result, between server and page."""
    result = {"f1": 0.5, "low": 0.4, "high": 0.6, "gain": 0.1, "notes": [], "types": [],
              "held_out": None, "changes": None, **result}  # fmt: skip
    run = {"id": 1, "state": "done", "result": result, "message": "", "seconds": 1, "model": 2,
           "sentences": 1, "mentions": 1, "types": ["Device"], "stage": "", "done": 0, "total": 0,
           "started": "2026-01-01", "ended": "2026-01-01"}  # fmt: skip

    def status(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        (body.get("status") or body)["run"] = run
        route.fulfill(response=response, json=body)

    page.route("**/api/runs", lambda route: route.fulfill(json={"runs": [run]}))
    page.route("**/api/runs/1", lambda route: route.fulfill(json=run))
    for path in ("project", "status?*"):
        page.route(f"**/api/{path}", status)
    page.click("#tab-adapt")
    page.reload()
    return page.locator(".outcome")


def test_what_became_of_each_type_is_said(visit: Any, own: Server) -> None:
    """One type that the model knows better does not take the others down, and is named."""
    known = {"label": "Disease", "mentions": 9, "kept": True, "learnt": False, "f1": 0.9,
             "low": None, "high": None}  # fmt: skip
    new = {"label": "Device", "mentions": 5, "kept": False, "learnt": True, "f1": 0.6,
           "low": 0.5, "high": 0.7}  # fmt: skip
    bad = {"label": "Odd", "mentions": 1, "kept": False, "learnt": False, "f1": None,
           "low": None, "high": None}  # fmt: skip
    note = "Disease: the model's own does better as it is, and is kept."
    outcome = outcome_of(visit(own), types=[known, new, bad], notes=[note])
    rows = outcome.locator("tbody tr")
    expect(rows.nth(0)).to_contain_text("Disease (kept as it is)")
    expect(rows.nth(1)).to_have_text("Device50.600.50–0.70")
    expect(rows.nth(2)).to_contain_text("Odd (not learnt)")
    expect(outcome).to_contain_text(note)


def test_what_changed_is_said_in_full(visit: Any, own: Server) -> None:
    changes = [
        {"sentence": 1, "text": f"stent {n}", "label": "Device", "score": 0.9, "before": "The new",
         "after": "and the old"}
        for n in range(3)
    ]  # fmt: skip
    changed = {"looked": 9, "kept": 1, "gained": changes, "lost": [], "gained_total": 150,
               "lost_total": 0}  # fmt: skip
    outcome = outcome_of(visit(own), changes=changed)
    expect(outcome).to_contain_text("150 gained, 0 lost")
    expect(outcome.locator("summary")).to_have_text("Gained: 150, the surest 3")
    expect(outcome.locator("li").first).to_contain_text("The new [stent 0] and the old")
    expect(outcome).not_to_contain_text("undefined")
