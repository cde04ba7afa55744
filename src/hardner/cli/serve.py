"""``hardner serve``: the workbench in the browser."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from hardner.errors import HardnerError


def serve_command(
    project: Annotated[
        Path,
        typer.Argument(metavar="[PROJECT]", help="The project's file; made if it is not there."),
    ] = Path("workbench.hardner"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen; 0 is any free port.")
    ] = 8765,
    host: Annotated[
        str, typer.Option(help="Address to listen at; others than this machine need a token.")
    ] = "127.0.0.1",
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    model: Annotated[
        Path | None, typer.Option(help="Model folder to start from, instead of the bundled one.")
    ] = None,
) -> None:
    """Label, adapt, look, repeat, in the browser; nothing leaves this machine.

    A project is one file: documents, labels with their history, models and runs. Stop with Ctrl-C;
    all that was shown as saved is in the file.

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
