"""Figures of docs/onnx.md, from what benchmarks/distil.py wrote."""

from collections.abc import Iterator

import lines

UNITS = {"of 1": ".3f", "words/s": ",.0f", "s of CPU": ",.0f"}


def page() -> Iterator[str]:
    yield "| a model of two layers | small | its teacher | commit |"
    yield "|---|---|---|---|"
    for line in lines.latest("distil").values():
        peer = "" if line["peer"] is None else f"{line['peer']:{UNITS[line['unit']]}}"
        unit = "" if line["unit"] == "of 1" else f", {line['unit']}"
        own = f"{line['ours']:{UNITS[line['unit']]}}"
        yield f"| {line['case']}{unit} | {own} | {peer} | {line['commit'][:12]} |"
