"""What an experiment learns from: the sentences of its source domains, never the target's."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path

from hardner.batch import Store
from hardner.catalogue import BENCHMARK, SPLITS, JoinedEntry
from hardner.corpora import Corpora, folder_row, joined
from hardner.episodes import Sources
from hardner.errors import HardnerError
from hardner.files import file_errors
from hardner.meta.experiment import Experiment
from hardner.model.label_encoder import LabelTexts, label_sentence
from hardner.model.tagger import Tagger
from hardner.schemes import TagSet
from hardner.types import Corpus, Sentence, Span

MIN_MENTIONS = 100
"""Types of a corpus with fewer mentions have no decoder of their own."""
_SPLITS = ("train", "devel")
"""Nothing here reads a test file."""


@dataclass(frozen=True)
class SourceData:
    """Sentences by what has a decoder of its own (`DecoderSection.per`)."""

    train: Sources
    devel: Sources | None  # None where no source has devel sentences
    corpus: Mapping[str, str] = field(default_factory=dict)
    """By name, the corpus whose sentences it labels, where others may label the same ones."""
    descriptions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By name and label, what the catalogue says of it."""

    @property
    def names(self) -> list[str]:
        return self.train.names

    def shares(self, given: tuple[str, ...]) -> tuple[float, ...]:
        """The loss weight of each name, from entries such as ``BC2GM=0.5``; none: all equal."""
        counts = dict.fromkeys(self.names, 1.0)
        for entry in given:
            name, _, number = entry.partition("=")
            if name not in counts:
                raise HardnerError(f"data.shares: no {name!r}; there are {', '.join(counts)}")
            try:
                counts[name] = float(number)
            except ValueError:
                raise HardnerError(f"data.shares: expected {name}=NUMBER, got {entry!r}") from None
        return tuple(counts.values()) if given else ()

    def _splits(self) -> Iterator[tuple[str, Sequence[Sentence]]]:
        """The sentences of train and then of devel, with their names."""
        for sources in filter(None, (self.train, self.devel)):
            yield from sources.sentences.items()

    def sentences(self) -> Iterator[Sentence]:
        return chain.from_iterable(found for _, found in self._splits())

    def tag_sets(self, scheme: str) -> tuple[TagSet, ...]:
        """The labels of each decoder: those in its train or devel sentences."""
        labels: dict[str, set[str]] = {name: set() for name in self.names}
        for name, found in self._splits():
            labels[name].update(span.label for s in found for span in s.spans)
        return tuple(TagSet(name, tuple(sorted(labels[name])), scheme) for name in self.names)

    def store(self, tagger: Tagger, sources: Sources, device: str) -> Store:
        """The sentences of train or devel, encoded, in the order of the rows that are drawn."""
        place = {name: i for i, name in enumerate(self.names)}
        found = [(s, place[name]) for name in sources.names for s in sources.sentences[name]]
        return tagger.store([s for s, _ in found], [i for _, i in found], device)

    def label_texts(self, tagger: Tagger, device: str) -> LabelTexts:
        """The names of all decoders' labels, and what the catalogue says of them."""
        bare, described = [], []
        for tag_set in tagger.tag_sets:
            about = self.descriptions.get(tag_set.domain, {})
            bare += [label_sentence(label) for label in tag_set.labels]
            described += [label_sentence(label, about.get(label, "")) for label in tag_set.labels]
        same = {name: self.corpus.get(name, name) for name in tagger.domains}
        store = tagger.store([*bare, *described], device=device)
        return LabelTexts.of(store, tagger.tag_sets, same)

    def fingerprint(self) -> str:
        """A hash of all sentences; it depends neither on folders nor on the order of reading."""
        digest = blake2b(digest_size=16)
        for name, found in self._splits():
            digest.update(f"{name} {len(found)}\n".encode())
            for s in found:
                digest.update(f"{' '.join(s.tokens)} {[*map(tuple, s.spans)]}\n".encode())
        return digest.hexdigest()


def load_source_data(experiment: Experiment) -> SourceData:
    """Read the source corpora of an experiment, without those of the target's domain."""
    train: dict[str, list[Sentence]] = {}
    devel: dict[str, list[Sentence]] = {}
    apart = experiment.decoder.per == "type"
    of: dict[str, str] = {}
    described: dict[str, dict[str, str]] = {}
    about = corpora_of(experiment)
    for corpus in _corpora(experiment):
        for name, part in _by_decoder(corpus, experiment.decoder.per):
            of |= {name: corpus.name} if apart else {}
            own = {span.label for s in (*part.train, *part.devel) for span in s.spans}
            told = about.descriptions_of(corpus.name)
            described.setdefault(name, {}).update({n: told[n] for n in own & told.keys()})
            # The first devel sentences join train; the last are left for scoring and calibration.
            cut = int(experiment.data.joined * len(part.devel))
            train.setdefault(name, []).extend((*part.train, *part.devel[:cut]))
            devel.setdefault(name, []).extend(part.devel[cut:])
    for name in [name for name, sentences in train.items() if not sentences]:
        raise HardnerError(f"{name} has no sentence to learn from in {experiment.data.root}")
    scored = Sources.of(devel) if any(devel.values()) else None
    return SourceData(Sources.of(train), scored, of, described)


def _by_decoder(corpus: Corpus, per: str) -> Iterator[tuple[str, Corpus]]:
    """The parts of a corpus that have a decoder of their own, with its name."""
    if per == "type":
        counts = Counter(span.label for s in corpus.train for span in s.spans)
        for label in sorted(label for label, count in counts.items() if count >= MIN_MENTIONS):
            yield f"{corpus.name}/{label}", with_labels(corpus, {label})
    else:
        yield {"domain": corpus.domain, "corpus": corpus.name, "all": "all"}[per], corpus


def with_labels(corpus: Corpus, labels: Collection[str]) -> Corpus:
    """The corpus with the mentions of some labels alone."""

    def kept(sentence: Sentence) -> Sentence:
        spans = tuple(span for span in sentence.spans if span.label in labels)
        return sentence if spans == sentence.spans else replace(sentence, spans=spans)

    train, devel, test = (tuple(map(kept, getattr(corpus, split))) for split in SPLITS)
    return replace(corpus, train=train, devel=devel, test=test)


def relabelled(sentence: Sentence, label: str) -> Sentence:
    """The sentence with one label for all its mentions."""
    return replace(sentence, spans=tuple(Span(s, e, label) for s, e, _ in sentence.spans))


def corpora_of(experiment: Experiment) -> Corpora:
    """What lies under the folder of an experiment's corpora."""
    return Corpora.under(experiment.data.root, experiment.data.catalogue)


def _corpora(experiment: Experiment) -> Iterator[Corpus]:
    """The source corpora, sorted by name, so that draws do not depend on the order on the disk.

    A corpus of the target's domain is not even opened; one of several domains comes without the
    mentions of the target's.
    """
    data, target = experiment.data, experiment.target.casefold()
    root, folders = Path(data.root), data.layout == "folders"
    found = Corpora(root, {}) if folders else corpora_of(experiment)
    domains = {
        d.casefold(): d for e in found.entries.values() for d in (e.domain, *e.domains.values())
    }
    if target and not folders and target not in domains:
        known = ", ".join(sorted(domains.values()))
        raise HardnerError(f"target: no domain is {experiment.target!r}; there are {known}")
    with file_errors(root):
        every = [path.name for path in root.iterdir() if path.is_dir()] if folders else BENCHMARK
    names = sorted(set(data.corpora or every))

    def is_source(name: str) -> bool:
        row = found.rows.get(name)
        if isinstance(row, JoinedEntry):
            return any(map(is_source, row.joins))
        return found.domain_of(name).casefold() != target

    def read(name: str) -> Corpus:
        row = found.rows.get(name)
        if isinstance(row, JoinedEntry):
            return joined(name, [read(part) for part in row.joins if is_source(part)])
        row = folder_row(root / name, _SPLITS) if folders else found.entry(name)
        corpus = found.load(name, splits=_SPLITS)
        # Labels of a corpus may be of other domains than the corpus, the target's among them.
        labels = {span.label for s in (*corpus.train, *corpus.devel) for span in s.spans}
        wanted = {label for label in labels if row.domain_of(label).casefold() != target}
        wanted &= set(data.labels or labels)
        return corpus if wanted == labels else with_labels(corpus, wanted)

    kept = [name for name in names if is_source(name)]
    if not kept:
        raise HardnerError(f"no source corpus is left: {', '.join(names)} are of the target")
    return map(read, kept)
