"""Tagging on Ray against one worker and against the local engine; reading, model and writing.

    python benchmarks/scale.py engines MODEL ../shared/corpora
    python benchmarks/scale.py rates MODEL ../shared/corpora [--device cuda]
    python benchmarks/scale.py few-shot results/few_shot.jsonl

``engines`` runs the command on 100,000 sentences, a document each, with one thread a process: the
local engine, Ray with one worker and Ray with two, starting included. It fails where two workers
are less than 1.7 times as fast as one, or where Ray takes 15 % longer than the local engine, or
where the entities differ. ``rates`` measures what a worker does one by one, on abstracts of ten
sentences. ``few-shot`` takes the seconds a sample from what `hardner evaluate` wrote. All append
to benchmarks/results.jsonl; `python benchmarks/pages` makes docs/scale.md of that.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from pathlib import Path
from xml.sax.saxutils import escape

from record import record

from hardner.corpora import Corpora
from hardner.evaluate.results import read_results as read_results
from hardner.formats import Report, read, write
from hardner.formats.conll import read_sentences
from hardner.tag.predictor import Predictor
from hardner.types import Document

SPEED, OVERHEAD = 1.7, 0.15
SENTENCES = 100_000
PER_ABSTRACT = 10
CORPORA = ("NCBI-disease", "BC5CDR-disease", "BC4CHEMD", "BC2GM", "JNLPBA")
ONE_CORE = "cpu, 1 core"


def sentences(root: Path, count: int) -> Iterator[str]:
    """Test sentences of several corpora in turn, again and again if there are too few."""
    paths = [Corpora.under(root).entry(name).path("test", root) for name in CORPORA]
    found = [" ".join(s.tokens) for path in paths for s in read_sentences(path)]
    return islice(cycle(found), count)


def engines(model: Path, root: Path, count: int) -> int:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        source = folder / "in.jsonl"
        texts = enumerate(sentences(root, count))
        source.write_text("".join(json.dumps({"id": str(n), "text": t}) + "\n" for n, t in texts))
        seconds = {"local": timed(source, model, folder / "local.jsonl")}
        for workers in (1, 2):
            options = ("--engine", "ray", "--workers", str(workers))
            seconds[f"ray {workers}"] = timed(source, model, folder / f"ray{workers}", *options)
        outputs = [[folder / "local.jsonl"]]
        outputs += [sorted((folder / f"ray{w}").glob("part-*")) for w in (1, 2)]
        same = len({b"".join(p.read_bytes() for p in paths) for paths in outputs}) == 1
    case = f"{count:,} sentences"
    one, two, local = seconds["ray 1"], seconds["ray 2"], seconds["local"]
    rate = count / two, count / one, "Ray, 1 worker", "sentences/s"
    record("scale", f"{case}, Ray, 2 workers", "cpu, 2 cores", *rate)
    record("scale", f"{case}, Ray, 1 worker", ONE_CORE, one, local, "local engine", "s")
    if not same:
        print("the engines differ", file=sys.stderr)
    return int(not same or one / two < SPEED or one / local > 1 + OVERHEAD)


def timed(source: Path, model: Path, out: Path, *options: str) -> float:
    """Seconds of the command, from start to end."""
    command = [sys.executable, "-m", "hardner", "tag", str(source), "--model", str(model)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    subprocess.run([*command, "--out", str(out), *options], env=environment, check=True)
    return time.perf_counter() - began


def rates(model: Path, root: Path, count: int, device: str) -> int:
    texts = sentences(root, count)
    abstracts = []
    while some := list(islice(texts, PER_ABSTRACT)):
        abstracts.append(Document(str(len(abstracts)), " ".join(some)))
    predictor = Predictor.load(model, device)
    list(predictor.documents(abstracts[:50]))
    began = time.perf_counter()
    tagged = list(predictor.documents(abstracts))
    took = time.perf_counter() - began
    where = ONE_CORE if device == "cpu" else "GPU"
    note("model", where, count / took, "sentences/s")
    if device != "cpu":
        return 0
    with tempfile.TemporaryDirectory() as made:
        source = Path(made, "a.xml.gz")
        with gzip.open(source, "wt", encoding="utf-8") as file:
            file.writelines(medline(abstracts))
        note("reading MEDLINE", where, len(abstracts) / passed(read(source)), "documents/s")
        for ending in ("jsonl", "parquet"):
            began = time.perf_counter()
            write(tagged, Path(made, f"out.{ending}"), report=Report())
            rate = len(tagged) / (time.perf_counter() - began)
            note(f"writing {ending}", where, rate, "documents/s")
            size = Path(made, f"out.{ending}").stat().st_size / len(tagged)
            note(f"size of {ending}", where, size, "bytes/document")
    return 0


def note(case: str, device: str, value: float, unit: str) -> None:
    record("scale", case, device, value, None, "", unit)


def passed(documents: Iterable[Document]) -> float:
    began = time.perf_counter()
    for _ in documents:
        pass
    return time.perf_counter() - began


def medline(documents: Iterable[Document]) -> Iterator[str]:
    """Articles with about as much around the text as PubMed's have."""
    author = "<Author><LastName>Made</LastName><ForeName>Up</ForeName></Author>"
    named = '<DescriptorName UI="D000001">A made heading</DescriptorName>'
    heading = f"<MeshHeading>{named}</MeshHeading>"
    cited = "<Reference><Citation>A made journal. 2001;1:1-2</Citation></Reference>"
    yield "<PubmedArticleSet>\n"
    for d in documents:
        yield (
            f"<PubmedArticle><MedlineCitation><PMID>{d.id}</PMID><Article><ArticleTitle>A title."
            f"</ArticleTitle><Abstract><AbstractText>{escape(d.text)}</AbstractText></Abstract>"
            f"<AuthorList>{author * 6}</AuthorList></Article>{heading * 10}</MedlineCitation>"
            f"<PubmedData>{cited * 20}</PubmedData></PubmedArticle>\n"
        )
    yield "</PubmedArticleSet>\n"


def few_shot(results: Path) -> int:
    found = [result.seconds for result in read_results(results)]
    note("a sample of the few-shot table", f"as in {results.name}", sum(found) / len(found), "s")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("engines", "rates"):
        command = commands.add_parser(name)
        command.add_argument("model", type=Path)
        command.add_argument("corpora", type=Path)
        command.add_argument("--sentences", type=int, default=SENTENCES)
        if name == "rates":
            command.add_argument("--device", default="cpu")
    commands.add_parser("few-shot").add_argument("results", type=Path)
    given = parser.parse_args()
    if given.command == "engines":
        return engines(given.model, given.corpora, given.sentences)
    if given.command == "rates":
        return rates(given.model, given.corpora, given.sentences, given.device)
    return few_shot(given.results)


if __name__ == "__main__":
    sys.exit(main())
