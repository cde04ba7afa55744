"""Figures of docs/workbench.md, from what benchmarks/review.py and workbench_adapt.py wrote."""

from collections.abc import Iterator

import lines

DEVICE = "cpu, 2 cores, browser included"


def page() -> Iterator[str]:
    found = {case: line for (case, _, _), line in lines.latest("review").items()}
    answers = found["60 s: answers"]["ours"]
    median, late = (
        found[f"60 s: next candidate on the screen, {which}"]["ours"]
        for which in ("median", "95 %")
    )
    yield "A script at the keyboard (`benchmarks/review.py`), waiting for each candidate, gave"
    yield f"{answers:,.0f} answers in a minute. The next candidate was on the screen"
    yield f"after {median:.0f} ms in the middle, and after {late:.0f} ms in 95 of 100 cases."
    adapt = {case: line["ours"] for (case, _, _), line in lines.latest("workbench adapt").items()}
    first, whole = (
        adapt[f"20 sentences, one type: {which}"] for which in ("first model", "all of it")
    )
    yield f"From twenty sentences a first model was there after {first:.0f} s, the one that stays"
    yield f"after {whole:.0f} s (`benchmarks/workbench_adapt.py`, two idle cores)."
