"""The reference of the command line, from the commands themselves."""

from collections.abc import Iterator
from typing import Any

PLACE = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with every command at the place that is kept for them."""
    return markdown.replace(PLACE, "\n".join(_reference())) if PLACE in markdown else markdown


def _reference() -> Iterator[str]:
    import typer

    from hardner.cli import app

    for words, command in _leaves(typer.main.get_command(app), ("hardner",)):
        yield f"## {' '.join(words)}\n"
        yield f"```\n{_usage(words, command)}\n```\n"
        yield _told(command.help or "") + "\n"
        rows = [row for parameter in command.params if (row := _row(parameter))]
        if rows:
            yield "| | |\n|---|---|"
            yield "\n".join(rows) + "\n"


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", {})
    if not below:
        yield words, command
    for name, sub in sorted(below.items()):
        yield from _leaves(sub, (*words, name))


def _usage(words: tuple[str, ...], command: Any) -> str:
    arguments = (p for p in command.params if p.param_type_name == "argument")
    shown = (_argument(p) if p.required else f"[{_argument(p)}]" for p in arguments)
    return " ".join((*words, "[OPTIONS]", *shown))


def _told(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.replace("\f", "").strip().splitlines())


def _row(parameter: Any) -> str:
    told = getattr(parameter, "help", None)
    if not told or getattr(parameter, "hidden", False):
        return ""
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{_argument(parameter)}`"
    return f"| {names} | {told.replace('|', '&#124;')} |"


def _argument(parameter: Any) -> str:
    return parameter.metavar or parameter.name.upper()
