"""What is scored: a model or a way to train one, and how it is fitted to a target."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hardner.adapt.recipe import RECIPES, Recipe, encoder_kind, recipe_for
from hardner.catalogue import BENCHMARK
from hardner.errors import FileError, HardnerError
from hardner.evaluate.protocols import Protocol, Size, TrainOn
from hardner.jobs.run_folder import MODEL_FOLDER
from hardner.meta.experiment import Experiment, read_experiment
from hardner.meta.methods import BASELINES
from hardner.meta.run import EXPERIMENT_FILE
from hardner.meta.source_data import corpora_of
from hardner.model.describe import load_model
from hardner.model.encoders import WordEncoder, vocabulary_of
from hardner.model.layers import part_of
from hardner.model.tagger import Model
from hardner.types import Corpus, Sentence
from hardner.vectors import load_vectors


class SampleDraw(NamedTuple):
    """Which draw of a target it is."""

    size: Size
    number: int


StartModel = Callable[
    [Sequence[Corpus], Mapping[str, Sequence[Sentence]], SampleDraw | None], Model
]
"""(targets, what is drawn of each if it is trained on, which draw that is) -> a model."""


@dataclass(frozen=True)
class System:
    """A row of a table."""

    method: str
    """As tables name it."""
    encoder: str
    preset: str
    adaptation: Recipe
    train: TrainOn
    adapt: bool
    seed: int
    config: Mapping[str, Any]
    start: StartModel
    device: str = "cpu"
    target: str = ""
    """The only domain that it may be tested on; empty for any."""
    seen: frozenset[str] = frozenset()
    """Corpora that it was trained on."""
    vectors: str = ""
    """A file that knows words which the model has not seen."""
    cache: Path | None = None
    """A folder that keeps what was read of that file."""
    root: str = ""
    """Where the corpora lay that it was trained on."""
    catalogue: str = ""
    """A user's own catalogue of them."""


def system_of_folder(
    path: str | Path,
    protocol: Protocol,
    name: str = "",
    preset: str = "",
    vectors: str = "",
    device: str = "cpu",
) -> System:
    """A trained model: the folder of a run, or of a model alone.

    Args:
        path: The folder.
        protocol: What it will be put through.
        name: Of its row, which may be one of `BASELINES`; by default from the run's method.
        preset: Of the adaptation; by default the run's own.
        vectors: A file of word vectors; by default the run's own.
        device: Where to compute.
    """
    folder = Path(path)
    ran = (folder / EXPERIMENT_FILE).is_file()
    if ran and not (folder / MODEL_FOLDER).is_dir():
        raise FileError(folder, "the run has no model yet; train it further")
    experiment = read_experiment(folder / EXPERIMENT_FILE) if ran else None
    model = Model(*load_model(folder / MODEL_FOLDER if ran else folder))
    model = Model(model.tagger, {n: p.to(device) for n, p in model.params.items()})
    named = name or ("" if experiment else folder.name)
    made = make_system(experiment, encoder_kind(model.tagger), protocol, named, preset, device)
    return replace(
        made,
        start=lambda targets, drawn, sample: model,
        vectors=vectors or made.vectors,
        cache=folder.parent / "vectors",
        target=experiment.target if experiment else "",
        seen=_trained_on(experiment) if experiment else frozenset(),
    )


def _trained_on(experiment: Experiment) -> frozenset[str]:
    data = experiment.data
    if data.layout == "folders":
        return frozenset(data.corpora) - {experiment.target}
    names = data.corpora or BENCHMARK
    known = corpora_of(experiment)
    return frozenset(n for n in names if known.domain_of(n) != experiment.target)


def make_system(
    experiment: Experiment | None,
    kind: str,
    protocol: Protocol,
    name: str,
    preset: str,
    device: str,
) -> System:
    """A row without a start, with all that an experiment, if there is one, says about it."""
    plan = BASELINES.get(name)
    train: TrainOn = plan.train if plan else protocol.train
    adapt = plan.adapt if plan else protocol.adapt
    trained = experiment.preset if experiment else ""
    chosen = preset or (trained if trained in RECIPES else "paper")
    rule = recipe_for(chosen, kind)
    if experiment and experiment.method == "wpz":
        rule = replace(rule, prototypes=True)
    fitted = asdict(rule) | {"parts": sorted(rule.parts)} if adapt else None
    if fitted and not protocol.unlabelled:
        del fitted["self_training"]
    if fitted and not fitted["average_folds"]:  # recorded since it exists
        del fitted["average_folds"]
    for later in (
        "o_bias_size",
        "o_bias_density",
        "replacements",
    ):  # rules were recorded before there were any
        if fitted and not fitted[later]:
            del fitted[later]
    config = {"experiment": _table(experiment, protocol), "train": train, "adaptation": fitted}
    return System(
        method=name or (method_name(experiment, adapt) if experiment else ""),
        encoder=kind,
        preset=chosen if trained in (chosen, "") else f"{trained}, adapted by {chosen}",
        adaptation=rule,
        train=train,
        adapt=adapt,
        seed=experiment.seed if experiment else 0,
        config=config,
        start=_nothing,
        device=device,
        vectors=experiment.encoder.vectors if experiment else "",
        root=experiment.data.root if experiment else "",
        catalogue=experiment.data.catalogue if experiment else "",
    )


def _table(experiment: Experiment | None, protocol: Protocol) -> dict[str, Any]:
    """An experiment without where it ran, and the same whichever target it left out."""
    if experiment is None:
        return {}
    table = experiment.table()
    known = corpora_of(experiment)
    left = {name for name in protocol.sources if known.domain_of(name) != experiment.target}
    if set(experiment.data.corpora) == left:
        table["data"]["corpora"] = []
    del table["device"], table["target"], table["data"]["root"], table["data"]["catalogue"]
    if not experiment.encoder.skip:  # older than its key
        del table["encoder"]["skip"]
    return table


def method_name(experiment: Experiment, adapt: bool) -> str:
    """The name that the papers' tables give to what an experiment does; its own if they do not."""
    merged = experiment.decoder.per == "all"
    for name, plan in BASELINES.items():
        same = (plan.method, plan.merged, plan.adapt) == (experiment.method, merged, adapt)
        if same and plan.train == "sources":
            return name
    return "MultiTask" if experiment.method == "multitask" else experiment.method


def with_word_vectors(
    model: Model, path: str, sentences: Collection[Sentence], cache: Path | None = None
) -> Model:
    """The model with vectors for words of the sentences that it does not know as written.

    Args:
        model: If it is not made of words, it stays as it is.
        path: The file of vectors; empty for none.
        sentences: What it will be given.
        cache: A folder that keeps what was read of the file.
    """
    encoder = model.tagger.encoder
    if not path or not isinstance(encoder, WordEncoder):
        return model
    unknown = set(vocabulary_of(sentences)).difference(encoder.vocabulary)
    vectors = load_vectors(path, unknown, cache=cache)
    if vectors.words and vectors.dimension != encoder.dimension:
        held = f"its vectors have {vectors.dimension} numbers, the model's {encoder.dimension}"
        raise FileError(path, held)
    larger = replace(encoder, vocabulary=encoder.vocabulary + vectors.words)
    table = model.params[encoder.words]
    rows = torch.cat((table, vectors.matrix.to(table).unsqueeze(0)), dim=1)  # [1, words + 1, D]
    return Model(replace(model.tagger, encoder=larger), model.params | {encoder.words: rows})


def for_corpus(model: Model, corpus: Corpus) -> tuple[Model, int]:
    """The model, and which of its decoders is for a corpus: its own, or its domain's.

    Where there is neither but all decoders are for the same labels, it is the mean of them.
    """
    tagger, params = model
    for name in (corpus.name, corpus.domain):
        if name in tagger.domains:
            return model, tagger.domains.index(name)
    first = tagger.tag_sets[0]
    if any(other.tags != first.tags for other in tagger.tag_sets):
        known = ", ".join(tagger.domains)
        raise HardnerError(f"the model has no decoder for {corpus.name}, only for {known}")
    mean = {
        name: value.mean(1, keepdim=True) if part_of(name) == "decoder" else value
        for name, value in params.items()
    }  # decoders [1, D, ...] -> [1, 1, ...]
    return Model(tagger.with_domains([first]), mean), 0


def _nothing(
    targets: Sequence[Corpus], drawn: Mapping[str, Sequence[Sentence]], sample: SampleDraw | None
) -> Model:
    raise HardnerError("there is no model to start from")
