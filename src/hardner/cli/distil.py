"""``hardner distil``: a small, fast model taught by a large one."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from hardner.cli.common import progress_bar, say
from hardner.cli.options import DEVICE_OPTION, MODEL_OPTION, SEED_OPTION

if TYPE_CHECKING:
    from hardner.types import Sentence


def distil_command(
    texts: Annotated[
        list[Path], Argument(metavar="TEXT...", help="Files of plain text; may be .gz or .xz.")
    ],
    out: Annotated[Path, Option(metavar="DIR", help="Folder for the small model.")],
    model: MODEL_OPTION = None,
    corpora: Annotated[
        Path | None,
        Option(help="Folder of known corpora: learn from train, leave devel and test out of TEXT."),
    ] = None,
    most: Annotated[int, Option(min=1, help="At most so many sentences of TEXT.")] = 400_000,
    steps: Annotated[int, Option(min=1, help="Training steps.")] = 20_000,
    batch: Annotated[int, Option(min=1, help="Sentences per step.")] = 128,
    hidden: Annotated[int, Option(min=1, help="BiLSTM units in each direction.")] = 256,
    seed: SEED_OPTION = 0,
    device: DEVICE_OPTION = "auto",
) -> None:
    """Distil a model into a small, fast one.

    The small model is a BiLSTM over words and characters that finds the same entity types. It
    learns from what the teacher finds in plain text, so no labels are needed.

    Examples:

    - `hardner distil abstracts.txt.xz --out ./small`
    - `hardner distil *.txt --model ./mine --out ./mine-small --steps 5000`
    """
    from hardner.adapt.distil import Distillation, Student, distil_tagger
    from hardner.export.check import check_export
    from hardner.model.runtime import resolve_device
    from hardner.tag.guidelines import load
    from hardner.tag.predictor import Predictor

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
    say(
        f"{out}: taught by {len(shown):,} sentences; F1 {checked.after:.3f} against the teacher's "
        f"own mentions in an example text; {speed}"
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
