"""How long a key takes in a long document of the workbench, from pressing it to the painted page.

    python benchmarks/keys.py [--before MS]

Opens a document of 125,000 words in Chromium, has all of it on the page and presses keys in its
middle. MS is what an earlier version took, to be recorded beside it. Appends to
benchmarks/results.jsonl.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

from playwright.sync_api import Page, sync_playwright
from record import record
from serve import serving

SENTENCES, WORDS, PRESSED = 5_000, 25, 30
DEVICE = "chromium, cpu, 2 cores"
PRESS = """async (key) => {
  const text = document.getElementById('text');
  const began = performance.now();
  text.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  await new Promise((resolve) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = resolve;
    channel.port2.postMessage(0);
  }));
  return performance.now() - began;
}"""
"""A message posted from the frame arrives once it is painted."""


def main(before: float | None) -> None:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), None) as (port, _):
        text = " ".join(
            f"Sentence {number} has {' '.join(f'w{at}' for at in range(WORDS - 3))}."
            for number in range(SENTENCES)
        )
        ask(port, "types", {"name": "Device", "key": "d"})
        ask(port, "documents", {"documents": [{"name": "long", "text": text}]})
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"))
            page = browser.new_page(viewport={"width": 1120, "height": 680})
            page.set_default_timeout(120_000)
            page.goto(f"http://127.0.0.1:{port}/")
            page.locator(".row").click()
            show_all(page)
            rows = page.locator("#text .sentence")
            rows.nth(SENTENCES // 2).scroll_into_view_if_needed()
            rows.nth(SENTENCES // 2).locator(".word").first.click()
            nodes = page.evaluate("document.querySelectorAll('*').length")
            times = {key: pressed(page, key) for key in ("ArrowRight", "ArrowDown", "d")}
            browser.close()
    case = f"key in {SENTENCES * WORDS:,} words, {nodes:,} elements on the page"
    worst = max(times.values())
    name = "all words on the page as elements" if before else ""
    record("workbench", case, DEVICE, round(worst, 1), before, name, "ms")
    for key, milliseconds in times.items():
        print(f"{key}: {milliseconds:.1f} ms")


def ask(port: int, path: str, body: object) -> None:
    headers = {"content-type": "application/json"}
    data = json.dumps(body).encode()
    with urlopen(Request(f"http://127.0.0.1:{port}/api/{path}", data, headers)) as answer:
        answer.read()


def show_all(page: Page) -> None:
    rows = page.locator("#text .sentence")
    rows.first.wait_for()
    while (seen := rows.count()) < SENTENCES:
        page.evaluate("document.querySelector('#text > .more:last-child')?.click()")
        page.wait_for_function(
            "n => document.querySelectorAll('#text .sentence').length > n", arg=seen
        )


def pressed(page: Page, key: str) -> float:
    """The median time of a key, in milliseconds."""
    page.focus("#text")
    return statistics.median(page.evaluate(PRESS, key) for _ in range(PRESSED))


if __name__ == "__main__":
    given = argparse.ArgumentParser()
    given.add_argument("--before", type=float)
    main(given.parse_args().before)
