"""Figures of docs/tagging.md, from what benchmarks/tagging.py wrote."""

from collections.abc import Iterator

import lines

DEVICE, PEER, OTHER = "cpu, 2 cores", "BERT-base pipeline", "spaCy, 2 processes"
FORMS = {
    "hardner": "bundled model",
    "hardner ONNX": "the same, ONNX",
    "hardner ONNX int8": "the same, ONNX in 8 bits",
    "hardner fast": "a BiLSTM that it taught (`hardner distil`)",
    "spaCy": "spaCy's CPU network",
    OTHER: "the same, two processes",
    PEER: "BERT-base in a transformers pipeline",
    "BERT-base onnxruntime int8": "BERT-base, onnxruntime, 8 bits",
}


def page() -> Iterator[str]:
    found = lines.latest("tagging")
    yield "| tagger | words a second | against the BERT-base pipeline | memory | F1 | commit |"
    yield "|---|---|---|---|---|---|"
    peer = found[PEER, DEVICE, OTHER]["ours"]
    for case, name in FORMS.items():
        memory = found[f"{case}, memory", DEVICE, PEER]
        speed = found[case, DEVICE, OTHER if case == PEER else PEER]["ours"]
        scored = found.get((f"{case}, F1", DEVICE, ""))
        f1 = f"{scored['ours']:.3f}" if scored else ""
        cells = (f"{speed:,.0f}", f"{speed / peer:.1f}x", f"{memory['ours']:,.0f} MB", f1)
        yield f"| {name} | " + " | ".join(cells) + f" | {memory['commit'][:12]} |"
