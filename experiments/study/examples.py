"""python experiments/study/examples.py FOLDER... [--out results/examples.json]

One sentence of each corpus with what each row finds in it, as MetaNER's Table 5 and the
multi-granularity paper's Table 5 show it, from results that were written with --predictions. It is
the first test sentence of two mentions and more that the rows do not agree on, or that there is.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from hardner.evaluate.errors import PredictedSentence, prediction_file, read_predictions
from hardner.evaluate.protocols import PROTOCOLS
from hardner.evaluate.results import read_results
from hardner.files import atomic_write
from hardner.types import Span

Found = Mapping[str, Mapping[str, PredictedSentence]]
"""By row and id of a sentence."""


def told(found: PredictedSentence) -> str:
    """What was found in a sentence beside what should have been; not the sentence, which is not
    ours to copy."""
    tokens = found.sentence.tokens

    def named(spans: Sequence[Span]) -> str:
        each = (f"[{' '.join(tokens[s.start : s.end])}] {s.label}" for s in sorted(spans))
        return ", ".join(each) or "nothing"

    return f"{found.sentence.id}: {named(found.found)}; gold: {named(found.sentence.spans)}"


def chosen(rows: Found) -> str:
    """The id of the sentence to show."""
    shared = [i for i in next(iter(rows.values())) if all(i in found for found in rows.values())]
    several = [i for i in shared if len(next(iter(rows.values()))[i].sentence.spans) > 1]
    apart = [i for i in several if len({rows[row][i].found for row in rows}) > 1]
    return next(iter([*apart, *several, *shared]))


def examples(folders: Sequence[Path]) -> dict[str, list[dict[str, str]]]:
    """By protocol, a line for each corpus and row."""
    held: dict[tuple[str, str], dict[str, dict[str, PredictedSentence]]] = {}
    for folder in folders:
        for protocol in PROTOCOLS:
            path = folder / f"{protocol}.jsonl"
            for result in read_results(path) if path.is_file() else ():
                file = folder / "predictions" / prediction_file(result)
                if result.sample == 0 and file.is_file():
                    rows = held.setdefault((protocol, result.corpus), {})
                    rows[result.method] = {s.sentence.id: s for s in read_predictions(file)}
    made: dict[str, list[dict[str, str]]] = {}
    for (protocol, corpus), rows in sorted(held.items()):
        place = chosen(rows)
        for row, found in rows.items():
            sentence, spans = found[place].sentence, found[place].found
            right = "yes" if sorted(spans) == sorted(sentence.spans) else "no"
            text = told(found[place])
            line = {"corpus": corpus, "row": row, "text": text, "correct": right}
            made.setdefault(protocol, []).append(line)
    return made


def main(
    folders: Annotated[list[Path], typer.Argument(help="Folders of results.")],
    out: Path = Path("results/examples.json"),
) -> None:
    with atomic_write(out) as file:
        file.write(json.dumps(examples(folders), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    typer.run(main)
