"""Figures of docs/choosing.md, from what other benchmarks wrote."""

from collections.abc import Iterator

import lines
import tagging


def page() -> Iterator[str]:
    yield "| learning from the same sentences | hardner | spaCy | commit |"
    yield "|---|---|---|---|"
    for line in lines.latest("spacy train").values():
        digits = 3 if line["unit"] == "of 1" else 0
        cells = (line["case"], *(f"{line[side]:.{digits}f}" for side in ("ours", "peer")))
        yield "| " + " | ".join(cells) + f" | {line['commit'][:12]} |"
    yield ""
    yield "| tagging on two cores | words a second | memory |"
    yield "|---|---|---|"
    for row in tagging.page():
        name, speed, _, memory, *_ = (cell.strip() for cell in row.strip("|").split("|"))
        if name in ("bundled model", "the same, ONNX in 8 bits", *_PEERS):
            yield f"| {name} | {speed} | {memory} |"


_PEERS = (tagging.FORMS["hardner fast"], tagging.FORMS["spaCy"], tagging.FORMS[tagging.PEER])
