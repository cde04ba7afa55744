"""Made results."""

from hardner.evaluate.results import Result


def result(
    method="HGDA",
    corpus="NCBI-disease",
    size=5,
    sample=0,
    counts=(3, 1, 2),
    protocol="few_shot",
    **changes,
):
    """A result; false positives are spurious, false negatives missed."""
    tp, fp, fn = counts
    share = None if isinstance(size, int) else size
    kinds = {"fp_boundary": 0, "fp_type": 0, "spurious": fp}
    kinds |= {"fn_boundary": 0, "fn_type": 0, "missed": fn}
    values = {
        "protocol": protocol,
        "method": method,
        "encoder": "bilstm",
        "preset": "paper",
        "target_domain": "Disease",
        "corpus": corpus,
        "shots": size if share is None else 100,
        "share": share,
        "sample": sample,
        "natural": share is not None,
        "tp": tp,
        "fp": fp,
        "fn": fn,
        "kinds": kinds,
        "labels": {},
        "unlabelled": 0,
        "seed": 0,
        "config": "0",
        "versions": {},
        "commit": "",
        "seconds": 0.1,
    }
    return Result(**(values | changes))


def of_f1(f1, **changes):
    """A result with an F1 of so many tenths."""
    return result(counts=(f1, 10 - f1, 10 - f1), **changes)
