"""A real Chromium, and servers for it to visit."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from workbench_model import TEXTS, save
from workbench_server import Server

SIZE = {"width": 1120, "height": 680}
PATIENCE = 60_000
"""Milliseconds to wait for what a page should show: no test asks how fast that is."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on this machine")
    playwright.expect.set_options(timeout=PATIENCE)
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=chromium, args=["--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def model(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def shared(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A project with two types; each test brings documents of its own."""
    with Server(tmp_path_factory.mktemp("shared") / "shared.db", model) as server:
        server.ask("/api/types", {"name": "Device", "key": "d", "colour": 0})
        server.ask("/api/types", {"name": "Symptom", "key": "s", "colour": 1})
        # Wait for the model: suggestions that come late redraw the words under the mouse.
        server.ask("/api/tag", {"texts": [TEXTS[0]]})
        yield server


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page in a browser of its own: ``visit(server)``.

    Afterwards no page may have thrown, broken the security policy or asked another host.
    """
    contexts, wrong = [], []

    def opened(server: Server, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": SIZE} | options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"threw {error}"))
        page.on("console", lambda said: _policy(said.text, wrong))
        page.on("request", lambda asked: _outside(asked.url, server.url, wrong))
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(server.entrance)
        page.locator("#main:not([inert]) .panel:not([hidden])").wait_for(state="attached")
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            page.unroute_all(behavior="ignoreErrors")
        context.close()
    assert wrong == []


def _policy(text: str, wrong: list[str]) -> None:
    if "Content Security Policy" in text or "Content-Security-Policy" in text:
        wrong.append(text)


def _outside(url: str, home: str, wrong: list[str]) -> None:
    if not url.startswith((home, "data:", "blob:")):
        wrong.append(f"asked {url}")
