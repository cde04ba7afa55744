"""``hardner model``: what a network is made of, and whose guidelines and types it has."""

from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from typer import Argument, Option

from hardner.cli.common import PlainCommand, check_model_folder, plain_table, print_json, say
from hardner.cli.model_types import diff, drop, forget, merge, rename, threshold
from hardner.cli.options import FORCE_OPTION, JSON_OPTION
from hardner.errors import HardnerError

if TYPE_CHECKING:
    from hardner.model.tagger import Tagger

ABOUT = "Inspect and compare models, and change which types they find."
model_app = typer.Typer(help=ABOUT, no_args_is_help=True)
for _command in (drop, rename, merge, diff, threshold, forget):
    model_app.command(cls=PlainCommand)(_command)


class NetworkPart(NamedTuple):
    """Some parameters of a network that belong together."""

    name: str
    tensors: int
    parameters: int
    learns: bool
    """Whether training changes it."""


@model_app.callback(help=ABOUT)
def _root() -> None:
    pass


@model_app.command(cls=PlainCommand)
def show(
    name: Annotated[
        str | None, Argument(metavar="[PRESET|FOLDER]", help="A network; default: every preset.")
    ] = None,
    vocabulary: Annotated[
        int | None, Option(min=0, help="Words, or subword tokens, that a preset knows.")
    ] = None,
    domains: Annotated[int, Option(min=1, help="Domains of a preset, with one label each.")] = 3,
    as_json: JSON_OPTION = False,
) -> None:
    """Show the parts of a network, and what each type of a model was learnt from.

    Of a type that was adapted, that is the day, the labelled sentences, which F1 was expected, and
    the start of their SHA-256; --json has all that the folder records.

    Examples:

    - `hardner model show`
    - `hardner model show hgda --vocabulary 50000`
    - `hardner model show ./my-model --json`
    """
    from hardner.model.describe import NETWORKS

    names = list(NETWORKS) if name is None else [name]
    found = [_described(*_found(one, vocabulary, domains)) | _of_types(one) for one in names]
    if as_json:
        print_json(found[0] if name else found)
        return
    for number, network in enumerate(found):
        if number:
            typer.echo()
        _print(network)


@model_app.command(cls=PlainCommand)
def follow(
    corpora: Annotated[
        list[str] | None,
        Argument(metavar="[CORPUS...]", help="Corpora to follow; default: list them."),
    ] = None,
    out: Annotated[Path | None, Option(metavar="DIR", help="Folder of the model.")] = None,
    force: FORCE_OPTION = False,
) -> None:
    """Write the bundled model with heads that follow the annotation guidelines of given corpora.

    Corpora do not agree on what a gene or a species is. A head of the bundled model averages two of
    them; a head that learnt from one corpus alone can take its place.

    Examples:

    - `hardner model follow`
    - `hardner model follow JNLPBA BC4CHEMD --out my-model`
    - `hardner tag abstract.txt --model my-model`
    """
    from hardner.tag.guidelines import known_guidelines, load

    if not corpora:
        for corpus, head in known_guidelines().items():
            typer.echo(f"{corpus}\t{head.label}")
        return
    if out is None:
        raise typer.BadParameter("name a folder for the model, --out DIR")
    check_model_folder(out, force)
    load(guidelines=corpora).save(out)
    say(f"{out}; next: hardner tag TEXT --model {out}")


def _found(name: str, vocabulary: int | None, domains: int) -> tuple[str, str, "Tagger"]:
    """The name, a line about the network, and the network."""
    from hardner.model.describe import NETWORKS, load_model

    if name in NETWORKS:
        preset = NETWORKS[name]
        size = preset.vocabulary if vocabulary is None else vocabulary
        labels = {f"domain {number}": ("label",) for number in range(1, domains + 1)}
        return name, preset.about, preset.tagger(size, labels)
    if not Path(name).is_dir():
        presets = ", ".join(NETWORKS)
        raise HardnerError(f"{name}: neither a model folder nor one of the presets {presets}")
    if vocabulary is not None:
        raise HardnerError(f"{name}: a model has its own vocabulary; leave out --vocabulary")
    tagger, _ = load_model(name)
    return name, f"a model for {', '.join(tagger.domains)}", tagger


def _parts_of(tagger: "Tagger") -> list[NetworkPart]:
    """The encoder layer by layer, every other part as one."""
    from hardner.model.describe import parameter_shapes

    found: dict[str, list[int]] = {}
    for name, shape in parameter_shapes(tagger).items():
        part, *inner = name.split(".")
        key = f"{part}.{inner[0]}" if part in ("encoder", "frozen") else part
        found.setdefault(key, []).append(prod(shape))
    return [
        NetworkPart(name, len(sizes), sum(sizes), learns=not name.startswith("frozen"))
        for name, sizes in found.items()
    ]


def _described(name: str, about: str, tagger: "Tagger") -> dict[str, Any]:
    parts = _parts_of(tagger)
    return {
        "name": name,
        "about": about,
        "decoder": tagger.decoder,
        "domains": {t.domain: {"scheme": t.scheme, "tags": len(t.tags)} for t in tagger.tag_sets},
        "parts": [part._asdict() for part in parts],
        "parameters": sum(part.parameters for part in parts),
        "learns": sum(part.parameters for part in parts if part.learns),
    }


def _of_types(name: str) -> dict[str, Any]:
    """Of a model folder, each type's threshold, and where it comes from (None: not known)."""
    from hardner.model.describe import NETWORKS
    from hardner.tag.heads import origin_of
    from hardner.tag.predictor import Predictor

    if name in NETWORKS:
        return {"types": {}, "thresholds": {}}
    model = Predictor.load(name)
    origins = {label: origin_of(model, label) for label in model.labels}
    types = {label: origin and asdict(origin) for label, origin in origins.items()}
    return {"types": types, "thresholds": dict(model.thresholds)}


def _type_line(label: str, origin: dict[str, Any] | None) -> str:
    from hardner.tag.heads import WITHOUT_EXAMPLE

    if origin is None:
        return f"{label}: no record of an adaptation"
    meant = f", described as {origin['description']!r}" if origin["description"] else ""
    if not origin["sentences"] and origin["began"] == WITHOUT_EXAMPLE:
        return f"{label}: made on {origin['date']} of {origin['began']}{meant}"
    held = (
        f"{origin['mentions']} mentions in {origin['bearing']} of {origin['sentences']} sentences"
    )
    expected = "not known"
    if origin["expected"]:
        f1, low, high = origin["expected"]
        expected = f"{f1:.2f} ({low:.2f} to {high:.2f})"
    kept = "; the folder holds the sentences" if origin["kept"] else ""
    versions = ", ".join(f"{name} {number}" for name, number in origin["versions"].items())
    return (
        f"{label}{meant}: learnt on {origin['date']} from {held}, expected F1 {expected}; "
        f"began with {origin['began']}; data {origin['data'][:12]}; {versions}{kept}"
    )


def _print(network: dict[str, Any]) -> None:
    table = plain_table("part", "tensors", "parameters", right=("tensors", "parameters"))
    parts, total, learns = network["parts"], network["parameters"], network["learns"]
    for part in parts:
        table.add_row(part["name"], str(part["tensors"]), f"{part['parameters']:,}")
    table.add_row("all", str(sum(part["tensors"] for part in parts)), f"{total:,}", style="bold")
    if learns != total:
        table.add_row("of them learn", "", f"{learns:,}")
    typer.echo(f"{network['name']}: {network['about']}")
    Console().print(table)
    for label, origin in network["types"].items():
        least = network["thresholds"][label]
        typer.echo(_type_line(label, origin) + (f"; threshold {least:g}" if least else ""))
