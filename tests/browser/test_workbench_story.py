"""From an empty project to a labelled, adapted and exported model, as a reader goes."""

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import workbench_acts as acts
from workbench_model import DEVICES, TEXTS, UNSEEN
from workbench_server import Server

expect = pytest.importorskip("playwright.sync_api").expect

ADAPTED = 120_000


def test_from_nothing_to_a_model(visit: Any, model: Path, tmp_path: Path) -> None:
    """Its screenshots are those of the docs; HARDNER_SCREENSHOTS=1 writes them there."""

    def shot(name: str) -> None:
        acts.picture(page, name, tmp_path)

    with Server(tmp_path / "devices.db", model) as server:
        page = visit(server, accept_downloads=True, color_scheme="light")
        expect(page.locator("#rows-empty")).to_contain_text("No documents yet")
        shot("empty")
        _add(page)
        _label(page, 1, 2)
        shot("labelled")
        _adapt(page, server)
        page.reload()
        expect(page.locator("#counts")).to_contain_text("6 labelled sentences of 16")
        _label(page, 3, 4)
        page.check("#held-out")
        _adapt(page, server)
        shot("adapted")
        _look(page, server)
        _next(page, shot)
        _take_away(page)


def _add(page: Any) -> None:
    acts.make_type(page, "Device", "d")
    for number, text in enumerate(TEXTS, 1):
        acts.add_text(page, text, f"abstract {number}")
    for number, text in enumerate(UNSEEN, 1):
        acts.add_text(page, text, f"unseen {number}")


def _label(page: Any, *numbers: int) -> None:
    """Every device, and "no entity" where there is none; what the model suggests is left alone."""
    for number in numbers:
        acts.open_document(page, f"abstract {number}")
        for place, sentence in enumerate(re.findall(r"[^.]+\.", TEXTS[number - 1])):
            devices = [device for device in DEVICES if f" {device}" in sentence]
            for device in devices:
                acts.label(page, place, device, "d")
            if not devices:
                acts.label(page, place, sentence.split()[0], "-")
    expect(page.locator("#saving")).to_have_text("All saved")


def _adapt(page: Any, server: Server) -> None:
    page.click("#tab-adapt")
    dots = page.locator(".curve .dot")
    before = dots.count()
    page.get_by_role("button", name="Adapt", exact=True).click()
    expect(page.locator("#panel-adapt progress")).to_be_visible()
    acts.open_document(page, "abstract 2")
    acts.pick(page, 0, "pacemaker")
    expect(page.locator(".here")).to_contain_text("pacemaker")
    expect(dots).to_have_count(before + 1, timeout=ADAPTED)
    run = server.ask("/api/runs")["runs"][0]
    result = server.ask(f"/api/runs/{run['id']}")["result"]
    expect(page.locator(".expected strong")).to_have_text(f"{result['f1']:.2f}")
    assert page.locator(".curve").get_attribute("aria-label")
    if held := result["held_out"]:
        expect(page.locator(".outcome")).to_contain_text(f"F1 {held['f1']:.2f}")
        expect(page.locator(".curve .held")).to_have_count(1)
    if changed := result["changes"]:
        expect(page.locator(".outcome")).to_contain_text(f"{len(changed['gained'])} gained")
    assert bool(held) == bool(changed) == bool(before)


def _look(page: Any, server: Server) -> None:
    """Suggestions in documents without labels; the slider hides those below it."""
    acts.open_document(page, "unseen 1")
    document = server.ask("/api/documents?query=unseen")["documents"][0]["id"]
    found = server.ask(f"/api/documents/{document}")["sentences"]
    scores = [guess["score"] for sentence in found for guess in sentence["predicted"]]
    assert scores, "the adapted model finds no device"
    slider = page.locator("#threshold")
    page.get_by_role("button", name="More", exact=True).click()
    for least in (0, 0.5, 1):
        slider.fill(str(least))
        expect(page.locator("#text .tag.guess")).to_have_count(sum(s >= least for s in scores))
    slider.fill("0")
    first = next(i for i, sentence in enumerate(found) if sentence["predicted"])
    guess = acts.row(page, first).locator(".tag.guess").first
    guess.click()
    page.keyboard.press("Enter")
    acts.saved(page, first)
    now = server.ask(f"/api/sentences/{found[first]['id']}")
    best = found[first]["predicted"][0]
    assert now["spans"] == [{k: best[k] for k in ("start", "end", "type")}]


def _next(page: Any, shot: Any) -> None:
    page.click("#tab-next")
    page.get_by_role("button", name="Label the hardest").click()
    expect(page.locator("#panel-next .card.current .reason")).not_to_be_empty()
    expect(page.locator("#text .sentence.current")).to_have_attribute("data-state", "open")
    page.click("#theme")
    page.click("#theme")
    shot("dark")


def _take_away(page: Any) -> None:
    page.click("#tab-export")
    with zipfile.ZipFile(io.BytesIO(_download(page, "Download model"))) as folder:
        assert any(name.endswith(".safetensors") for name in folder.namelist())
        assert not any(name.endswith((".pt", ".pkl", ".bin")) for name in folder.namelist())
    names = page.locator("#export-format option").evaluate_all("all => all.map(o => o.value)")
    for name in names:
        page.select_option("#export-format", name)
        assert _download(page, "Download labels"), name
    refusal = {"status": 422, "json": {"error": "that cannot be written"}}
    page.route("**/api/report", lambda route: route.fulfill(**refusal))
    page.get_by_role("link", name="Download report", exact=True).click()
    expect(page.locator(".toast.bad").last).to_contain_text("that cannot be written")
    page.unroute("**/api/report")
    page.select_option("#export-format", "conll")
    assert b"pacemaker" in _download(page, "Download labels")
    assert b"<svg" in _download(page, "Download report")


def _download(page: Any, name: str) -> bytes:
    page.wait_for_timeout(120)  # of more than ten in a second Chromium drops the rest
    with page.expect_download() as coming:
        page.get_by_role("link", name=name, exact=True).click()
    return Path(coming.value.path()).read_bytes()
