"""``hardner model``: what a network is made of, and whose guidelines it follows."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from hardner.errors import HardnerError

if TYPE_CHECKING:
    from hardner.model.tagger import Tagger

ABOUT = "Look at networks, and choose whose guidelines the bundled one follows."
model_app = typer.Typer(help=ABOUT, no_args_is_help=True)


class NetworkPart(NamedTuple):
    """Some parameters of a network that belong together."""

    name: str
    tensors: int
    parameters: int

    @property
    def learns(self) -> bool:
        """Whether training changes it."""
        return not self.name.startswith("frozen")


@model_app.callback(help=ABOUT)
def _root() -> None:
    pass


@model_app.command()
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="PRESET|FOLDER", help="Without it: every preset.")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(min=0, help="Words, or pieces of words, that a preset knows.")
    ] = None,
    domains: Annotated[int, typer.Option(min=1, help="Domains of one label, for a preset.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Show the parts of a network and count their parameters.

    Examples:

    - `hardner model show`
    - `hardner model show hgda --vocabulary 50000`
    - `hardner model show ./my-model --json`
    """
    from hardner.model.presets import NETWORKS

    names = list(NETWORKS) if name is None else [name]
    found = [_found(one, vocabulary, domains) for one in names]
    if as_json:
        records = [_record(*one) for one in found]
        typer.echo(json.dumps(records[0] if name else records, indent=2, ensure_ascii=False))
        return
    for number, one in enumerate(found):
        if number:
            typer.echo()
        _print(*one)


@model_app.command()
def follow(
    corpora: Annotated[
        list[str] | None, typer.Argument(metavar="[CORPUS...]", help="Without any: list them.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The new model folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a model that is there.")] = False,
) -> None:
    """Write the model that comes along with heads that follow the guidelines of corpora.

    Corpora do not agree on what a gene or a species is. A head of the model that comes along says
    what two of them say together; one that learnt from a single corpus can take its place.

    Examples:

    - `hardner model follow`
    - `hardner model follow JNLPBA BC4CHEMD --out my-model`
    - `hardner tag abstract.txt --model my-model`
    """
    from hardner.cli.common import check_model_folder, stderr
    from hardner.tag.guidelines import known_guidelines
    from hardner.tag.predictor import load

    if not corpora:
        for corpus, head in known_guidelines().items():
            typer.echo(f"{corpus}\t{head.label}")
        return
    if out is None:
        raise typer.BadParameter("name a folder for the model, --out DIR")
    check_model_folder(out, force)
    load(guidelines=corpora).save(out)
    stderr.print(f"{out}; next: hardner tag TEXT --model {out}", markup=False)


def _found(name: str, vocabulary: int | None, domains: int) -> tuple[str, str, "Tagger"]:
    """The name, a line about the network, and the network."""
    from hardner.model.describe import load_model
    from hardner.model.presets import NETWORKS

    if name in NETWORKS:
        preset = NETWORKS[name]
        size = preset.vocabulary if vocabulary is None else vocabulary
        labels = {f"domain {number}": ("label",) for number in range(1, domains + 1)}
        return name, preset.about, preset.tagger(size, labels)
    if not Path(name).is_dir():
        known_guidelines = ", ".join(NETWORKS)
        raise HardnerError(
            f"{name}: neither a model folder nor one of the presets {known_guidelines}"
        )
    if vocabulary is not None:
        raise HardnerError(f"{name}: a model has its own vocabulary; leave out --vocabulary")
    tagger, _ = load_model(name)
    return name, f"a model for {', '.join(tagger.domains)}", tagger


def _parts_of(tagger: "Tagger") -> list[NetworkPart]:
    """The encoder layer by layer, every other part as one."""
    from math import prod

    from hardner.model.describe import parameter_shapes

    found: dict[str, list[int]] = {}
    for name, shape in parameter_shapes(tagger).items():
        part, *inner = name.split(".")
        key = f"{part}.{inner[0]}" if part in ("encoder", "frozen") else part
        found.setdefault(key, []).append(prod(shape))
    return [NetworkPart(name, len(sizes), sum(sizes)) for name, sizes in found.items()]


def _totals(parts: Sequence[NetworkPart]) -> tuple[int, int]:
    """All parameters, and those that learn."""
    return sum(p.parameters for p in parts), sum(p.parameters for p in parts if p.learns)


def _record(name: str, about: str, tagger: "Tagger") -> dict[str, object]:
    parts = _parts_of(tagger)
    total, learns = _totals(parts)
    return {
        "name": name,
        "about": about,
        "decoder": tagger.decoder,
        "domains": {t.domain: {"scheme": t.scheme, "tags": len(t.tags)} for t in tagger.tag_sets},
        "parts": [{**part._asdict(), "learns": part.learns} for part in parts],
        "parameters": total,
        "learns": learns,
    }


def _print(name: str, about: str, tagger: "Tagger") -> None:
    parts = _parts_of(tagger)
    total, learns = _totals(parts)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("part", no_wrap=True)
    table.add_column("tensors", justify="right", no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True)
    for part in parts:
        table.add_row(part.name, str(part.tensors), f"{part.parameters:,}")
    table.add_row("all", str(sum(p.tensors for p in parts)), f"{total:,}", style="bold")
    if learns != total:
        table.add_row("of them learn", "", f"{learns:,}")
    typer.echo(f"{name}: {about}")
    Console().print(table)
