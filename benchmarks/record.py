"""One JSON line per measurement, so that tables can be built afterwards."""

import json
from pathlib import Path

from hardner.evaluate.results import code_commit

RESULTS = Path(__file__).with_name("results.jsonl")
MORE_IS_BETTER = ("of 1", "/s")
"""Units of scores and of throughput; of any other unit (ms, s, MB), less is better."""


def record(
    benchmark: str,
    case: str,
    device: str,
    ours: float,
    peer: float | None,
    peer_name: str,
    unit: str,
) -> dict[str, object]:
    """Appends a measurement to the results and prints it as a row of a table.

    Args:
        peer: What ours is to be compared with; None where there is nothing.
        peer_name: What was measured for it.

    Returns:
        The line. Its ``ratio`` says how many times better ours is: above 1, ours has won.
    """
    ratio = None
    if peer:
        ratio = ours / peer if unit.endswith(MORE_IS_BETTER) else peer / ours
    line = {
        "benchmark": benchmark,
        "case": case,
        "device": device,
        "ours": ours,
        "peer": peer,
        "peer_name": peer_name,
        "unit": unit,
        "ratio": ratio,
        "commit": code_commit(),
    }
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    numbers = [f"{n:.4g}" if n is not None else "-" for n in (ours, peer, ratio)]
    print(
        "|", " | ".join((benchmark, case, device, *numbers[:2], peer_name, unit, numbers[2])), "|"
    )
    return line
