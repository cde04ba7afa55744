"""Score a system under a protocol, one cell (a corpus and a sample size) after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hardner.corpora import Corpora
from hardner.errors import HardnerError
from hardner.evaluate.errors import write_predictions
from hardner.evaluate.protocols import Protocol, SampleBook, Size, draw_sample, sample_pool
from hardner.evaluate.results import (
    Result,
    ResultFile,
    code_commit,
    record_config,
    software_versions,
)
from hardner.evaluate.runners import Drawn, ScoredSamples, runner_for
from hardner.evaluate.score import ErrorCounts
from hardner.evaluate.system import System
from hardner.types import Corpus


@dataclass(frozen=True)
class EvaluationFolders:
    """Where corpora lie and results go."""

    root: Path
    """The folder that holds the corpora's folders."""
    out: Path
    predictions: bool = False
    """Whether predicted mentions are kept beside the results."""
    catalogue: str | Path = ""
    """A file of the user's own corpora, beside the built-in catalogue."""


@dataclass(frozen=True)
class CellDone:
    """Samples of a cell whose results are on the disk."""

    corpus: str
    size: Size
    samples: tuple[int, ...]
    f1: float | None
    """Their mean; None where the results had been there before."""


def execute(protocol: Protocol, system: System, folders: EvaluationFolders) -> Iterator[CellDone]:
    """Score what has no result yet; yields whenever results have reached the disk."""
    evaluation = _Evaluation(protocol, system, folders)
    joint = protocol.together and system.train == "sources and target"
    corpora = Corpora.under(folders.root, folders.catalogue)
    for names in [protocol.targets] if joint else [(name,) for name in protocol.targets]:
        targets = [corpora.load(name) for name in names]
        for corpus in targets:
            if not corpus.test:
                raise HardnerError(f"{corpus.name} has no test sentences")
        yield from evaluation.score(targets)


class _Evaluation:
    def __init__(self, protocol: Protocol, system: System, folders: EvaluationFolders) -> None:
        self.protocol, self.system, self.folders = protocol, system, folders
        self.file = ResultFile(folders.out / f"{protocol.name}.jsonl")
        self.book = SampleBook(folders.out / "samples.json")
        self.config = record_config(folders.out, system.config)

    def score(self, targets: Sequence[Corpus]) -> Iterator[CellDone]:
        """All sizes of a target, or of several that one model is trained for."""
        protocol, runner = self.protocol, None
        pools = {corpus.name: sample_pool(corpus, protocol.splits) for corpus in targets}
        for size in protocol.sizes:
            drawn: Drawn = {
                sample: {
                    name: draw_sample(name, pool, size, sample, protocol.natural)
                    for name, pool in pools.items()
                }
                for sample in range(protocol.samples)
            }
            for corpus in targets:
                if isinstance(size, int):  # shares would fill the book with most of a corpus
                    pool = pools[corpus.name]
                    ids = {s: [pool[i].id for i in rows[corpus.name]] for s, rows in drawn.items()}
                    self.book.add(corpus.name, size, ids, protocol.natural)
                if there := [s for s in drawn if self._is_scored(corpus, size, s, drawn)]:
                    yield CellDone(corpus.name, size, tuple(there), None)
            missing = {
                sample: rows
                for sample, rows in drawn.items()
                if not all(self._is_scored(corpus, size, sample, drawn) for corpus in targets)
            }
            if missing and runner is None:  # made late: it may train a model
                wanted, unlabelled = self.folders.predictions, protocol.unlabelled
                runner = runner_for(self.system, targets, pools, wanted, unlabelled)
            for scored in runner.scores(size, missing) if runner and missing else ():
                yield self._keep(scored, size, drawn)

    def _is_scored(self, corpus: Corpus, size: Size, sample: int, drawn: Drawn) -> bool:
        return self.file.holds(self._result(corpus, size, sample, drawn, {}, 0.0).key)

    def _keep(self, scored: ScoredSamples, size: Size, drawn: Drawn) -> CellDone:
        results = [
            self._result(scored.corpus, size, sample, drawn, score, scored.seconds)
            for sample, score in zip(scored.samples, scored.scores, strict=True)
        ]
        if scored.predictions:
            write_predictions(
                self.folders.out / "predictions", results, scored.corpus.test, scored.predictions
            )
        self.file.append(results)
        mean = sum(result.score.f1 for result in results) / len(results)
        return CellDone(scored.corpus.name, size, scored.samples, mean)

    def _result(
        self,
        corpus: Corpus,
        size: Size,
        sample: int,
        drawn: Drawn,
        labels: dict[str, ErrorCounts],
        seconds: float,
    ) -> Result:
        whole = sum(labels.values(), ErrorCounts())
        several = {label: part.score for label, part in labels.items()} if len(labels) > 1 else {}
        score = whole.score
        return Result(
            protocol=self.protocol.name,
            method=self.system.method,
            encoder=self.system.encoder,
            preset=self.system.preset,
            target_domain=corpus.domain,
            corpus=corpus.name,
            shots=len(drawn[sample][corpus.name]),
            share=None if isinstance(size, int) else size,
            sample=sample,
            natural=self.protocol.natural or not isinstance(size, int),
            tp=score.tp,
            fp=score.fp,
            fn=score.fn,
            kinds={kind: count for kind, count in asdict(whole).items() if kind != "tp"},
            labels={label: [s.tp, s.fp, s.fn] for label, s in several.items()},
            unlabelled=self.protocol.unlabelled,
            seed=self.system.seed,
            config=self.config,
            versions=software_versions(),
            commit=code_commit(),
            seconds=round(seconds, 3),
        )
