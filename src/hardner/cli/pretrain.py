"""``hardner pretrain``: an encoder or word vectors from plain text."""

import os
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from hardner.cli.common import (
    PlainCommand,
    RunBar,
    check_not_read,
    interruptible,
    message_on_interrupt,
    say,
)
from hardner.cli.options import DEVICE_OPTION, SEED_OPTION

pretrain_app = typer.Typer(help="Pre-train an encoder or word vectors.", no_args_is_help=True)

_TEXTS = Annotated[
    list[Path],
    Argument(metavar="TEXT...", help="Text with one sentence per line; may be .gz or .xz."),
]
_WITHOUT = Annotated[
    Path | None,
    Option(
        metavar="ROOT",
        help="Folder of known corpora: leave out lines that stand in their devel or test sets.",
    ),
]


class Schedule(StrEnum):
    """Schedules of the learning rate, by the names that `Pretraining` knows."""

    linear = "linear"
    wsd = "wsd"


_PEAK_RATE = Annotated[float, Option(min=0, help="Peak learning rate.")]


@pretrain_app.callback()
def _root() -> None:
    """Pre-train an encoder or word vectors."""


@pretrain_app.command(cls=PlainCommand)
def encoder(
    texts: Annotated[
        list[Path] | None,
        Argument(
            metavar="[TEXT...]",
            help="Text with one sentence per line; may be .gz or .xz; default: DIR's encoded text.",
        ),
    ] = None,
    *,
    out: Annotated[Path, Option(metavar="DIR", help="Folder of the run.")],
    tokenizer: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="The tokenizer.json of an earlier run; default: train one first."
        ),
    ] = None,
    vocabulary: Annotated[
        int, Option(min=100, max=65_536, help="Subword tokens to train the tokenizer for.")
    ] = 28_000,
    steps: Annotated[int, Option(min=1, help="Training steps.")] = 10_000,
    rows: Annotated[int, Option(min=1, help="Sequences per step.")] = 512,
    width: Annotated[int, Option(min=8, help="Subword tokens per sequence.")] = 256,
    rate: _PEAK_RATE = 3e-3,
    schedule: Annotated[
        Schedule, Option(help="Linear decay, or warm-up, stable rate and decay.")
    ] = Schedule.linear,
    warmup: Annotated[int, Option(min=0, help="Warm-up steps.")] = 300,
    cooldown: Annotated[
        int, Option(min=0, help="Steps of the decay of wsd, the last ones; 0: none yet.")
    ] = 0,
    masked: Annotated[
        float, Option("--mask", min=0.01, max=0.9, help="Share of the words to mask.")
    ] = 0.2,
    layers: Annotated[int, Option(min=1, help="Transformer layers.")] = 6,
    size: Annotated[int, Option(min=2, help="Hidden size.")] = 384,
    heads: Annotated[int, Option(min=1, help="Attention heads per layer.")] = 6,
    inner: Annotated[int, Option(min=1, help="Size of the feed-forward layers.")] = 1536,
    start: Annotated[
        Path | None,
        Option("--from", metavar="DIR", help="Model of an earlier run to continue from."),
    ] = None,
    seed: SEED_OPTION = 0,
    device: DEVICE_OPTION = "auto",
    every: Annotated[int, Option(min=1, help="Steps between saved states.")] = 1000,
    half_state: Annotated[
        bool,
        Option("--half-state", help="Save states in half precision, to move between machines."),
    ] = False,
    without: _WITHOUT = None,
) -> None:
    """Pre-train a transformer by masked language modelling.

    The run's folder gets a tokenizer, the encoded text, the model for `hardner train`, and a state
    from which the same command goes on after any interruption. Ctrl-C saves the state first.

    Examples:

    - `hardner pretrain encoder abstracts.txt.xz --out runs/pretrain`
    - `hardner pretrain encoder *.txt --out runs/small --rows 16 --layers 2 --size 128 --heads 2`
    - `hardner pretrain encoder mine.txt --out runs/mine --from runs/pretrain/model --rate 1e-3`
    - `hardner pretrain encoder a.txt b.txt --out runs/b --tokenizer runs/pretrain/tokenizer.json`
    - `hardner pretrain encoder --out runs/pretrain --schedule wsd --steps 20000 --cooldown 4000`
    """
    from hardner.jobs import MODEL_FOLDER
    from hardner.pretrain.masked import Pretraining
    from hardner.pretrain.run import PretrainingPlan, run_pretraining

    training = Pretraining(
        steps,
        rows,
        width,
        rate,
        warmup,
        hidden=masked,
        seed=seed,
        schedule=schedule.value,
        cooldown=cooldown,
        half_state=half_state,
    )
    tokenizer = tokenizer or (start / "tokenizer.json" if start else None)
    plan = PretrainingPlan(tokenizer, vocabulary, size, layers, heads, inner, training, start)
    board = RunBar("subwords")
    # Before training there is nothing to save, and Ctrl-C ends the run where it is.
    with board.bar, interruptible(lambda: board.training) as stop:
        status = run_pretraining(
            texts or [],
            out,
            plan,
            without=without,
            device=device,
            every=every,
            on_progress=board,
            stop=stop,
        )
    done = f"{status.step:,} of {steps:,} steps{_left_out(status.left_out)}"
    if not status.finished:
        again = shlex.join(["hardner", *sys.argv[1:]])
        say(f"stopped after {done}; to go on: {again}")
        raise KeyboardInterrupt
    say(f"{out / MODEL_FOLDER}: {done}")


@pretrain_app.command(cls=PlainCommand)
def vectors(
    texts: _TEXTS,
    out: Annotated[Path, Option(metavar="FILE.bin", help="File for the vectors.")],
    dimension: Annotated[int, Option(min=1, help="Dimensions of a vector.")] = 200,
    window: Annotated[int, Option(min=1, help="Context words on each side.")] = 5,
    epochs: Annotated[int, Option(min=1, help="Passes over the text.")] = 3,
    least: Annotated[int, Option(min=1, help="Minimum count of a word.")] = 5,
    rate: _PEAK_RATE = 0.025,
    seed: SEED_OPTION = 0,
    threads: Annotated[int | None, Option(min=1, help="Threads; default: one per core.")] = None,
    without: _WITHOUT = None,
) -> None:
    """Train word vectors by skip-gram, with gensim.

    Vectors are cased, of words as hardner splits them, in word2vec's binary format. With one thread
    (--threads 1) the same seed gives the same vectors.

    Examples:

    - `hardner pretrain vectors abstracts.txt.xz --out vectors.bin`
    - `hardner pretrain vectors *.txt --out vectors.bin --dimension 100 --epochs 5`
    """
    from hardner.pretrain.skipgram import SkipGram, train_vectors

    check_not_read(out, *texts)
    how = SkipGram(
        dimension,
        window,
        least=least,
        epochs=epochs,
        rate=rate,
        threads=threads or os.cpu_count() or 1,
        seed=seed,
    )
    board = RunBar("words")
    with message_on_interrupt("interrupted; nothing was written"), board.bar:
        done = train_vectors(texts, out, how, without=without, on_progress=board)
    say(f"{out}: {done.words:,} words{_left_out(done.left_out)}")


def _left_out(lines: int) -> str:
    return f", {lines:,} line{'s' if lines > 1 else ''} of text left out" if lines else ""
