"""Documents come in every way, are found again, and suggestions are answered by one key."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import workbench_acts as acts
from workbench_model import TEXTS
from workbench_server import Server

expect = pytest.importorskip("playwright.sync_api").expect

CONLL = "A\tO\nnew\tO\ninsulin\tB-Device\npump\tI-Device\nfailed\tO\n.\tO\n"
DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  for (const type of ['dragover', 'drop']) {
    const event = new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: data });
    document.body.dispatchEvent(event);
  }
}"""
PASTE = """text => {
  const data = new DataTransfer();
  data.setData('text/plain', text);
  document.body.dispatchEvent(new ClipboardEvent('paste', { bubbles: true, clipboardData: data }));
}"""


def test_upload_drop_and_paste(visit: Any, shared: Server, tmp_path: Path) -> None:
    page = visit(shared)
    path = tmp_path / "uploaded.tsv"
    path.write_text(CONLL, "utf-8")
    page.click("#add")
    page.set_input_files("#add-files", path)
    page.click("dialog button[type=submit]")
    expect(page.locator(".toast").first).to_contain_text("with 1 mention")
    page.locator("dialog").wait_for(state="detached")
    page.evaluate(DROP, ["dropped.jsonl", json.dumps({"text": "Dropped pumps fail."}) + "\n"])
    page.fill("#search", "dropped")
    expect(page.locator(".row")).to_have_count(1)
    page.evaluate(PASTE, "Pasted one.\n\nPasted two.")
    page.get_by_label("A blank line starts a new document").check()
    page.fill("#add-name", "pasted")
    page.click("dialog button[type=submit]")
    page.locator("dialog").wait_for(state="detached")
    page.fill("#search", "pasted")
    expect(page.locator(".row .name")).to_have_text(["pasted 1", "pasted 2"])
    page.evaluate(DROP, ["broken.bioc.json", "{"])
    expect(page.locator(".toast.bad")).to_contain_text("broken")


def test_what_is_added_before_the_project_is_known_waits_for_it(visit: Any, shared: Server) -> None:
    page = visit(shared)
    held: list[Any] = []
    page.route("**/api/project", lambda route: held.append(route))
    page.reload(wait_until="commit")
    expect(page.locator("#theme")).to_contain_text("Theme: ")  # its scripts have run
    expect(page.locator("#main")).to_have_attribute("inert", "")
    page.evaluate(PASTE, "Pasted before anything was known.")
    expect(page.locator("dialog")).to_have_count(0)
    held[0].continue_()
    expect(page.locator("dialog")).to_contain_text("up to ")
    assert "up to 0" not in page.locator("dialog").inner_text()
    page.click("dialog button[type=submit]")
    page.locator("dialog").wait_for(state="detached")
    page.fill("#search", "anything")
    expect(page.locator(".row")).to_have_count(1)


def test_only_readable_formats_are_offered_and_two_files_are_one_document(
    visit: Any, shared: Server
) -> None:
    page = visit(shared)
    expect(page.locator("#counts")).to_contain_text("labelled")
    page.click("#add")
    formats = page.locator("#add-format option").evaluate_all("all => all.map(o => o.value)")
    assert "html" not in formats and "brat" in formats
    files = [
        {"name": "pair.ann", "mimeType": "", "buffer": b"T1\tDevice 4 8\tpump\n"},
        {"name": "alone.jsonl", "mimeType": "", "buffer": b'{"text": "Alone it stands."}'},
        {"name": "pair.txt", "mimeType": "", "buffer": b"The pump of the pair failed."},
    ]
    page.set_input_files("#add-files", files)
    page.click("dialog button[type=submit]")
    page.locator("dialog").wait_for(state="detached")
    expect(page.locator(".toast").first).to_contain_text("1 document, 1 sentence, with 1 mention")
    acts.open_document(page, "pair")
    expect(acts.row(page, 0).locator(".tag.label")).to_have_text(["Device"])


def test_filters_and_removal(visit: Any, shared: Server) -> None:
    documents = [{"name": f"sieve {i}", "text": TEXTS[i]} for i in range(3)]
    shared.ask("/api/documents", {"documents": documents})
    page = visit(shared)
    acts.open_document(page, "sieve 0")
    acts.label(page, 0, "stent", "d")
    page.fill("#search", "sieve")
    for shown, expected in (
        ("Labelled", ["sieve 0"]),
        ("Unlabelled", ["sieve 1", "sieve 2"]),
        ("Held out", []),
        ("All", ["sieve 0", "sieve 1", "sieve 2"]),
    ):
        page.locator("#filters").get_by_text(shown, exact=True).click()
        expect(page.locator(".row .name")).to_have_text(expected)
    expect(page.locator(".row", has_text="sieve 0")).to_contain_text("1/3 labelled")
    page.click("#remove")
    expect(page.locator(".row .name")).to_have_text(["sieve 1", "sieve 2"])
    page.click("#undo")
    expect(page.locator(".row .name")).to_have_text(["sieve 0", "sieve 1", "sieve 2"])


def suggesting(spans: list[dict[str, Any]]) -> Callable[[Any], None]:
    """A model that suggests these spans in the first sentence, between server and page."""

    def answer(route: Any) -> None:
        response = route.fetch()
        body = response.json()
        if "sentences" in body:
            body["sentences"][0]["predicted"] = spans
        route.fulfill(response=response, json=body)

    return answer


def test_suggestions_are_accepted_corrected_and_rejected(visit: Any, shared: Server) -> None:
    device, symptom = (t["id"] for t in shared.ask("/api/types")["types"][:2])
    text = "The new stent and the old catheter caused pain."
    number = shared.ask("/api/documents", {"documents": [{"name": "guess", "text": text}]})["first"]
    spans = [
        {"start": 2, "end": 3, "type": device, "score": 0.9},
        {"start": 5, "end": 7, "type": device, "score": 0.8},
        {"start": 7, "end": 8, "type": device, "score": 0.7},
        {"start": 8, "end": 9, "type": device, "score": 0.6},
    ]
    page = visit(shared)
    for path in (f"documents/{number}?*", "sentences?ids=*"):
        page.route(f"**/api/{path}", suggesting(spans))

    def stored() -> tuple[set[tuple[int, int, int]], set[tuple[int, int, int]]]:
        sentence = shared.ask(f"/api/documents/{number}")["sentences"][0]
        plain = [
            {(s["start"], s["end"], s["type"]) for s in sentence[name]}
            for name in ("spans", "rejected")
        ]
        return plain[0], plain[1]

    def press(*keys: str) -> None:
        acts.open_document(page, "guess")
        page.locator("#text .tag.guess").first.wait_for()
        page.focus("#text")
        page.keyboard.press("Control+Home")
        for key in keys:
            page.keyboard.press(key)
        acts.saved(page, 0)

    accepted, wide = (2, 3, device), (5, 7, device)
    press(".", "Enter")
    assert stored() == ({accepted}, set())
    press(".", "Escape", "d")
    narrow = (6, 7, device)
    assert stored() == ({accepted, narrow}, {wide})
    press(".", "Backspace")
    assert stored() == ({accepted, narrow}, {wide, (7, 8, device)})
    press(".", "s")
    rejected = {wide, (7, 8, device), (8, 9, device)}
    assert stored() == ({accepted, narrow, (8, 9, symptom)}, rejected)


def test_types_are_edited(visit: Any, shared: Server) -> None:
    page = visit(shared)
    acts.make_type(page, "Dose", "q")
    page.get_by_label("Name of Dose").fill("Amount")
    page.get_by_label("Name of Dose").press("Tab")
    page.get_by_label("Key of Amount").fill("d")
    page.get_by_label("Key of Amount").press("Tab")
    expect(page.locator(".toast.bad")).to_be_visible()
    expect(page.get_by_label("Key of Amount")).to_have_value("q")
    page.get_by_label("Colour of Amount").select_option("green")
    found = {t["name"]: t for t in shared.ask("/api/types")["types"]}
    assert found["Amount"]["key"] == "q"
    page.get_by_role("button", name="Delete Amount").click()
    expect(page.get_by_label("Key of Amount")).to_have_count(0)
    assert "Amount" not in {t["name"] for t in shared.ask("/api/types")["types"]}


def test_the_theme_is_remembered(visit: Any, shared: Server) -> None:
    page = visit(shared, color_scheme="light")
    paper = "() => getComputedStyle(document.querySelector('.top')).backgroundColor"
    light = page.evaluate(paper)
    page.click("#theme")
    page.click("#theme")
    expect(page.locator("#theme")).to_have_text("Theme: Dark")
    dark = page.evaluate(paper)
    assert dark != light
    page.reload()
    assert page.evaluate(paper) == dark
