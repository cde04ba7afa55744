"""python experiments/merge.py FOLDER... --into results

Adds the result lines of some folders to those of another, each once, with their configurations and
samples. Commands that run side by side write to folders of their own, since two must not append to
one file at the same time.
"""

from pathlib import Path
from typing import Annotated

import typer

from hardner.evaluate.protocols import PROTOCOLS, SampleBook
from hardner.evaluate.results import ResultFile, read_configs, read_results, record_config
from hardner.files import read_json


def merge(folders: list[Path], into: Path) -> int:
    """The lines that were new."""
    added = 0
    for folder in folders:
        for config in read_configs(folder).values():
            record_config(into, config)
        if (folder / "samples.json").is_file():
            _add_samples(SampleBook(into / "samples.json"), read_json(folder / "samples.json"))
        for name in PROTOCOLS:
            if (folder / f"{name}.jsonl").is_file():
                file = ResultFile(into / f"{name}.jsonl")
                found = list(read_results(folder / f"{name}.jsonl"))
                added += sum(not file.holds(result) for result in found)
                file.append(found)
    return added


def _add_samples(book: SampleBook, held: dict[str, list[str]]) -> None:
    for key, ids in held.items():
        corpus, shots, sample, *natural = key.split("/")
        book.add(corpus, int(shots), {int(sample): ids}, bool(natural))


def main(
    folders: Annotated[list[Path], typer.Argument(help="Folders of results.")],
    into: Path = Path("results"),
) -> None:
    print(f"{merge(folders, into):,} new lines -> {into}")


if __name__ == "__main__":
    typer.run(main)
