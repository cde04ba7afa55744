"""``hardner tag``: find entities in text of any format."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from typer import Argument, Option

from hardner.cli.common import (
    check_not_read,
    document_counter,
    marked_text,
    message_on_interrupt,
    progress_bar,
    say,
    warn,
)
from hardner.cli.options import (
    ADDRESS_OPTION,
    DEVICE_OPTION,
    ENCODING_OPTION,
    ENGINE_OPTION,
    LABELS_OPTION,
    MIN_PRECISION_OPTION,
    MODEL_OPTION,
    SOURCE_FORMAT_OPTION,
    TARGET_FORMAT_OPTION,
    TARGET_SCHEME_OPTION,
    THRESHOLD_OPTION,
    TYPE_OPTION,
    EngineChoice,
    chosen_min_score,
    split_labels,
    split_types,
)
from hardner.errors import FileError, HardnerError
from hardner.files import atomic_write, file_errors, is_standard, plain_name
from hardner.formats import FORMATS, Report, format_to_write, write
from hardner.formats.format import Place
from hardner.formats.jsonl import encode_document
from hardner.types import Document

if TYPE_CHECKING:
    from hardner.scale import ShardProgress
    from hardner.scale.tagging import TagJob


@dataclass(frozen=True)
class Output:
    """A place, and the form in which documents are written there."""

    place: Path | None
    """None for standard output."""
    folder: bool
    """Whether the place is a folder in which each input has a file of its own."""
    format: str
    """A name in `FORMATS`; ``text`` is text with its mentions marked."""
    scheme: str | None
    report: Report

    @classmethod
    def of(
        cls, out: str | None, format: str | None, scheme: str | None, report: Report
    ) -> "Output":
        """Find out what is meant; what cannot be written is refused."""
        place = None if out is None or is_standard(out) else Path(out)
        folder = place is not None and (str(out).endswith("/") or place.is_dir())
        row = FORMATS[format or _usual(place, folder)]
        if row.write is None:
            raise HardnerError(f"{row.name} can be read but not written; choose another --to")
        if scheme is not None and not row.tagged:
            raise HardnerError(f"{row.name} has no tags, so no --scheme {scheme}")
        return cls(place, folder and not row.folder, row.name, scheme, report)

    @property
    def growing(self) -> Path | None:
        """The plain file with a document a line, which can be gone on with; None if it is none."""
        if self.place is None or self.folder or self.format != "jsonl":
            return None
        # A compressed file cannot be cut back to whole lines, and JSON lists have an end.
        plain = not self.place.name.lower().endswith((".json", ".gz", ".xz"))
        return self.place if plain and (self.place.is_file() or not self.place.exists()) else None

    def files(self, sources: Sequence[str], folders: Sequence[str] = ()) -> dict[str, Path]:
        """The output of each input; one file stands for all unless there is a folder.

        Of inputs below one of ``folders`` that share a name, the later ones keep their path.
        """
        if self.place is None:
            return {}
        owners: dict[Path, str] = {}
        for source in sources:
            path = self.place / self._name(source) if self.folder else self.place
            above = next((f for f in folders if Path(f) in Path(source).parents), None)
            if self.folder and path in owners and above is not None:
                path = self.place / Path(source).parent.relative_to(above) / path.name
            # a/x.txt and b/x.txt would overwrite each other's output.
            if self.folder and path in owners:
                message = f"{owners[path]} and {source} would both be written here; rename one"
                raise FileError(path, message)
            check_not_read(path, source)
            owners[path] = source
        return {source: path for path, source in owners.items()}

    def write(
        self, documents: Iterable[Document], path: Path | None, labels: Sequence[str]
    ) -> None:
        """Write documents to a file, whole or not at all, or to standard output.

        Args:
            documents: Their scores are left out without a word where the format has no place.
            path: None for standard output.
            labels: Those of the model, in order, which gives them colours.
        """
        if path is not None and self.folder:
            with file_errors(path.parent):
                path.parent.mkdir(exist_ok=True, parents=True)
        if path is None and self.format in ("text", "jsonl"):
            with file_errors("<standard output>"):
                self._stream(documents, labels)
        elif path is not None and self.format == "text":
            with atomic_write(path) as file:
                file.writelines(f"{marked_text(d, labels).plain}\n" for d in documents)
        else:
            scored = "scores" in FORMATS[self.format].holds
            fitting = documents if scored else map(_unscored, documents)
            target = path or "-"
            write(fitting, target, self.format, scheme=self.scheme, report=self.report)

    def _stream(self, documents: Iterable[Document], labels: Sequence[str]) -> None:
        console = Console(highlight=False, soft_wrap=True)
        for document in documents:
            if self.format == "jsonl":
                sys.stdout.buffer.write(self.line(document).encode() + b"\n")
            else:
                console.print(marked_text(document, labels))

    def line(self, document: Document) -> str:
        """The document as a line of JSON."""
        record = encode_document(
            document, self.report, Place(self.place or "-", document=document.id)
        )
        return json.dumps(record, ensure_ascii=False, allow_nan=False)

    def _name(self, source: str) -> str:
        ending = next(iter(FORMATS[self.format].endings), ".jsonl")
        return ("stdin" if is_standard(source) else Path(plain_name(source)).stem) + ending


def _usual(place: Path | None, folder: bool) -> str:
    """The format where none is named."""
    if place is None:
        return "text" if sys.stdout.isatty() else "jsonl"
    return "jsonl" if folder else format_to_write(place).name


def _unscored(document: Document) -> Document:
    bare = (replace(entity, score=1.0) for entity in document.entities)
    return replace(document, entities=tuple(bare))


def tag_command(
    files: Annotated[
        list[str] | None,
        Argument(metavar="[FILES...|-]", help="Files, folders and patterns; - is stdin."),
    ] = None,
    source_format: SOURCE_FORMAT_OPTION = None,
    encoding: ENCODING_OPTION = None,
    target_format: TARGET_FORMAT_OPTION = None,
    out: Annotated[
        str | None, Option(metavar="OUT", help="A file, or a folder (NAME/) with a file per input.")
    ] = None,
    model: MODEL_OPTION = None,
    labels: LABELS_OPTION = None,
    types: TYPE_OPTION = None,
    threshold: THRESHOLD_OPTION = None,
    min_precision: MIN_PRECISION_OPTION = None,
    batch_size: Annotated[
        int | None, Option(min=1, help="Sentences per batch; the result is the same.")
    ] = None,
    workers: Annotated[
        int | None,
        Option(min=1, help="Processes, each with its own model; the result is the same."),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Continue an interrupted command.")] = False,
    device: DEVICE_OPTION = "auto",
    scheme: TARGET_SCHEME_OPTION = None,
    engine: ENGINE_OPTION = EngineChoice.local,
    address: ADDRESS_OPTION = None,
) -> None:
    """Find entities in text of any format, and write them in any format.

    Text is split into sentences; tokens of CoNLL files are kept. Entities of different types may
    overlap. Scores are probabilities. Documents keep their order, and memory does not grow with
    their number. A file is written whole, or not at all.

    By default, standard output gets marked text on a terminal and JSON lines otherwise.

    --type finds a type that no one has labelled a sentence of, beside those of the model and in
    the same pass; it takes a model that was trained with label names. What it finds depends on
    the words of its description, and a line says so where that was of little use.

    With --engine ray, --out is a folder of shards (jsonl or parquet) with a manifest; the same
    command again makes the shards that are missing.

    Examples:

    - `hardner tag examples/abstract.txt`
    - `hardner tag - --labels Disease,Gene --threshold 0.5 < abstracts.jsonl > found.jsonl`
    - `hardner tag a.txt --model device-model --threshold Device=0.7`
    - `hardner tag a.txt --model device-model --min-precision 0.9`
    - `hardner tag a.txt --type "Device: an instrument or implant used in care" --labels Device`
    - `hardner tag a.txt b.txt --to html --out pages/ --workers 2 --resume`
    - `hardner tag test.tsv --from conll --to conll --out predicted.tsv --model my-model`
    - `hardner tag pubmed/ --engine ray --address 10.0.0.1:6379 --to parquet --out tagged/`
    """
    from hardner.scale.tagging import TagJob

    wanted = split_labels(labels)
    meant = split_types(types)
    least = chosen_min_score(threshold, min_precision, model, wanted, meant)
    job = TagJob(None if model is None else str(model), device, batch_size, wanted, least, meant)
    if engine is EngineChoice.ray:
        if encoding is not None:
            raise HardnerError("--engine ray reads UTF-8 alone; re-code the files, or leave it out")
        if meant:
            how = "save a tagger that has the type: tagger.with_types(...).save(DIR)"
            raise HardnerError(f"--engine ray takes the types of a model folder; {how}")
        _tag_on_ray(files or ["-"], out, job, address, workers or 0, source_format, target_format)
        return
    report = Report()
    output = Output.of(out, target_format, scheme, report)
    counts, doubts = _tag_here(
        files or ["-"], output, job, workers or 1, source_format, encoding, resume
    )
    # Ids are made up for plain text, so their loss is no news.
    warn(line for line in report.lines() if "document id not kept" not in line)
    warn(doubts)
    if output.place is not None:
        say(f"{counts} -> {output.place}")


def _tag_here(
    files: list[str],
    output: Output,
    job: "TagJob",
    workers: int,
    source_format: str | None,
    encoding: str | None,
    resume: bool,
) -> tuple[str, list[str]]:
    """Tag into any place and format; what is finished is kept where there is a way to go on.

    Returns how much there was, and a line for each type whose description was of little use.
    """
    from hardner.scale.tagging import documents_by_input, list_inputs, tag_with_workers

    # What an earlier run has written into a folder among the inputs is no input.
    sources = list_inputs(files, source_format, output.place if output.folder else None)
    targets = output.files(sources, files)
    keeps = output.folder or output.growing is not None
    if resume and (not keeps or any(map(is_standard, sources))):
        message = "--resume needs files to read, and a folder or a .jsonl file as --out"
        raise HardnerError(message)
    labels, described = job.predictor.labels, None
    if job.predictor.origins:  # a type made of its description has one
        from hardner.tag.doubts import DescribedTypes

        described = DescribedTypes(job.predictor, job.labels)
    count = mentions = 0
    kept = "; what is finished is kept: the same command and --resume go on" if keeps else ""
    with message_on_interrupt(f"interrupted{kept}"), document_counter() as tick:

        def tagged(documents: Iterable[Document]) -> Iterator[Document]:
            nonlocal count, mentions
            found = tag_with_workers(documents, job, workers)
            for document in described.watch(found) if described else found:
                count += 1
                mentions += len(document.entities)
                tick(count)
                yield document

        def by_input(some: list[str], skip: int = 0) -> Iterator[tuple[str, Iterator[Document]]]:
            return documents_by_input(some, tagged, output.report, source_format, skip, encoding)

        if not keeps:
            every = chain.from_iterable(documents for _, documents in by_input(sources))
            output.write(every, output.place, labels)
        elif output.growing is None:
            from hardner.scale.resume import FinishedInputs, sole_writer

            assert output.place is not None
            with sole_writer(output.place, is_dir=True):
                settings = _settings(job, source_format, encoding, output)
                finished = FinishedInputs(output.place, settings, resume)
                left = [name for name, path in targets.items() if not finished.holds(name, path)]
                for source, documents in by_input(left):
                    output.write(documents, targets[source], labels)
                    finished.add(source)
        else:
            from hardner.scale.resume import fingerprint, growing_file

            stamps = [source if is_standard(source) else fingerprint(source) for source in sources]
            settings = json.dumps([_settings(job, source_format, encoding, output), *stamps])
            with growing_file(output.growing, settings, resume) as (file, done):
                for _, documents in by_input(sources, done):
                    file.writelines(f"{output.line(d)}\n".encode() for d in documents)
    doubts = list(described.poor()) if described else []
    return f"{count:,} documents, {mentions:,} mentions", doubts


def _settings(
    job: "TagJob", source_format: str | None, encoding: str | None, output: Output
) -> str:
    """What decides the result, beside the inputs."""
    from hardner.scale.resume import fingerprint
    from hardner.tag.predictor import BUNDLED_MODEL

    parts = [fingerprint(job.model or BUNDLED_MODEL), job.labels, job.threshold_setting]
    own = [part for part in (encoding, dict(job.types)) if part]
    return json.dumps([*parts, source_format, output.format, output.scheme, *own])


def _tag_on_ray(
    files: list[str],
    out: str | None,
    job: "TagJob",
    address: str | None,
    workers: int,
    source_format: str | None,
    target_format: str | None,
) -> None:
    """Tag into a folder of shards; the same command again makes those that are missing."""
    from hardner.scale import tag_files

    if out is None:
        raise HardnerError("--engine ray writes a folder of shards; name it with --out")
    progress = progress_bar()
    task = progress.add_task("starting Ray", total=None)

    def on_progress(done: "ShardProgress") -> None:
        what = f"{done.documents:,} documents; shards"
        progress.update(task, description=what, completed=done.shards, total=done.total)

    with progress:
        made = tag_files(
            files,
            out,
            job,
            engine="ray",
            address=address,
            workers=workers,
            format=source_format,
            to=target_format or "jsonl",
            on_progress=on_progress,
        )
    warn(f"{reason}: {count:,}" for reason, count in made.notes.items())
    if made.bad:
        warn([f"{made.bad:,} bad documents: {Path(out, 'bad.jsonl')}"])
    say(
        f"{made.documents:,} documents, {made.entities:,} mentions, {made.shards:,} shards -> {out}"
    )
