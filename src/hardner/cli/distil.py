"""``hardner distil``: a small, fast model taught by a large one."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Argument, Option

from hardner.cli.common import progress_bar, say
from hardner.cli.options import DEVICE_OPTION, MODEL_OPTION, SEED_OPTION
from hardner.errors import HardnerError

if TYPE_CHECKING:
    from hardner.types import Sentence


class _Size(NamedTuple):
    """What is learnt from, and how long, unless the options say otherwise."""

    most: int
    steps: int
    batch: int
    hidden: int


_SIZES = {"cpu": _Size(8_000, 6_000, 16, 128), "cuda": _Size(400_000, 20_000, 128, 256)}
"""A CPU takes minutes for its own."""
_HELD_OUT = 20
"""One sentence of so many judges the small model, and is not learnt from ..."""
_MOST_HELD_OUT = 500
"""... up to so many."""


def distil_command(
    given: Annotated[
        list[Path],
        Argument(
            metavar="[MODEL] TEXT...",
            help="Model folder, and files of plain text; these may be .gz or .xz.",
        ),
    ],
    out: Annotated[Path, Option(metavar="DIR", help="Folder for the small model.")],
    model: MODEL_OPTION = None,
    corpora: Annotated[
        Path | None,
        Option(help="Folder of known corpora: learn from train, leave devel and test out of TEXT."),
    ] = None,
    most: Annotated[
        int | None,
        Option(
            min=1,
            help="At most so many sentences of TEXT.",
            show_default="8,000; 400,000 on a GPU",
        ),
    ] = None,
    steps: Annotated[
        int | None, Option(min=1, help="Training steps.", show_default="6,000; 20,000 on a GPU")
    ] = None,
    batch: Annotated[
        int | None, Option(min=1, help="Sentences per step.", show_default="16; 128 on a GPU")
    ] = None,
    hidden: Annotated[
        int | None,
        Option(min=1, help="BiLSTM units in each direction.", show_default="128; 256 on a GPU"),
    ] = None,
    seed: SEED_OPTION = 0,
    device: DEVICE_OPTION = "auto",
) -> None:
    """Distil a model into a small, fast one.

    The small model is a BiLSTM over words and characters that finds the same entity types. It
    learns from what the teacher finds in plain text, so no labels are needed: text like that which
    it will tag. On a CPU that takes minutes. One sentence in twenty is held out, and F1 on these,
    against what the teacher finds in them, says what the small model is worth.

    Examples:

    - `hardner distil abstracts.txt.xz --out ./small`
    - `hardner distil ./mine notes.txt --out ./mine-small`
    - `hardner distil ./mine *.txt --out ./mine-small --most 20000 --steps 15000`
    """
    texts = given
    if given[0].is_dir():
        if model is not None:
            raise HardnerError(f"two models, {given[0]} and {model}: name one of them")
        model, texts = given[0], given[1:]
    if not texts:
        raise HardnerError("there is no text to learn from: hardner distil MODEL TEXT --out DIR")
    from hardner.adapt.distil import Distillation, Student, distil_tagger
    from hardner.export.check import check_export
    from hardner.model.layers import resolve_device
    from hardner.tag.guidelines import load
    from hardner.tag.predictor import Predictor
    from hardner.types import Sentence

    chosen = resolve_device(device)
    size = _SIZES[chosen.partition(":")[0]]
    teacher = load(model)
    steps = steps or size.steps
    progress = progress_bar()
    task = progress.add_task("reading", total=steps)
    with progress:
        every = list(_sentences(texts, corpora, most or size.most))
        held = [Sentence(sentence.tokens) for sentence in every[::_HELD_OUT][:_MOST_HELD_OUT]]
        shown = [s for i, s in enumerate(every) if i % _HELD_OUT or i >= _HELD_OUT * len(held)]
        tagger = Student(hidden=hidden or size.hidden).tagger(shown, teacher.tagger.tag_sets)
        how = Distillation(steps=steps, batch=batch or size.batch, seed=seed)
        params = distil_tagger(
            (teacher.tagger, teacher.params),
            tagger,
            shown,
            how,
            device=chosen,
            on_progress=lambda done, loss: progress.update(
                task, description=f"loss {loss:.4f}", completed=done
            ),
        )
    student = Predictor(tagger, params, teacher.temperatures)
    student.save(out)
    checked = check_export(teacher, student, None, held)
    speed = "{:,.0f} -> {:,.0f} words/s".format(*checked.speed)
    say(
        f"{out}: taught by {len(shown):,} sentences; F1 {checked.after:.3f} against the teacher's "
        f"own mentions in {len(held):,} others; {speed}"
    )


def _sentences(texts: Sequence[Path], root: Path | None, most: int) -> "Iterator[Sentence]":
    """The sentences of the corpora, then as many of each text."""
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
