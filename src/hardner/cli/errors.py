"""``hardner errors``: the commonest wrong mentions, with context."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from hardner.cli.common import plain_table, print_json
from hardner.cli.options import CATALOGUE_OPTION, JSON_OPTION, PRESET_OPTION, ROOT_OPTION
from hardner.errors import HardnerError

if TYPE_CHECKING:
    from hardner.evaluate.errors import Mistake, PredictedSentence


def errors_command(
    sources: Annotated[
        list[Path],
        Argument(
            metavar="MODEL_OR_RUN | PREDICTIONS...",
            help="A model, or files of `hardner evaluate --predictions`.",
        ),
    ],
    corpus: Annotated[str, Option(help="Corpus to test a model on.")] = "",
    root: ROOT_OPTION = None,
    catalogue: CATALOGUE_OPTION = "",
    shots: Annotated[int, Option(min=0, help="Adapt to so many sentences first; 0: do not.")] = 0,
    sample: Annotated[int, Option(min=0, help="Which sample to adapt to, from 0.")] = 0,
    preset: PRESET_OPTION = "",
    count: Annotated[int, Option("-n", min=1, help="Errors to show of each kind.")] = 10,
    partial: Annotated[
        bool, Option("--partial", help="Also score partial and type matches.")
    ] = False,
    as_json: JSON_OPTION = False,
) -> None:
    """List the commonest boundary, type, missed and spurious errors.

    In the context, gold mentions are in [brackets] and predicted ones in {braces}.

    Examples:

    - `hardner errors results/predictions/few_shot_HGDA_bilstm_paper_S800_20_*`
    - `hardner errors runs/hgda-species --corpus S800 --shots 20 --root ../shared/corpora`
    - `hardner errors runs/hgda-species --corpus S800 --shots 20 -n 3 --partial --json`
    """
    from hardner.evaluate.errors import find_mistakes, read_predictions
    from hardner.evaluate.score import ErrorCounts, count_errors, lenient_scores

    if any(path.is_dir() for path in sources):
        if len(sources) > 1 or not corpus:
            raise HardnerError("give one model and its --corpus, or files of predictions alone")
        held = _predicted(sources[0], corpus, root, catalogue, shots, sample, preset)
    else:
        held = [found for path in sources for found in read_predictions(path)]
    gold, predicted = [p.sentence.spans for p in held], [p.found for p in held]
    total = sum(count_errors(gold, predicted).values(), ErrorCounts())
    lenient = lenient_scores(gold, predicted) if partial else {}
    wrong = find_mistakes(held)
    if as_json:
        print_json(
            {
                "counts": asdict(total),
                "f1": total.score.f1,
                "lenient": {name: ratios._asdict() for name, ratios in lenient.items()},
                "mistakes": [asdict(m) for m in wrong],
            }
        )
        return
    score = total.score
    console = Console(highlight=False)
    console.print(
        f"precision {score.precision:.3f}, recall {score.recall:.3f}, F1 {score.f1:.3f}: "
        f"{score.tp:,} right, {score.fp:,} wrong, {score.fn:,} not found"
    )
    for name, ratios in lenient.items():
        console.print(f"{name}: " + ", ".join(f"{k} {v:.3f}" for k, v in ratios._asdict().items()))
    console.print(_table(wrong, count))


def _predicted(
    path: Path, name: str, root: Path | None, catalogue: str, shots: int, sample: int, preset: str
) -> "list[PredictedSentence]":
    """What a model says of a corpus, as it is or fitted to a sample."""
    from hardner.corpora import Corpora
    from hardner.evaluate.errors import PredictedSentence
    from hardner.evaluate.protocols import PROTOCOLS, draw_sample
    from hardner.evaluate.runners import fitted_runner, unchanged_runner
    from hardner.evaluate.system import system_of_folder
    from hardner.model.layers import resolve_device

    system = system_of_folder(
        path, PROTOCOLS["few_shot"], preset=preset, device=resolve_device("auto")
    )
    corpus = Corpora.under(root or system.root, catalogue or system.catalogue).load(name)
    if shots:
        drawn = {sample: {name: draw_sample(name, corpus.train, shots, sample)}}
        runner = fitted_runner(system, corpus, corpus.train, predictions=True)
    else:
        drawn = {sample: {name: ()}}
        runner = unchanged_runner(system, corpus, predictions=True)
    (scored,) = runner(shots, drawn)
    return [
        PredictedSentence(*pair) for pair in zip(corpus.test, scored.predictions[0], strict=True)
    ]


def _table(wrong: "Sequence[Mistake]", count: int) -> Table:
    from hardner.evaluate.errors import ERROR_KINDS

    table = plain_table("kind", "times", "right", "found", "first seen")
    for kind in ERROR_KINDS:
        own = [m for m in wrong if m.kind == kind]
        for place, m in enumerate(own[:count]):
            named = [f"{pair[0]} ({pair[1]})" if pair else "" for pair in (m.right, m.found)]
            cells = [Text(cell) for cell in (*named, m.context)]
            table.add_row("" if place else kind, str(m.count), *cells)
        if len(own) > count:
            table.add_row("", "", Text(f"and {len(own) - count:,} more"), "", "")
    return table
