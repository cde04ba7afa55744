"""What a reader does at the workbench, and what is then on the page."""

import json
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parents[2] / "docs" / "images"
Predicted = Mapping[int, Sequence[tuple[int, int, str, float]]]
"""Spans of a model, with scores, by the number of their sentence."""


def picture(page: Any, name: str, folder: Path) -> None:
    """A screenshot; HARDNER_SCREENSHOTS=1 makes it that of the docs, once the notes have gone."""
    if os.environ.get("HARDNER_SCREENSHOTS"):
        folder = IMAGES
        page.mouse.move(0, 0)
        page.locator(".toast.good").first.wait_for(state="detached")
    page.screenshot(path=folder / f"workbench-{name}.png", animations="disabled")


def swept(server: Any) -> None:
    """Waits until the model has looked at every sentence."""
    ends = time.monotonic() + 60
    while (sweep := server.ask("/api/status")["sweep"])["done"] < sweep["total"]:
        assert time.monotonic() < ends, "waited too long for predictions"
        time.sleep(0.1)


def suggest(project: Path, found: Predicted) -> None:
    """Has the model of a project suggest these spans, and no others."""
    with closing(sqlite3.connect(project, timeout=30)) as database, database:
        database.execute("UPDATE predictions SET spans = '[]', suggested = 0, disagrees = 0")
        database.executemany(
            "UPDATE predictions SET spans = ?, suggested = 1 WHERE sentence = ?",
            [(json.dumps(spans), number) for number, spans in found.items()],
        )


def enter_as(page: Any, name: str) -> None:
    """Says a name at the door of a server that other machines can reach."""
    page.fill("#door-name", name)
    with page.expect_navigation():
        page.click("dialog form .main")


def add_text(page: Any, text: str, name: str = "") -> None:
    page.click("#add")
    page.fill("#add-text", text)
    page.fill("#add-name", name)
    page.click("dialog button[type=submit]")
    page.locator("dialog").wait_for(state="detached")


def unfold(page: Any, part: str) -> None:
    """Opens the part beside the text, "documents" or "panels", if it is folded away."""
    if page.get_attribute(f"#fold-{part}", "aria-expanded") == "false":
        page.click(f"#fold-{part}")


def open_document(page: Any, name: str) -> None:
    unfold(page, "documents")
    with page.expect_response(
        lambda answer: "/api/documents?query=" in answer.url and "query=&" not in answer.url
    ):
        page.fill("#search", name)
    page.locator(".row", has_text=name).first.click()
    page.locator("#document-title", has_text=name).wait_for()
    if page.is_visible("#search"):
        page.fill("#search", "")


def make_type(page: Any, name: str, key: str) -> None:
    page.click("#tab-types")
    page.fill("#type-name", name)
    page.fill("#type-key", key)
    page.click("#panel-types form button")
    page.locator(".type", has_text=name).wait_for(state="attached")


def row(page: Any, index: int) -> Any:
    """A sentence of the open document."""
    return page.locator("#text .sentence").nth(index)


def pick(page: Any, sentence: int, first: str, last: str | None = None) -> None:
    """Drag from a word to another, or click one.

    On a busy machine the page may still be laid out anew under the mouse, so that it meets another
    word: then once more.
    """
    start = row(page, sentence).get_by_text(first, exact=True).first
    end = row(page, sentence).get_by_text(last or first, exact=True).first
    for _ in range(5):
        start.hover()
        page.mouse.down()
        end.hover()
        page.mouse.up()
        picked = page.locator(".word.picked").all_inner_texts()
        if picked and (picked[0], picked[-1]) == (first, last or first):
            return
    raise AssertionError(f"picked {picked} instead of {first} to {last or first}")


def label(page: Any, sentence: int, first: str, key: str, last: str | None = None) -> None:
    pick(page, sentence, first, last)
    page.keyboard.press(key)
    saved(page, sentence)


def saved(page: Any, sentence: int) -> None:
    """Waits for the mark that the server's answer brings."""
    page.locator(f"#text .sentence:nth-of-type({sentence + 1})[data-save=saved]").wait_for()


def texts(page: Any, sentence: int, kind: str = "label") -> list[str]:
    """The names under a sentence: of labels, or of suggestions (guess)."""
    return list(row(page, sentence).locator(f".tag.{kind}").all_inner_texts())


def labels_of(sentence: dict[str, Any]) -> list[str]:
    """The labelled words of a sentence as the server has it."""
    return [" ".join(sentence["tokens"][s["start"] : s["end"]]) for s in sentence["spans"]]
