"""``hardner tag``: find entities in text of any format."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardner.cli.convert import _format, _progress, _scheme
from hardner.cli.engine import ADDRESS, ENGINE, EngineChoice, tag_on_ray
from hardner.cli.outputs import Output
from hardner.cli.terminal import interruptible, spoken, stderr
from hardner.errors import HardnerError
from hardner.files import is_standard
from hardner.formats import Report
from hardner.types import Document

if TYPE_CHECKING:
    from hardner.scale.documents import Inputs, _Work
    from hardner.scale.workers import TagOptions
    from hardner.tag.predictor import Predictor


def _listed(text: str | None) -> str | None:
    if text is not None and not all(part.strip() for part in text.split(",")):
        raise typer.BadParameter("a label is missing between two commas.")
    return text


def tag_command(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILES...|-]", help="Files or folders; - is standard input."),
    ] = None,
    source_format: Annotated[
        str | None,
        typer.Option("--from", callback=_format, help="Format of FILES, if not as they look."),
    ] = None,
    target_format: Annotated[
        str | None,
        typer.Option(
            "--to",
            callback=_format,
            help="Format to write; by default as --out is named, text on a terminal, else jsonl.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="A file for all, or a folder (NAME/) with a file for each of FILES."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A model folder; by default the model that comes along."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(callback=_listed, help="Only these, with commas between; by default all."),
    ] = None,
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="Only entities that are as probable as that.")
    ] = 0.0,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Sentences computed at once; the result is the same. By default what suits the "
            "device.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes, each with its own model; the result is the same. By default 1, on Ray "
            "all that it has room for.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the same command where it was broken off.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "cpu",
    scheme: Annotated[
        str | None,
        typer.Option(callback=_scheme, help="Tag scheme of a CoNLL file to write (IOB2)."),
    ] = None,
    engine: ENGINE = EngineChoice.local,
    address: ADDRESS = None,
) -> None:
    """Find entities in text of any format, and write them in any format.

    Text is cut into sentences; tokens of CoNLL files are kept as they are. Entities of different
    types may overlap. Scores are probabilities. Documents come out in the order they went in, and
    memory does not grow with their number. A file appears when it is finished, or not at all.

    On Ray, --out is a folder of shards (jsonl or parquet) with a manifest; the same command again
    makes those that are missing.

    Examples:

    - `hardner tag examples/abstract.txt`
    - `hardner tag - --labels Disease,Gene --min-score 0.5 < abstracts.jsonl > found.jsonl`
    - `hardner tag a.txt b.txt --to html --out pages/ --workers 2 --resume`
    - `hardner tag test.tsv --from conll --to conll --out predicted.tsv --model my-model`
    - `hardner tag pubmed/ --engine ray --address 10.0.0.1:6379 --to parquet --out tagged/`
    """
    if engine is EngineChoice.ray:
        tag_on_ray(
            files or ["-"],
            out,
            model=model,
            address=address,
            workers=workers or 0,
            device=device,
            labels=_names(labels),
            min_score=min_score,
            source_format=source_format,
            target_format=target_format,
            batch_size=batch_size,
        )
        return
    from hardner.scale.documents import Inputs
    from hardner.scale.workers import TagOptions
    from hardner.tag.predictor import Predictor

    sources, report = files or ["-"], Report()
    output = Output.of(out, target_format, scheme, report)
    targets = output.files(sources)
    keeps = output.folder or output.growing is not None
    if resume and (not keeps or any(map(is_standard, sources))):
        message = "--resume needs files to read, and a folder or a .jsonl file as --out"
        raise HardnerError(message)
    wish = TagOptions(batch_size, _names(labels), min_score)
    predictor = Predictor.load(model, device)
    tally = Tally()
    kept = "; what is finished is kept: the same command and --resume go on" if keeps else ""
    with interruptible(lambda: False), spoken(f"interrupted{kept}"), _progress() as tick:

        def work(documents: Iterable[Document]) -> Iterator[Document]:
            for document in _tagged(documents, predictor, model, workers or 1, wish):
                tally.add(document)
                tick(tally.documents)
                yield document

        def inputs(some: Sequence[str], skip: int = 0) -> Inputs:
            return Inputs(some, source_format, report, skip)

        job = _job(model, wish, source_format, output)
        if output.folder:
            _into_folder(output, targets, predictor.labels, job, resume, inputs, work)
        elif output.growing is not None:
            _by_line(output, output.growing, sources, job, resume, inputs, work)
        else:
            output.write(inputs(sources).through(work), output.place, predictor.labels)
    for line in report.lines():
        if "document id not kept" not in line:
            stderr.print(f"warning: {line}", markup=False)
    if output.place is not None:
        said = f"{tally.documents:,} documents, {tally.mentions:,} mentions -> {output.place}"
        stderr.print(said, markup=False)


@dataclass
class Tally:
    """What has come out so far."""

    documents: int = 0
    mentions: int = 0

    def add(self, document: Document) -> None:
        """Count a document."""
        self.documents += 1
        self.mentions += len(document.entities)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(","))


def _job(model: Path | None, wish: "TagOptions", source_format: str | None, output: Output) -> str:
    """What decides the result, beside the inputs."""
    from hardner.scale.output import stamp
    from hardner.tag.predictor import BUNDLED_MODEL

    parts = [stamp(model or BUNDLED_MODEL), wish.labels, wish.min_score]
    return json.dumps([*parts, source_format, output.format, output.scheme])


def _tagged(
    documents: Iterable[Document],
    predictor: "Predictor",
    model: Path | None,
    workers: int,
    wish: "TagOptions",
) -> Iterator[Document]:
    from hardner.scale.workers import tag_with_workers

    if workers > 1:
        return tag_with_workers(documents, model, workers, wish, predictor.device)
    return predictor.documents(
        documents, batch_size=wish.batch_size, labels=wish.labels, min_score=wish.min_score
    )


def _into_folder(
    output: Output,
    targets: Mapping[str, Path],
    labels: Sequence[str],
    job: str,
    resume: bool,
    inputs: "Callable[[Sequence[str]], Inputs]",
    work: "_Work",
) -> None:
    """A file for each input; one that is done is written down at once."""
    from hardner.scale.output import FinishedInputs

    assert output.place is not None
    journal = FinishedInputs(output.place, job, resume)
    left = [source for source, path in targets.items() if not journal.holds(source, path)]
    for source, documents in inputs(left).parted(work):
        output.write(documents, targets[source], labels)
        journal.add(source)


def _by_line(
    output: Output,
    path: Path,
    sources: Sequence[str],
    job: str,
    resume: bool,
    inputs: "Callable[[Sequence[str], int], Inputs]",
    work: "_Work",
) -> None:
    """A line for each document; what is done is kept whatever happens."""
    from hardner.scale.output import part_file, stamp

    stamps = [source if is_standard(source) else stamp(source) for source in sources]
    with part_file(path, json.dumps([job, *stamps]), resume) as part:
        for document in inputs(sources, part.done).through(work):
            part.add(output.line(document))
