"""``hardner distil``: a small, fast model taught by a large one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
    """What is read and how long is learnt, unless the options say otherwise."""

    most: int
    steps: int
    batch: int
    hidden: int


_SIZES = {"cpu": _Size(16_000, 1_500, 16, 128), "cuda": _Size(400_000, 20_000, 128, 256)}
"""A CPU takes minutes for its own."""
_HELD_OUT = 10
"""One sentence of so many judges the small model, and is not learnt from ..."""
_MOST_HELD_OUT = 2_000
"""... up to so many."""
_BLOCKS = 100
"""Text is held out in so many parts, as sentences of one document are alike."""


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
            help="Read at most so many sentences of TEXT.",
            show_default="16,000; 400,000 on a GPU",
        ),
    ] = None,
    layers: Annotated[
        int | None,
        Option(
            min=0,
            help="Layers of MODEL that the small model begins with; 0 for a BiLSTM.",
            show_default="2",
        ),
    ] = None,
    steps: Annotated[
        int | None, Option(min=1, help="Training steps.", show_default="1,500; 20,000 on a GPU")
    ] = None,
    batch: Annotated[
        int | None, Option(min=1, help="Sentences per step.", show_default="16; 128 on a GPU")
    ] = None,
    hidden: Annotated[
        int | None,
        Option(
            min=1,
            help="A BiLSTM with so many units in each direction.",
            show_default="with --layers 0: 128; 256 on a GPU",
        ),
    ] = None,
    seed: SEED_OPTION = 0,
    device: DEVICE_OPTION = "auto",
) -> None:
    """Distil a model into a small, fast one.

    The small model finds the same entity types. It begins with the subwords and lowest layers of
    MODEL, and learns from what MODEL finds in plain text, so no labels are needed: text like that
    which it will tag. Sentences in which MODEL finds something are learnt from first. On a CPU that
    takes minutes. A tenth of the text is held out in blocks, and F1 on it, against what MODEL finds
    there, says what the small model is worth. A BiLSTM (--layers 0) is faster still, and needs far
    more text and a GPU to become as good.

    Examples:

    - `hardner distil abstracts.txt.xz --out ./small`
    - `hardner distil ./mine notes.txt --out ./mine-small`
    - `hardner distil ./mine *.txt --out ./mine-small --layers 3 --most 40000 --steps 3000`
    """
    texts = given
    if given[0].is_dir():
        if model is not None:
            raise HardnerError(f"two models, {given[0]} and {model}: name one of them")
        model, texts = given[0], given[1:]
    if not texts:
        raise HardnerError("there is no text to learn from: hardner distil MODEL TEXT --out DIR")
    from hardner.adapt.distil import GENTLE_RATE, LAYERS, Distillation, distil_predictor
    from hardner.adapt.students import Student, layers_of
    from hardner.export.check import check_export
    from hardner.model.layers import resolve_device
    from hardner.tag.guidelines import load
    from hardner.types import Sentence

    if hidden and layers:
        raise HardnerError("--hidden is of a BiLSTM, which has none of MODEL's --layers")
    chosen = resolve_device(device)
    size = _SIZES[chosen.partition(":")[0]]
    teacher = load(model)
    if layers is None:
        layers = 0 if hidden else min(LAYERS, layers_of(teacher.tagger) - 1)
    how = Distillation(steps or size.steps, batch or size.batch, seed=seed)
    if layers:  # they have learnt already
        how = replace(how, rate=GENTLE_RATE, dropout=0.0)
    progress = progress_bar()
    task = progress.add_task("reading", total=None)
    with progress:
        every = list(text_sentences(texts, corpora, most or size.most))
        size_of_block = max(1, len(every) // _BLOCKS)
        rows = [i for i in range(len(every)) if i // size_of_block % _HELD_OUT == 0]
        apart = set(rows[:_MOST_HELD_OUT])
        held = [Sentence(every[row].tokens) for row in sorted(apart)]
        shown = [s for i, s in enumerate(every) if i not in apart]
        student = distil_predictor(
            teacher,
            shown,
            how,
            layers or Student(hidden=hidden or size.hidden),
            device=chosen,
            on_choice=lambda done, total: progress.update(
                task, description="choosing text", completed=done, total=total
            ),
            on_progress=lambda done, loss: progress.update(
                task, description=f"loss {loss:.4f}", completed=done, total=how.steps
            ),
        )
    student.save(out)
    checked = check_export(teacher, student, None, held, is_student=True)
    ratio = checked.speed[1] / checked.speed[0]
    say(
        f"{out}: taught with {len(shown):,} sentences; F1 {checked.after:.3f} against the "
        f"teacher's own {checked.mentions:,} mentions in {len(held):,} others; {ratio:.1f} times "
        "as fast"
    )


def text_sentences(texts: Sequence[Path], root: Path | None, most: int) -> "Iterator[Sentence]":
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
