"""Score a system under a protocol, one cell (a corpus and a sample size) after the other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from statistics import fmean

from hardner.corpora import Corpora
from hardner.errors import HardnerError
from hardner.evaluate.errors import write_predictions
from hardner.evaluate.protocols import Protocol, SampleBook, Size, as_tested, draw_sample
from hardner.evaluate.results import (
    Result,
    ResultFile,
    code_commit,
    record_config,
    software_versions,
)
from hardner.evaluate.runners import Drawn, Runner, ScoredSamples, runner_for
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
    corpora = Corpora.under(folders.root, folders.catalogue)
    evaluation = _Evaluation(protocol, system, folders, corpora)
    joint = protocol.together and system.train == "sources and target"
    for names in [protocol.targets] if joint else [(name,) for name in protocol.targets]:
        targets = [as_tested(protocol, corpora.load(name)) for name in names]
        for corpus in targets:
            if not corpus.test:
                raise HardnerError(f"{corpus.name} has no test sentences")
        yield from evaluation.score(targets)


class _Evaluation:
    def __init__(
        self, protocol: Protocol, system: System, folders: EvaluationFolders, corpora: Corpora
    ) -> None:
        self.protocol, self.system, self.folders = protocol, system, folders
        self.corpora = corpora
        self.file = ResultFile(folders.out / f"{protocol.name}.jsonl")
        self.book = SampleBook(folders.out / "samples.json")
        self.config = record_config(folders.out, system.config)

    def score(self, targets: Sequence[Corpus]) -> Iterator[CellDone]:
        """All sizes of a target, or of several that one model is trained for."""
        protocol, splits = self.protocol, self.protocol.splits
        runner: Runner | None = None
        pools = {c.name: [s for split in splits for s in getattr(c, split)] for c in targets}
        for size in protocol.sizes:
            drawn: Drawn = {
                sample: {
                    name: draw_sample(name, pool, size, sample, protocol.natural)
                    for name, pool in pools.items()
                }
                for sample in range(protocol.samples if size else 1)  # nothing is drawn
            }
            unscored: dict[str, dict[int, Result]] = {}
            missing = set()
            for corpus in targets:
                name, pool = corpus.name, pools[corpus.name]
                rows = {sample: found[name] for sample, found in drawn.items()}
                if isinstance(size, int):  # shares would fill the book with most of a corpus
                    ids = {sample: [pool[i].id for i in found] for sample, found in rows.items()}
                    self.book.add(name, size, ids, protocol.natural)
                own = {s: self._unscored(corpus, size, s, len(r)) for s, r in rows.items()}
                if there := tuple(s for s in own if self.file.holds(own[s])):
                    yield CellDone(name, size, there, None)
                missing |= own.keys() - there
                unscored[name] = own
            if not missing:
                continue
            if runner is None:  # made late: it may train a model
                kept, unlabelled = self.folders.predictions, protocol.unlabelled
                meant = self.corpora.descriptions_of(targets[0].name)
                runner = runner_for(
                    self.system, targets, pools, kept, unlabelled, protocol.forecast, meant
                )
            for scored in runner(size, {s: drawn[s] for s in sorted(missing)}):
                yield self._keep(scored, size, unscored[scored.corpus.name])

    def _unscored(self, corpus: Corpus, size: Size, sample: int, shots: int) -> Result:
        shared = isinstance(size, float)
        return Result(
            protocol=self.protocol.name,
            method=self.system.method,
            encoder=self.system.encoder,
            preset=self.system.preset,
            target_domain=corpus.domain,
            corpus=corpus.name,
            shots=shots,
            share=size if shared else None,
            sample=sample,
            natural=self.protocol.natural or shared,
            tp=0,
            fp=0,
            fn=0,
            kinds={},
            labels={},
            unlabelled=self.protocol.unlabelled,
            seed=self.system.seed,
            config=self.config,
            versions=software_versions(),
            commit=code_commit(),
            seconds=0.0,
        )

    def _keep(self, scored: ScoredSamples, size: Size, unscored: Mapping[int, Result]) -> CellDone:
        results = []
        for place, (sample, labels) in enumerate(zip(scored.samples, scored.scores, strict=True)):
            whole = sum(labels.values(), ErrorCounts())
            several = labels if len(labels) > 1 else {}
            result = replace(
                unscored[sample],
                **asdict(whole.score),
                kinds={kind: count for kind, count in asdict(whole).items() if kind != "tp"},
                labels={label: astuple(part.score) for label, part in several.items()},
                seconds=round(scored.seconds, 3),
                vectors_hash=self.system.vectors_hash,
                encoder_hash=self.system.encoder_hash,
                bearing=scored.bearing[place] if scored.bearing else (),
                expected=scored.expected[place] if scored.expected else (),
                expected_on_text=scored.expected_on_text[place] if scored.expected_on_text else (),
                tested=len(scored.corpus.test),
            )
            results.append(result)
        if scored.predictions:
            folder = self.folders.out / "predictions"
            write_predictions(folder, results, scored.corpus.test, scored.predictions)
        self.file.append(results)
        mean = fmean(result.score.f1 for result in results)
        return CellDone(scored.corpus.name, size, scored.samples, mean)
