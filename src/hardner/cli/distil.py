"""``hardner distil``: a small, fast model taught by a large one."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardner.cli.common import DEVICE_OPTION, progress_bar, stderr

if TYPE_CHECKING:
    from hardner.types import Sentence


def distil_command(
    texts: Annotated[
        list[Path],
        typer.Argument(metavar="TEXT...", help="Files of text: plain, .gz or .xz."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the small model.")],
    model: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The teacher; by default the model that comes along."),
    ] = None,
    corpora: Annotated[
        Path | None,
        typer.Option(
            metavar="ROOT",
            help="A folder of known corpora: train sentences are added, devel and test left out.",
        ),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Sentences to take from TEXT.")] = 400_000,
    steps: Annotated[int, typer.Option(min=1)] = 20_000,
    batch: Annotated[int, typer.Option(min=1, help="Sentences a step.")] = 128,
    hidden: Annotated[int, typer.Option(min=1, help="Of one direction of the BiLSTM.")] = 256,
    seed: Annotated[int, typer.Option(min=0, help="The same one gives the same result.")] = 0,
    device: DEVICE_OPTION = "auto",
) -> None:
    """Teach a small, fast network what a model says of text.

    The small one is a BiLSTM over words and letters with the same heads, a model folder as any
    other. It comes from text alone: no labels are read.

    Examples:

    - `hardner distil abstracts.txt.xz --out ./small`
    - `hardner distil *.txt --model ./mine --out ./mine-small --steps 5000`
    """
    from hardner.adapt.distil import Distillation, Student, distil_tagger
    from hardner.export.check import check_export
    from hardner.model.runtime import resolve_device
    from hardner.tag.predictor import Predictor, load

    chosen = resolve_device(device)
    teacher = load(model)
    progress = progress_bar()
    task = progress.add_task("reading", total=steps)
    with progress:
        shown = list(_sentences(texts, corpora, most))
        tag_sets = teacher.tagger.tag_sets
        tagger = Student(hidden=hidden).tagger(shown, tag_sets)
        params = distil_tagger(
            (teacher.tagger, teacher.params),
            tagger,
            shown,
            Distillation(steps=steps, batch=batch, seed=seed),
            device=chosen,
            on_progress=lambda done, loss: progress.update(
                task, description=f"loss {loss:.4f}", completed=done
            ),
        )
    student = Predictor(tagger, params, teacher.temperatures)
    student.save(out)
    checked = check_export(teacher, student, None)
    speed = "{:,.0f} -> {:,.0f} words/s".format(*checked.speed)
    stderr.print(
        f"{out}: taught by {len(shown):,} sentences; F1 {checked.after:.3f} against the teacher's "
        f"own mentions in an example text; {speed}",
        markup=False,
    )


def _sentences(texts: Sequence[Path], root: Path | None, most: int) -> "Iterator[Sentence]":
    """Those of the corpora, then as many of each text."""
    from hardner.corpora import Corpora
    from hardner.formats import Report
    from hardner.pretrain.text import PlainText, held_out
    from hardner.text import sentences
    from hardner.types import Document

    without = held_out(root) if root else frozenset()
    if root:
        corpora = Corpora.under(root)
        for row in corpora.present():
            yield from corpora.load(row.name, Report()).train
    for path in texts:
        every = (s for line in PlainText([path], without) for s in sentences(Document("", line)))
        yield from islice(every, most // len(texts))
