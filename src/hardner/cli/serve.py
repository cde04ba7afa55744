"""``hardner serve``: the workbench in the browser."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from hardner.cli.options import MODEL_OPTION
from hardner.errors import HardnerError


def serve_command(
    project: Annotated[
        Path, Argument(metavar="[PROJECT]", help="Project file; created if missing.")
    ] = Path("workbench.hardner"),
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 for any free one.")] = 8765,
    host: Annotated[
        str, Option(help="Address to listen on; other machines need a token, which is printed.")
    ] = "127.0.0.1",
    browser: Annotated[bool, Option("--browser/--no-browser", help="Open the browser.")] = True,
    model: MODEL_OPTION = None,
) -> None:
    """Label, adapt and review in the browser; nothing leaves this machine.

    A project is one file with the documents, labels and their history, models and runs. Stop with
    Ctrl-C; all that was shown as saved is in the file.

    Examples:

    - `hardner serve devices.hardner`
    - `hardner serve devices.hardner --port 9000 --no-browser`
    """
    try:
        from hardner.serve.server import run_server
        from hardner.serve.workbench import WorkbenchSettings
    except ModuleNotFoundError as error:
        raise HardnerError(f"needs {error.name}; install hardner[serve]") from None
    if model is not None and not model.is_dir():
        raise HardnerError(f"{model}: no such model folder")

    def ready(address: str) -> None:
        typer.echo(address)
        if browser:
            threading.Timer(0.5, webbrowser.open, (address,)).start()

    run_server(WorkbenchSettings(project, model), host, port, ready)
