"""Labels as curators need them: mentions that fit no words, many types, guidelines, notes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import workbench_acts as acts
from workbench_server import Server

expect = pytest.importorskip("playwright.sync_api").expect

TEXT = "The antiHER2 drug helped. It was seen. Left and right lung failed."


def entity(label: str, *words: str) -> dict[str, Any]:
    pieces = [(TEXT.index(word), TEXT.index(word) + len(word)) for word in words]
    made = {"start": pieces[0][0], "end": pieces[-1][1], "label": label}
    return {**made, "fragments": pieces} if len(pieces) > 1 else made


@pytest.fixture
def own(model: Path, tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "own.db", model) as server:
        server.ask("/api/types", {"name": "Device", "key": "d", "colour": 0})
        yield server


def upload(page: Any, name: str, record: dict[str, Any]) -> None:
    page.click("#add")
    file = {"name": f"{name}.jsonl", "mimeType": "", "buffer": json.dumps(record).encode()}
    page.set_input_files("#add-files", file)
    page.click("dialog button[type=submit]")
    page.locator("dialog").wait_for(state="detached")


def test_mentions_that_fit_no_words_are_kept_and_shown(visit: Any, own: Server) -> None:
    page = visit(own)
    loose = [entity("Gene", "HER2"), entity("Organ", "Left", "lung")]
    across = {"start": 13, "end": 28, "label": "Event"}
    record = {"id": "loose", "text": TEXT, "entities": [*loose, across, entity("Drug", "drug")]}
    upload(page, "loose", record)
    acts.open_document(page, "loose")
    names = page.locator("#text .tag.loose")
    expect(names).to_have_text(
        ["Gene (within a word)", "Event (across)", "Event (across)", "Organ (in pieces)"]
    )
    letters = [
        page.locator("#text .sentence").nth(n).locator("span.loose:not(.tag)") for n in (0, 2)
    ]
    expect(letters[0].first).to_have_text("HER2")
    expect(letters[1]).to_have_text(["Left", "lung"])
    expect(acts.row(page, 0).locator(".tag.label")).to_have_text(["Drug"])
    page.click("#tab-adapt")
    expect(page.locator("#adapt-ready")).to_contain_text(
        "Left out: 3 labelled sentences with a mention that fits no words (3 in all)"
    )
    # What a format cannot hold is said when it is exported.
    page.click("#tab-export")
    page.select_option("#export-format", "conll")
    with page.expect_download():
        page.get_by_role("link", name="Download labels").click()
    expect(page.locator(".toast.bad").last).to_contain_text("left out")
    # Backspace takes one out, undo brings it back.
    names.first.click()
    page.focus("#text")
    page.keyboard.press("Backspace")
    expect(names).to_have_count(3)
    page.keyboard.press("Control+z")
    expect(names).to_have_count(4)


def test_more_types_than_keys(visit: Any, own: Server) -> None:
    for n in range(45):
        own.ask("/api/types", {"name": f"Kind {n}"})
    own.ask("/api/types", {"name": "Rare disease"})
    own.ask("/api/documents", {"documents": [{"name": "one", "text": TEXT}]})
    page = visit(own)
    acts.open_document(page, "one")
    buttons = page.locator("#toolbar .type")
    expect(buttons).to_have_count(12)
    acts.pick(page, 0, "drug")
    page.keyboard.press(":")
    page.keyboard.type("rare")
    expect(buttons).to_have_text(["Rare disease"])
    page.keyboard.press("Enter")
    expect(acts.row(page, 0).locator(".tag.label")).to_have_text(["Rare disease"])
    expect(page.locator("#text")).to_be_focused()
    expect(buttons).to_have_count(12)  # the rare one is used now, and among them
    expect(page.locator("#toolbar .type", has_text="Rare disease")).to_be_visible()
    page.keyboard.press(":")
    page.keyboard.type("nothing")
    expect(page.locator("#toolbar .types")).to_contain_text("No type has this name.")
    page.keyboard.press("Escape")
    expect(page.locator("#text")).to_be_focused()


def test_guidelines_stand_beside_the_text(visit: Any, own: Server) -> None:
    own.ask("/api/documents", {"documents": [{"name": "one", "text": TEXT}]})
    page = visit(own)
    acts.open_document(page, "one")
    acts.label(page, 0, "drug", "d")
    page.click("#tab-guide")
    page.get_by_role("button", name="Edit").click()
    page.fill(
        "#guide-text",
        "# What it is\nA **thing**\nthat is *used*.\n\n- stents\n- `x < y`\n\n1. first\n\n"
        "> not drugs\n\n[see](https://example.org/a) [bad](javascript:alert(1))\n\n"
        "```\n# code\n```\n<img src=x onerror=alert(1)><script>alert(2)</script>",
    )
    page.get_by_role("button", name="Save", exact=True).click()
    guide = page.locator("article.guideline")
    expect(guide.locator("h4")).to_have_text("What it is")
    expect(guide.locator("p").first).to_have_text("A thing that is used.")
    expect(guide.locator("strong")).to_have_text("thing")
    expect(guide.locator("ul li")).to_have_text(["stents", "x < y"])
    expect(guide.locator("ol li")).to_have_text(["first"])
    expect(guide.locator("blockquote")).to_have_text("not drugs")
    expect(guide.locator("pre code")).to_have_text("# code")
    assert guide.locator("a").evaluate_all("all => all.map(a => a.href)") == [
        "https://example.org/a"
    ]
    expect(guide).to_contain_text("<img src=x onerror=alert(1)><script>alert(2)</script>")
    expect(guide.locator("img, script")).to_have_count(0)
    expect(page.locator("#panel-guide li", has_text="drug ×1")).to_contain_text("[drug]")
    page.reload()
    expect(guide.locator("h4")).to_have_text("What it is")
    page.click("#undo")
    expect(guide).to_contain_text("Nothing is written yet on what a Device is.")
    page.click("#undo")  # the label
    expect(page.locator("#panel-guide li", has_text="No labels yet.")).to_be_visible()
    page.click("#undo")  # the type
    expect(page.locator("#panel-guide")).to_contain_text("once there is a type")
    assert own.ask("/api/types")["types"] == []


def test_notes_on_words(visit: Any, own: Server) -> None:
    own.ask("/api/documents", {"documents": [{"name": "one", "text": TEXT}]})
    page = visit(own)
    acts.open_document(page, "one")
    acts.pick(page, 0, "drug", "helped")
    page.keyboard.press(";")
    page.fill("#note-text", "ask <b>Ann</b>")
    page.keyboard.press("Control+Enter")
    shown = page.locator("#text .tag.note")
    expect(shown).to_have_text("✎ ask <b>Ann</b>")
    assert own.ask("/api/sentences/1")["notes"] == [
        {"start": 2, "end": 4, "text": "ask <b>Ann</b>"}
    ]
    page.reload()
    shown.click()
    page.focus("#text")
    page.keyboard.press(";")
    expect(page.locator("#note-text")).to_have_value("ask <b>Ann</b>")
    page.get_by_role("button", name="Delete the note").click()
    expect(shown).to_have_count(0)
    page.click("#undo")
    expect(shown).to_have_count(1)


ABSTRACTS = (
    "Trastuzumab blocks HER2. Cells that were antiHER2 positive grew, and asthma was seen in two.",
    "Patients with asthma had more fever than patients with left or right heart failure.",
    "Ibuprofen lowered the fever within two days. No asthma was seen in the group.",
    "Severe asthma and chest pain were the reasons to stop ibuprofen.",
)


def test_pictures_of_the_docs(visit: Any, model: Path, tmp_path: Path) -> None:
    """A curator's project: HARDNER_SCREENSHOTS=1 writes what is seen into the docs."""
    project = tmp_path / "trials.db"
    with Server(project, model) as own:
        for name, key in (("Disease", "d"), ("Drug", "r"), ("Gene", "g")):
            own.ask("/api/types", {"name": name, "key": key})
        guide = (
            "# What counts\nA **named** disorder, with its grade.\n\n- *severe asthma*\n- not: pain"
        )
        own.ask("/api/types/1", {"guideline": guide}, "PATCH")
        within, first = ABSTRACTS[0].index("antiHER2") + 4, ABSTRACTS[1].index("left")
        heart = ABSTRACTS[1].index("heart")
        plain = ABSTRACTS[0].index("asthma")
        odd = {
            0: [
                {"start": within, "end": within + 4, "label": "Gene"},
                {"start": plain, "end": plain + 6, "label": "Disease"},
            ],
            1: [{"start": first, "end": heart + 13, "label": "Disease",
                "fragments": [[first, first + 4], [heart, heart + 13]]}],
        }  # fmt: skip
        page = visit(own, color_scheme="light")
        for n, text in enumerate(ABSTRACTS):
            record = {
                "id": f"trial {n + 1}",
                "text": text,
                "entities": odd.get(n, []),
            }
            upload(page, record["id"], record)
        acts.swept(own)
        words = {"asthma": "Disease", "fever": "Disease", "ibuprofen": "Drug", "pain": "Disease"}
        found = {}
        numbers = (
            s["id"] for d in range(1, 5) for s in own.ask(f"/api/documents/{d}")["sentences"]
        )
        for number in numbers:
            tokens = own.ask(f"/api/sentences/{number}")["tokens"]
            found[number] = [
                (at, at + 1, words[token.lower()], round(0.98 - 0.07 * at / len(tokens), 2))
                for at, token in enumerate(tokens)
                if token.lower() in words
            ]
        acts.suggest(project, found)
        page.reload()
        acts.open_document(page, "trial 1")
        acts.label(page, 0, "Trastuzumab", "r")
        acts.pick(page, 1, "positive")
        page.keyboard.press(";")
        page.fill("#note-text", "which assay?")
        page.keyboard.press("Control+Enter")
        page.click("#tab-guide")
        acts.pick(page, 1, "asthma")
        expect(page.locator("article.guideline h4")).to_have_text("What counts")
        page.fill("#search", "asthma")
        expect(page.locator("#text .hit")).to_have_count(1)
        acts.picture(page, "curators", tmp_path)
        page.fill("#search", "")
        expect(page.locator("#text .hit")).to_have_count(0)
        page.set_viewport_size({"width": 1024, "height": 700})
        page.click("#review-open")
        page.locator("#candidate .picked").wait_for()
        for _ in range(2):
            page.wait_for_timeout(1_100)  # the time per answer is in the picture
            page.keyboard.press("Enter")
        page.locator("#saving", has_text="All saved").wait_for()
        acts.picture(page, "review", tmp_path)
        page.get_by_role("button", name="Accept many").click()
        page.locator(".ticks li").first.wait_for()
        page.locator(".ticks input").nth(1).uncheck()
        acts.picture(page, "many", tmp_path)


def test_hits_of_a_search_are_highlighted(visit: Any, own: Server) -> None:
    own.ask("/api/documents", {"documents": [{"name": "one", "text": "Größe, lungs and a Lung."}]})
    page = visit(own)
    acts.open_document(page, "one")
    hits = page.locator("#text .hit")
    expect(hits).to_have_count(0)
    page.fill("#search", "lung GRÖ")
    expect(hits).to_have_text(["Größe", "lungs", "Lung"])
    page.fill("#search", "")
    expect(hits).to_have_count(0)


def test_all_that_changes_is_undone(visit: Any, own: Server) -> None:
    own.ask("/api/documents", {"documents": [{"name": "one", "text": TEXT}]})
    page = visit(own)
    acts.open_document(page, "one")
    page.click("#tab-types")
    page.locator("[data-field='1-colour']").select_option("3")
    page.check("#held-out")
    acts.label(page, 0, "drug", "d")
    acts.make_type(page, "Organ", "o")
    whats = []
    for _ in range(5):
        expect(page.locator("#undo")).to_be_enabled()
        toasts = page.locator(".toast")
        page.click("#undo")
        expect(toasts.last).to_contain_text("Undone")
        whats.append(toasts.last.locator("span").inner_text().removeprefix("Undone: "))
        toasts.evaluate_all("all => all.forEach(one => one.remove())")
    assert whats == [
        "make the type Organ",
        'label "drug" Device',
        "hold out the document one",
        "change the colour of the type Device",
        "make the type Device",
    ]
    expect(page.locator("#held-out")).not_to_be_checked()
    expect(page.locator("#undo")).to_be_disabled()
    assert own.ask("/api/types")["types"] == []
