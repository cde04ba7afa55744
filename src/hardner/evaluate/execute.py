"""Put a contender through a protocol: one function for all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hardner.corpora import Corpora
from hardner.errors import HardnerError
from hardner.evaluate.errors import write_predictions
from hardner.evaluate.protocols import Protocol, Size
from hardner.evaluate.results import (
    Result,
    ResultFile,
    code_commit,
    record_config,
    software_versions,
)
from hardner.evaluate.runners import Drawn, Runner, ScoredSamples, runner_for
from hardner.evaluate.samples import SampleBook, draw_sample, sample_pool
from hardner.evaluate.score import ErrorCounts
from hardner.evaluate.system import System
from hardner.types import Corpus, Sentence


@dataclass(frozen=True)
class EvaluationFolders:
    """Where corpora lie and results go."""

    root: Path
    out: Path
    predictions: bool = False
    """Whether to keep what was predicted."""
    catalogue: str | Path = ""
    """A user's own, beside the built-in one."""


@dataclass(frozen=True)
class CellDone:
    """Some samples of a cell that are there now."""

    corpus: str
    size: Size
    samples: tuple[int, ...]
    f1: float | None
    """Their mean; None where they had been there before."""


def execute(protocol: Protocol, system: System, desk: EvaluationFolders) -> Iterator[CellDone]:
    """Score what is not yet scored; yields whenever results have reached the disk."""
    work = _Work(protocol, system, desk)
    joint = protocol.together and system.train == "sources and target"
    corpora = Corpora.under(desk.root, desk.catalogue)
    for names in [protocol.targets] if joint else [(name,) for name in protocol.targets]:
        found = [corpora.load(name) for name in names]
        for corpus in found:
            if not corpus.test:
                raise HardnerError(f"{corpus.name} has no test sentences")
        yield from work.on(found)


class _Work:
    def __init__(self, protocol: Protocol, system: System, desk: EvaluationFolders) -> None:
        self.protocol, self.system, self.desk = protocol, system, desk
        self.file = ResultFile(desk.out / f"{protocol.name}.jsonl")
        self.book = SampleBook(desk.out / "samples.json")
        self.config = record_config(desk.out, system.config)

    def on(self, found: Sequence[Corpus]) -> Iterator[CellDone]:
        """All sizes of a target, or of targets that one model is trained for."""
        pools = {corpus.name: sample_pool(corpus, self.protocol.splits) for corpus in found}
        entered: Runner | None = None
        for size in self.protocol.sizes:
            natural = self.protocol.natural
            drawn: Drawn = {
                sample: {n: draw_sample(n, p, size, sample, natural) for n, p in pools.items()}
                for sample in range(self.protocol.samples)
            }
            for corpus in found:
                if isinstance(size, int):
                    self._write_down(corpus, size, drawn, pools[corpus.name])
                held = [s for s in drawn if self._held(corpus, size, s, drawn)]
                if held:
                    yield CellDone(corpus.name, size, tuple(held), None)
            missing = [s for s in drawn if any(not self._held(c, size, s, drawn) for c in found)]
            if not missing:
                continue
            if entered is None:
                wanted = self.desk.predictions
                more = self.protocol.unlabelled
                entered = runner_for(self.system, found, pools, wanted, more)
            for scored in entered.scores(size, {s: drawn[s] for s in missing}):
                yield self._keep(scored, size, drawn)

    def _write_down(
        self, corpus: Corpus, shots: int, drawn: Drawn, pool: Sequence[Sentence]
    ) -> None:
        ids = {s: [pool[row].id for row in rows[corpus.name]] for s, rows in drawn.items()}
        self.book.add(corpus.name, shots, ids, self.protocol.natural)

    def _held(self, corpus: Corpus, size: Size, sample: int, drawn: Drawn) -> bool:
        return self.file.holds(self._result(corpus, size, sample, drawn, {}, 0.0).key)

    def _keep(self, scored: ScoredSamples, size: Size, drawn: Drawn) -> CellDone:
        results = [
            self._result(scored.corpus, size, sample, drawn, score, scored.seconds)
            for sample, score in zip(scored.samples, scored.scores, strict=True)
        ]
        if scored.predictions:
            write_predictions(
                self.desk.out / "predictions", results, scored.corpus.test, scored.predictions
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
        score, kinds = whole.score, asdict(whole)
        del kinds["tp"]
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
            kinds=kinds,
            labels={label: [s.tp, s.fp, s.fn] for label, s in several.items()},
            unlabelled=self.protocol.unlabelled,
            seed=self.system.seed,
            config=self.config,
            versions=software_versions(),
            commit=code_commit(),
            seconds=round(seconds, 3),
        )
