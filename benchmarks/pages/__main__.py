"""The figures in README.md, docs/ and results/ablation.md, from the committed lines.

    python benchmarks/pages

Nothing is measured here, and what has not been measured is said to be so. A test sees to it that
pages and lines agree.
"""

from pathlib import Path

import ablation
import calibration
import few_shot
import scale
import tagging

ROOT = Path(__file__).parents[2]
START, END = "<!-- figures: made by benchmarks/pages -->\n", "<!-- end of figures -->"
PAGES = {
    "README.md": few_shot.summary,
    "docs/results.md": few_shot.page,
    "docs/tagging.md": tagging.page,
    "docs/calibration.md": calibration.page,
    "docs/scale.md": scale.page,
    "results/ablation.md": ablation.page,
}


def filled(text: str, made: str) -> str:
    """The page with that between the marks."""
    before, _, rest = text.partition(START)
    return before + START + made + END + rest.partition(END)[2]


def main() -> None:
    for name, made in PAGES.items():
        path = ROOT / name
        path.write_text(filled(path.read_text("utf-8"), made()), "utf-8")


if __name__ == "__main__":
    main()
