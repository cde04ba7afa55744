"""``hardner example``: the files that help and documentation speak of."""

import shlex
import shutil
from pathlib import Path
from typing import Annotated

from typer import Argument

import hardner
from hardner.cli.common import say
from hardner.errors import FileError
from hardner.folders import atomic_folder

_FILES = Path(hardner.__file__).parent / "assets" / "examples"


def example_command(
    folder: Annotated[
        Path, Argument(metavar="[FOLDER]", help="A new folder for the files.")
    ] = Path("examples"),
) -> None:
    """Write the example files that the help and the documentation use.

    They are 20 labelled sentences about medical devices, 64 more to test on, an abstract to tag,
    and the tiny corpora of the Python examples.

    Examples:

    - `hardner example`
    - `hardner example /tmp/examples`
    """
    if folder.exists():
        raise FileError(folder, "exists already; name another folder")
    with atomic_folder(folder.absolute()) as made:
        shutil.copytree(_FILES, made, dirs_exist_ok=True)
    train = shlex.quote(str(folder / "devices-train.jsonl"))
    say(f"{folder}; next: hardner adapt {train} --label Device --out device-model")
