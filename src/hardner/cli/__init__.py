"""The command ``hardner``: sub-commands by subject, errors as one line on stderr.

Exit codes: 0 done, 1 the input or the machine stood in the way, 2 the command line is wrong,
130 interrupted by the user, 143 ended by SIGTERM.
"""

import errno
import os
import sys
from functools import partial
from typing import Annotated

import typer
from typer import Option

from hardner import __version__
from hardner.cli.adapt import adapt_command
from hardner.cli.common import PlainCommand, PlainGroup, interrupted_code, sigterm_as_ctrl_c
from hardner.cli.convert import convert_command
from hardner.cli.corpora import corpora_command, example_command
from hardner.cli.distil import distil_command
from hardner.cli.evaluate import evaluate_command
from hardner.cli.export import export_command
from hardner.cli.model import model_app
from hardner.cli.pretrain import pretrain_app
from hardner.cli.results import errors_command, hardness_command, plot_command, table_command
from hardner.cli.review import review_command
from hardner.cli.score import compare_command, score_command
from hardner.cli.serve import serve_command
from hardner.cli.suggest import suggest_command
from hardner.cli.tag import tag_command
from hardner.cli.train import TRAIN_CONTEXT, experiments_command, train_command
from hardner.errors import HardnerError
from hardner.files import file_errors

# Read when torch is loaded, which commands do late: how long a thread looks out for work before it
# sleeps, in rounds of GNU's OpenMP and milliseconds of LLVM's. As long as by default makes all many
# times slower on a machine that has other things to do; not at all wakes threads up all the time.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
os.environ.setdefault("KMP_BLOCKTIME", "1")

app = typer.Typer(
    name="hardner",
    help="Hardness-guided biomedical NER: a working tagger from 5 to 100 labelled sentences.",
    cls=PlainGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hardner {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Hardness-guided biomedical NER: a working tagger from 5 to 100 labelled sentences."""


_command = partial(app.command, cls=PlainCommand)
_group = partial(app.add_typer, cls=PlainGroup)
_EVERYDAY, _DEPLOYMENT, _RESEARCH = "Everyday", "Workbench and deployment", "Research"

# Help lists the groups, and the commands of each, in the order in which they stand here.
_command("tag", rich_help_panel=_EVERYDAY)(tag_command)
_command("adapt", rich_help_panel=_EVERYDAY)(adapt_command)
_command("suggest", rich_help_panel=_EVERYDAY)(suggest_command)
_command("review", rich_help_panel=_EVERYDAY)(review_command)
_command("score", rich_help_panel=_EVERYDAY)(score_command)
_command("compare", rich_help_panel=_EVERYDAY)(compare_command)
_command("convert", rich_help_panel=_EVERYDAY)(convert_command)
_command("example", rich_help_panel=_EVERYDAY)(example_command)
_command("serve", rich_help_panel=_DEPLOYMENT)(serve_command)
_command("export", rich_help_panel=_DEPLOYMENT)(export_command)
_command("distil", rich_help_panel=_DEPLOYMENT)(distil_command)
_group(model_app, name="model", rich_help_panel=_DEPLOYMENT)
_command("corpora", rich_help_panel=_RESEARCH)(corpora_command)
_command("experiments", rich_help_panel=_RESEARCH)(experiments_command)
_command("train", context_settings=TRAIN_CONTEXT, rich_help_panel=_RESEARCH)(train_command)
_group(pretrain_app, name="pretrain", rich_help_panel=_RESEARCH)
_command("evaluate", rich_help_panel=_RESEARCH)(evaluate_command)
_command("errors", rich_help_panel=_RESEARCH)(errors_command)
_command("hardness", rich_help_panel=_RESEARCH)(hardness_command)
_command("table", rich_help_panel=_RESEARCH)(table_command)
_command("plot", rich_help_panel=_RESEARCH)(plot_command)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing to an open file that no name comes with."""

_NO_MEMORY = "not enough memory; close other programs, or take a smaller model, text or batch"


def main() -> None:
    """Run the command line; never ends in a traceback for something the user can mend."""
    try:
        with sigterm_as_ctrl_c():
            code = _run()
    except KeyboardInterrupt:  # outside of the command itself
        code = 130
    sys.exit(interrupted_code() if code == 130 else code)


def _run() -> int:
    try:
        code = app(prog_name="hardner", standalone_mode=False)
        with file_errors("<standard output>"):
            sys.stdout.flush()
        return code or 0
    except HardnerError as error:
        return _refuse(str(error), 1)
    except typer.TyperException as error:
        return _refuse(_usage(error), error.exit_code)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return _refuse("needs torch; without it, only hardner serve --api works (ONNX models)", 1)
    except BrokenPipeError:  # the reader of our output has left (`| head`): nothing to say
        return 1
    except OSError as error:
        if error.errno not in _FULL:
            raise
        return _refuse(f"cannot write: {error.strerror}", 1)
    except MemoryError:
        return _refuse(_NO_MEMORY, 1)
    except RuntimeError as error:
        # Of a GPU's memory torch has an exception; of the other, only these words of its allocator.
        if type(error).__name__ != "OutOfMemoryError" and "CPUAllocator" not in str(error):
            raise
        return _refuse(_NO_MEMORY, 1)
    finally:
        _give_up_stuck_output()


def _give_up_stuck_output() -> None:
    """Keep Python from failing once more at its end, with what it could not write before."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: typer.TyperException) -> str:
    """What is wrong with the command line, and where its help is; nothing if help was shown."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if message and context else message


def _refuse(message: str, code: int) -> int:
    if message:
        print(f"hardner: {message}", file=sys.stderr)
    return code
