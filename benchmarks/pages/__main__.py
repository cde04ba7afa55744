"""The figures and the picture in README.md, docs/ and results/ablation.md, from committed lines.

    python benchmarks/pages [--check]

Nothing is measured here, and what has not been measured is said to be so. With --check nothing is
written, and a page that does not say what the lines say is an error.
"""

import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import ablation
import bundled
import calibration
import choosing
import deploy
import distil
import few_shot
import forecast
import picture
import protocols
import reliability
import reproduction
import running
import scale
import several_types
import suggest
import tables
import tagging
import thresholds
import workbench

ROOT = Path(__file__).parents[2]
START, END = "<!-- figures: made by benchmarks/pages -->\n", "<!-- end of figures -->"
PAGES = {
    "README.md": few_shot.summary,
    "docs/results.md": lambda: chain(tables.index(), few_shot.page(), protocols.page()),
    "docs/tables.md": tables.page,
    "docs/reproduction.md": reproduction.page,
    "docs/tagging.md": tagging.page,
    "docs/calibration.md": calibration.page,
    "docs/choosing.md": choosing.page,
    "docs/onnx.md": distil.page,
    "docs/project.md": several_types.page,
    "docs/scale.md": scale.page,
    "docs/deploy.md": deploy.page,
    "docs/score.md": thresholds.page,
    "docs/suggest.md": suggest.page,
    "docs/model-card.md": bundled.page,
    "docs/limitations.md": forecast.page,
    "docs/reliability.md": reliability.page,
    "docs/running-text.md": running.page,
    "docs/workbench.md": workbench.page,
    "results/ablation.md": ablation.page,
}
DRAWN = {"docs/images/headline.svg": picture.svg, "docs/images/forecast.svg": running.svg}


def filled(text: str, lines: Iterable[str]) -> str:
    """The page with these between the marks."""
    before, _, rest = text.partition(START)
    return before + START + "\n".join(lines) + "\n" + END + rest.partition(END)[2]


def main() -> int:
    checking = "--check" in sys.argv[1:]
    stale: dict[str, str] = {}
    for name, made in PAGES.items():
        text = (ROOT / name).read_text("utf-8")
        new = filled(text, made())
        if START not in text or new != text:
            stale[name] = new
    for name, made in DRAWN.items():
        path, new = ROOT / name, "\n".join(made()) + "\n"
        if not path.exists() or path.read_text("utf-8") != new:
            stale[name] = new
    if not checking:
        for name, new in stale.items():
            (ROOT / name).write_text(new, "utf-8")
    if checking and stale:
        print(f"not what the lines say: {', '.join(stale)}; run python benchmarks/pages")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
