"""A minute of review by a script at the keyboard: answers, and how fast the next candidate comes.

    python benchmarks/review.py [MODEL]

MODEL is a model folder; without one, the bundled model. Documents are abstracts that differ in
their numbers. The script presses a key, waits until the page asks about the next candidate, and
goes on; every tenth time it stretches the span first, every twentieth it takes an answer back.
Appends to benchmarks/results.jsonl. Fails below 40 answers, where the next candidate takes 50 ms in
the middle, and where an answer does not arrive. Needs playwright and chromium.
"""

import json
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

from clients import ABSTRACT, served
from playwright.sync_api import Page, sync_playwright
from record import record

SECONDS, DOCUMENTS, AT_LEAST, AT_MOST = 60.0, 400, 40, 50.0
SIZE = {"width": 1024, "height": 700}
DEVICE = "cpu, 2 cores, browser included"
KEYS = ("Enter", "Enter", "Backspace", "Enter", " ", "Enter", "d")
"""Accept, reject, skip, another type."""
SHOWN = "document.querySelector('#review-title').textContent + '|' + \
document.querySelector('#candidate').textContent"


def main(model: Path | None) -> int:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as at_end:
        project = str(Path(folder, "bench.hardner"))
        command = [sys.executable, "-m", "hardner", "serve", project, "--port", "0", "--no-browser"]
        command += ["--model", str(model)] if model else []
        port, _ = at_end.enter_context(served(command, lambda process: process.stdout))
        ask = Asking(port)
        ask("/api/types", {"name": "Disease", "key": "d"})
        known = ask.until(lambda: ask("/api/status")["model"]["labels"])
        for label in set(known) - {"Disease"}:
            ask("/api/types", {"name": label})
        texts = [{"text": f"Case {n}. {ABSTRACT}"} for n in range(DOCUMENTS)]
        ask("/api/documents", {"documents": texts})
        ask.until(lambda: (sweep := ask("/api/status")["sweep"])["done"] == sweep["total"])
        answers, milliseconds = review(ask.home)
    late = sorted(milliseconds)[len(milliseconds) * 95 // 100]
    figures = [
        ("answers", float(answers), "answers"),
        ("next candidate on the screen, median", median(milliseconds), "ms"),
        ("next candidate on the screen, 95 %", late, "ms"),
    ]
    for name, value, unit in figures:
        record("review", f"{SECONDS:.0f} s: {name}", DEVICE, round(value, 2), None, "", unit)
    return int(answers < AT_LEAST or median(milliseconds) >= AT_MOST)


class Asking:
    """Requests to the server, past the page."""

    def __init__(self, port: int) -> None:
        self.home = f"http://127.0.0.1:{port}"

    def __call__(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        with urlopen(Request(self.home + path, data, headers), timeout=60) as answer:
            return json.load(answer)

    def until(self, check: Any) -> Any:
        ends = time.monotonic() + 600
        while time.monotonic() < ends:
            try:
                if found := check():
                    return found
            except TypeError:  # there is no model yet
                pass
            time.sleep(0.2)
        raise TimeoutError("the model has not looked at all sentences within ten minutes")


def review(home: str) -> tuple[int, list[float]]:
    """Answers in a minute, and the milliseconds from each key to the next candidate."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--disable-dev-shm-usage", "--disable-gpu"],
        )
        page = browser.new_page(viewport=SIZE)
        page.goto(home)
        page.click("#review-open")
        page.locator("#candidate .picked").first.wait_for()
        answers = pressed = 0
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            key = KEYS[pressed % len(KEYS)]
            pressed += 1
            if pressed % 10 == 0:
                press(page, "ArrowRight")
            press(page, key)
            answers += key != " "
            if pressed % 20 == 0:
                press(page, "Control+z")
                answers -= 1
        page.get_by_text("All saved").wait_for()
        measured = page.evaluate(
            "performance.getEntriesByName('next candidate').map((one) => one.duration)"
        )
        browser.close()
    return answers, measured


def press(page: Page, key: str) -> None:
    """Press a key and wait until the page asks about something else."""
    before = page.evaluate(SHOWN)
    page.keyboard.press(key)
    page.wait_for_function(f"before => {SHOWN} !== before", arg=before, polling="raf")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
