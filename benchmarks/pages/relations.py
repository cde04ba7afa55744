"""What the papers say of pairs of methods, tested on the samples that both have been run on."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from hardner.evaluate.results import Result
from hardner.evaluate.significance import compare, holm

CLAIMS = {
    ("HGDA", "MetaNER"): "HGDA is above MetaNER",
    ("HGDA-NEs", "HGDA"): "HGDA-NEs is near HGDA",
    ("MetaNER w/o critic", "MetaNER"): "MetaNER is no worse without its critic",
    ("HGDA", "FineTuning"): "meta-training is above fine-tuning",
}
"""Of a method and another, with the BiLSTM-CRF."""
Values = Mapping[tuple[str, int], float]
"""By corpus and sample, an F1."""


def of(results: Sequence[Result], shots: Sequence[int], whole: int) -> Iterator[str]:
    """The mean difference of each pair over the corpora that both have in full, and its p."""
    yield "What the papers say of the BiLSTM-CRF's rows, tested: the mean difference in F1 over the"
    yield "corpora that both have been run on, and in brackets how many these are; * where p < 0.05"
    yield "in a paired permutation test over the samples, after Holm's correction for them all.\n"
    yield "| | " + " | ".join(f"{k} sentences" for k in shots) + " |"
    yield "|---" * (1 + len(shots)) + "|"
    found = {}
    for pair in CLAIMS:
        for k in shots:
            one, other = (_values(results, method, k, whole) for method in pair)
            corpora = sorted({c for c, _ in one} & {c for c, _ in other})
            if corpora:
                means = (
                    [fmean(held[c, s] for c in corpora) for s in range(whole)]
                    for held in (one, other)
                )
                found[pair, k] = compare(*means), len(corpora)
    fair = dict(zip(found, holm([made.p for made, _ in found.values()]), strict=True))
    for pair, claim in CLAIMS.items():
        cells = []
        for k in shots:
            if (pair, k) not in found:
                cells.append("not run")
                continue
            made, corpora_run = found[pair, k]
            mark = "*" if fair[pair, k] < 0.05 else ""
            cells.append(f"{made.difference:+.3f}{mark} ({corpora_run})")
        yield f"| {claim} | " + " | ".join(cells) + " |"
    yield ""


def _values(results: Sequence[Result], method: str, shots: int, whole: int) -> Values:
    """Of the corpora that all samples have been run on."""
    own = [
        r
        for r in results
        if (r.method, r.encoder, r.shots, r.unlabelled) == (method, "bilstm", shots, 0)
    ]
    full = {r.corpus for r in own if sum(other.corpus == r.corpus for other in own) == whole}
    return {(r.corpus, r.sample): r.score.f1 for r in own if r.corpus in full}
