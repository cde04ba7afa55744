"""Do scores mean what they say? The bundled model's calibration error, calibrated and not.

    python benchmarks/calibration.py CORPORA

The temperatures were fitted on devel sentences when the model was packed; here spans that are found
in test sentences are counted by score. Appends to benchmarks/results.jsonl, of which
`python benchmarks/pages` makes the figures of docs/calibration.md, and draws its plot.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from record import record
from reliability import ReliabilityBin, calibration_error, reliability, score_outcomes

from hardner import corpora
from hardner.meta.source_data import relabelled
from hardner.tag.predictor import Predictor

PLOT = Path(__file__).parents[1] / "docs" / "images" / "reliability.svg"
HEADS = {
    "Disease": "NCBI-disease",
    "Chemical": "BC5CDR-chem",
    "Gene": "BC2GM",
    "Species": "S800",
}
MOST = 1500
"""Test sentences of a corpus."""


def main() -> None:
    model = Predictor.load()
    forms = {"T = 1": replace(model, temperatures=()), "calibrated": model}
    outcomes: dict[str, list[tuple[float, bool]]] = {name: [] for name in forms}
    for label, name in HEADS.items():
        test = corpora.load_corpus(name, Path(sys.argv[1])).test
        step = max(1, len(test) // MOST)
        sentences = [relabelled(sentence, label) for sentence in test[::step]]
        found = {form: score_outcomes(predictor, sentences) for form, predictor in forms.items()}
        for form, own in found.items():
            outcomes[form] += own
        was, now = (calibration_error(reliability(own)) for own in found.values())
        temperature = model.temperatures[model.tagger.domains.index(label)]
        case = f"{label} in {name}, temperature {temperature:.2f}, {len(sentences):,} sentences"
        record("calibration", case, "cpu", now, was, "T = 1", "expected calibration error")
    plot({form: reliability(own) for form, own in outcomes.items()})


def plot(cases: Mapping[str, tuple[ReliabilityBin, ...]]) -> None:
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
    figure.savefig(PLOT, metadata={"Date": None})


if __name__ == "__main__":
    main()
