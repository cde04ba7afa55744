"""``hardner pretrain``: an encoder or word vectors from plain text."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from hardner.cli.common import DEVICE_OPTION, RunBar, interruptible, message_on_interrupt, stderr

pretrain_app = typer.Typer(help="Pre-train on plain text.", no_args_is_help=True)

Texts = Annotated[
    list[Path],
    typer.Argument(metavar="TEXT...", help="Files with a sentence a line: plain, .gz or .xz."),
]
Without = Annotated[
    Path | None,
    typer.Option(
        metavar="ROOT",
        help="A folder of known corpora; lines equal to a devel or test sentence are left out.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="The same one gives the same result.")]


@pretrain_app.callback()
def _root() -> None:
    """Pre-train on plain text."""


@pretrain_app.command()
def encoder(
    texts: Texts,
    out: Annotated[Path, typer.Option(help="The run's folder.")],
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="An earlier run's tokenizer.json; by default one is trained first."),
    ] = None,
    vocabulary: Annotated[
        int, typer.Option(min=100, max=65_536, help="Subwords of a tokenizer that is trained.")
    ] = 28_000,
    steps: Annotated[int, typer.Option(min=1)] = 10_000,
    rows: Annotated[int, typer.Option(min=1, help="Blocks of text a step.")] = 512,
    width: Annotated[int, typer.Option(min=8, help="Subwords a block.")] = 256,
    rate: Annotated[float, typer.Option(min=0, help="Peak learning rate.")] = 3e-3,
    layers: Annotated[int, typer.Option(min=1)] = 6,
    size: Annotated[int, typer.Option(min=2, help="Of a subword's vector.")] = 384,
    heads: Annotated[int, typer.Option(min=1, help="Attention heads a layer.")] = 6,
    inner: Annotated[int, typer.Option(min=1, help="Features inside a layer.")] = 1536,
    start: Annotated[
        Path | None,
        typer.Option("--from", help="An earlier run's model to go on from; the text may differ."),
    ] = None,
    seed: Seed = 0,
    device: DEVICE_OPTION = "auto",
    every: Annotated[int, typer.Option(min=1, help="Save a state after so many steps.")] = 1000,
    without: Without = None,
) -> None:
    """Pre-train a transformer by masked language modelling.

    The run's folder gets a tokenizer, the encoded text, a state and at the end the model, which
    `hardner train` starts from. The same command goes on from the state, whatever ended the last
    one; Ctrl-C saves one at once.

    Examples:

    - `hardner pretrain encoder abstracts.txt.xz --out runs/pretrain`
    - `hardner pretrain encoder *.txt --out runs/small --rows 16 --layers 2 --size 128 --heads 2`
    - `hardner pretrain encoder mine.txt --out runs/mine --from runs/pretrain/model --rate 1e-3`
    - `hardner pretrain encoder a.txt b.txt --out runs/b --tokenizer runs/pretrain/tokenizer.json`
    """
    from hardner.jobs.run_folder import MODEL_FOLDER
    from hardner.pretrain.masked import Pretraining
    from hardner.pretrain.run import PretrainingPlan, run_pretraining

    training = Pretraining(steps, rows, width, rate, seed=seed)
    tokenizer = tokenizer or (start / "tokenizer.json" if start else None)
    plan = PretrainingPlan(tokenizer, vocabulary, size, layers, heads, inner, training, start)
    board = RunBar("subwords")
    # Before training there is nothing to save, and Ctrl-C ends the run where it is.
    with board.bar, interruptible(lambda: board.training) as stop:
        status = run_pretraining(
            texts,
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
        stderr.print(f"stopped after {done}; to go on: {again}", markup=False)
        raise typer.Exit(130)
    stderr.print(f"{out / MODEL_FOLDER}: {done}", markup=False)


@pretrain_app.command()
def vectors(
    texts: Texts,
    out: Annotated[Path, typer.Option(metavar="FILE.bin", help="The file for the vectors.")],
    dimension: Annotated[int, typer.Option(min=1, help="Numbers a vector.")] = 200,
    window: Annotated[int, typer.Option(min=1, help="Context words to either side.")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the text.")] = 3,
    least: Annotated[int, typer.Option(min=1, help="Rarer words get none.")] = 5,
    rate: Annotated[float, typer.Option(min=0, help="Peak learning rate.")] = 0.025,
    seed: Annotated[
        int, typer.Option(min=0, help="The same one gives the same vectors on one thread.")
    ] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="By default as many as there are cores.")
    ] = None,
    without: Without = None,
) -> None:
    """Train word vectors by skip-gram, with gensim.

    They are cased, of words as hardner splits them, in word2vec's binary layout.

    Examples:

    - `hardner pretrain vectors abstracts.txt.xz --out vectors.bin`
    - `hardner pretrain vectors *.txt --out vectors.bin --dimension 100 --epochs 5`
    """
    from hardner.pretrain.skipgram import SkipGram, train_vectors

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
    stderr.print(f"{out}: {done.words:,} words{_left_out(done.left_out)}", markup=False)


def _left_out(lines: int) -> str:
    return f", {lines:,} line{'s' if lines > 1 else ''} of text left out" if lines else ""
