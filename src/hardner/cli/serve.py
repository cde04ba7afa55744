"""``hardner serve``: the workbench in the browser, or a server that tags."""

import os
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from hardner.cli.common import say
from hardner.errors import HardnerError

_BUNDLED = "bundled"
_PROJECT = Path("workbench.hardner")


def serve_command(
    context: typer.Context,
    project: Annotated[
        Path | None,
        Argument(
            metavar="[PROJECT]",
            help="Project file; created if missing.",
            show_default="workbench.hardner",
        ),
    ] = None,
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 for any free one.")] = 8765,
    host: Annotated[
        str, Option(help="Address to listen on; other machines need a token, which is printed.")
    ] = "127.0.0.1",
    browser: Annotated[bool, Option("--browser/--no-browser", help="Open the browser.")] = True,
    model: Annotated[
        list[str] | None,
        Option(
            metavar="[NAME=]DIR",
            help="Model folder; default: the bundled model. With --api, several by name.",
        ),
    ] = None,
    api: Annotated[
        bool, Option("--api", help="No workbench: a server that tags, for other programs.")
    ] = False,
    exact: Annotated[
        bool, Option("--exact", help="With --api: models as they are, not in 8 bits.")
    ] = False,
) -> None:
    """Label, adapt and review in the browser; nothing leaves this machine.

    A project is one file with the documents, labels and their history, models and runs. Stop with
    Ctrl-C; all that was shown as saved is in the file.

    With --api, a server for other programs, which keeps nothing: POST /tag, GET /models, /health,
    /metrics and /docs. Models are served in 8 bits where onnxruntime is installed and F1 stays
    within .01. The environment variable HARDNER_TOKEN holds the token that requests must bring.

    Examples:

    - `hardner serve devices.hardner`
    - `hardner serve devices.hardner --port 9000 --no-browser`
    - `hardner serve --api --port 8000`
    - `hardner serve --api --model bundled --model devices=./my-model`
    """
    try:
        from hardner.serve.server import TOKEN_VARIABLE, run_api, run_server
        from hardner.serve.workbench import WorkbenchSettings
    except ModuleNotFoundError as error:
        raise HardnerError(f"needs {error.name}; install hardner[serve]") from None
    if api:
        if project is not None:
            context.fail("--api serves no project.")
        models = _models(model or [_BUNDLED])
        token = os.environ.get(TOKEN_VARIABLE) or None
        run_api(models, host, port, lambda address: say(address), token=token, exact=exact)
        return
    if exact:
        context.fail("--exact is for --api.")
    if model is not None and len(model) > 1:
        context.fail("A project has one model; --api serves several.")
    folder = None if model is None else Path(model[0])
    if folder is not None and not folder.is_dir():
        raise HardnerError(f"{folder}: no such model folder")

    def ready(address: str) -> None:
        typer.echo(address)
        if browser:
            threading.Timer(0.5, webbrowser.open, (address,)).start()

    run_server(WorkbenchSettings(project or _PROJECT, folder), host, port, ready)


def _models(given: Sequence[str]) -> dict[str, Path | None]:
    """The folders of models by name; a name that is not given is the folder's own."""
    found: dict[str, Path | None] = {}
    for one in given:
        name, is_named, path = one.partition("=")
        folder = Path(path if is_named else one)
        name = name if is_named else folder.resolve().name
        if not name.isprintable() or not name:
            raise HardnerError(f"{one!r}: a model needs a name: --model NAME=DIR")
        if name in found:
            raise HardnerError(f"two models are named {name}; name them: --model NAME=DIR")
        if one == _BUNDLED and not folder.is_dir():
            found[name] = None
        elif folder.is_dir():
            found[name] = folder
        else:
            raise HardnerError(f"{folder}: no such model folder")
    return found
