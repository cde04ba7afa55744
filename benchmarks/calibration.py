"""Do scores mean what they say? The expected calibration error before and after a temperature.

    python benchmarks/calibration.py MODEL DOMAIN DEVEL TEST [--plot reliability.svg]

The temperature of the model's head for DOMAIN is fitted on the labelled sentences of DEVEL; spans
found in TEST are then counted by score (`hardner.predict.calibrate`). Files are CoNLL.
"""

import argparse
import sys
from pathlib import Path

from record import record

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from hardner.formats.conll import read_sentences
from hardner.predict.calibrate import (
    Bin,
    calibrated,
    calibration_error,
    judged,
    reliability,
)
from hardner.predict.predictor import Predictor


def plot(cases: dict[str, tuple[Bin, ...]], path: str) -> None:
    """Accuracy over confidence, a line a case; the diagonal is a model that knows itself."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle="--")
    for name, bins in cases.items():
        error = f"{name}, error {calibration_error(bins):.3f}"
        axes.plot([b.confidence for b in bins], [b.accuracy for b in bins], "o-", label=error)
    axes.set(xlabel="score", ylabel="share of spans that are right", xlim=(0, 1), ylim=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "domain", "devel", "test"):
        parser.add_argument(name)
    parser.add_argument("--plot")
    args = parser.parse_args()
    before = Predictor.load(args.model)
    after = calibrated(before, {args.domain: list(read_sentences(args.devel))})
    sentences = list(read_sentences(args.test))
    cases = {
        name: reliability(judged(predictor, sentences))
        for name, predictor in {"as trained": before, "calibrated": after}.items()
    }
    for name, bins in cases.items():
        rows = " ".join(f"{b.confidence:.2f}/{b.accuracy:.2f} ({b.count})" for b in bins)
        print(f"  {name}: {rows}", file=sys.stderr)
    was, now = (calibration_error(bins) for bins in cases.values())
    warmth = after.temperatures[after.tagger.domains.index(args.domain)]
    case = f"{args.domain}, temperature {warmth:.2f}, {len(sentences):,} sentences"
    record("calibration", case, "CPU", now, was, "as trained", "expected calibration error")
    if args.plot:
        plot(cases, args.plot)


if __name__ == "__main__":
    main()
