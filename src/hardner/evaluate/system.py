"""Systems: the rows of results tables, each a model or a way to train one, and its recipe."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from hardner.adapt.recipe import RECIPES, Recipe, encoder_kind, recipe_for
from hardner.catalogue import BENCHMARK
from hardner.config import make
from hardner.errors import FileError, HardnerError
from hardner.evaluate.protocols import Protocol, Size, TrainOn
from hardner.files import read_toml, sha256
from hardner.jobs import MODEL_FOLDER
from hardner.meta.experiment import Experiment, HardnessSection, read_experiment
from hardner.meta.methods import BASELINES, InnerSection
from hardner.meta.optim import Optimizer
from hardner.meta.run import EXPERIMENT_FILE
from hardner.meta.source_data import corpora_of
from hardner.model.describe import load_model
from hardner.model.encoders import WordEncoder, vocabulary_of
from hardner.model.layers import part_of
from hardner.model.tagger import Model
from hardner.types import Corpus, Sentence
from hardner.vectors import load_vectors


class SampleDraw(NamedTuple):
    """Size and number of a sample."""

    size: Size
    number: int


LabelText = Literal["", "names", "descriptions"]
StartModel = Callable[
    [Sequence[Corpus], Mapping[str, Sequence[Sentence]], SampleDraw | None], Model
]
"""(target corpora, sampled sentences of each if trained on, which sample) -> a model."""


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
    """The only domain that it may be tested on, having left it out; empty for any."""
    seen: frozenset[str] = frozenset()
    """Corpora that it was trained on."""
    vectors: str = ""
    """A file of word vectors, for words that the model has not seen."""
    weights: str = ""
    """The folder of the model, or of the pre-trained encoder that its training begins with."""
    cache: Path | None = None
    """A folder that caches what was read of the word vectors."""
    root: str = ""
    """The folder of the corpora that it was trained on."""
    catalogue: str = ""
    """The user's own catalogue of corpora."""
    labels: LabelText = ""
    """What new decoders are told of their labels: nothing, names, or descriptions as well."""

    @cached_property
    def vectors_hash(self) -> str:
        reads = self.encoder in ("bilstm", "bigru")
        return sha256(Path(self.vectors))[:16] if self.vectors and reads else ""

    @cached_property
    def encoder_hash(self) -> str:
        found = sorted(Path(self.weights).glob("*.safetensors")) if self.weights else []
        text = "".join(map(sha256, found)).encode()
        return blake2b(text, digest_size=8).hexdigest() if found else ""


def system_of_folder(
    path: str | Path,
    protocol: Protocol,
    name: str = "",
    preset: str = "",
    vectors: str = "",
    device: str = "cpu",
) -> System:
    """A trained model: the folder of a run, or of a model alone.

    The row has the given name, perhaps one of `BASELINES`, else that of the run's method; the
    preset of the adaptation and the file of word vectors are the run's own, unless given.
    """
    folder = Path(path)
    ran = (folder / EXPERIMENT_FILE).is_file()
    weights = folder / MODEL_FOLDER if ran else folder
    if ran and not weights.is_dir():
        raise FileError(folder, "the run has no model yet; train it further")
    experiment = read_experiment(folder / EXPERIMENT_FILE) if ran else None
    model = Model(*load_model(weights))
    model = Model(model.tagger, {n: p.to(device) for n, p in model.params.items()})
    made = make_system(
        experiment,
        encoder_kind(model.tagger),
        protocol,
        name or ("" if experiment else folder.name),
        preset,
        device,
        start=lambda targets, drawn, sample: model,
        weights=str(weights),
        cache=folder.parent / "vectors",
    )
    made = replace(made, vectors=vectors or made.vectors)
    if not experiment:
        return made
    return replace(made, target=experiment.target, seen=_trained_on(experiment))


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
    *,
    start: StartModel,
    weights: str,
    cache: Path,
) -> System:
    """A system as its experiment describes it, if it has one."""
    plan = BASELINES.get(name)
    adapt = plan.adapt if plan else protocol.adapt
    train: TrainOn = plan.train if plan else protocol.train
    trained = experiment.preset if experiment else ""
    known = RECIPES.keys() | _variants().keys()
    chosen = preset or (trained if trained in known else "paper")
    recipe = compared_recipe(chosen, kind)
    if experiment and experiment.method == "wpz":
        recipe = replace(recipe, prototypes=True)
    fitted = asdict(recipe) | {"parts": sorted(recipe.parts)} if adapt else None
    if fitted and not protocol.unlabelled:
        del fitted["self_training"]
    for later in ("o_bias_size", "o_bias_density", "replacements", "average_folds"):
        # Newer than the first results, whose configurations must still hash to the same key.
        if fitted and not fitted[later]:
            del fitted[later]
    if fitted:  # matters only where sentences are labelled in part
        del fitted["partial"]
    return System(
        method=name or (_method_name(experiment, adapt) if experiment else ""),
        encoder=kind,
        preset=chosen if trained in (chosen, "") else f"{trained}, adapted by {chosen}",
        adaptation=recipe,
        train=train,
        adapt=adapt,
        seed=experiment.seed if experiment else 0,
        config={"experiment": _table(experiment, protocol), "train": train, "adaptation": fitted},
        start=start,
        device=device,
        vectors=experiment.encoder.vectors if experiment else "",
        weights=weights,
        cache=cache,
        root=experiment.data.root if experiment else "",
        catalogue=experiment.data.catalogue if experiment else "",
    )


def told_labels(system: System, labels: LabelText, name: str = "") -> System:
    """The system whose new decoders are told what their labels are called, or mean.

    It is another row than the same without, unless a ``name`` was given.
    """
    if not labels:
        return system
    if not system.adapt or system.train not in ("sources", "nothing"):
        raise HardnerError(f"{system.method} makes no new decoder that could be told its label")
    config = {**system.config, "labels": labels}
    method = name or f"{system.method}, {labels}"
    return replace(system, method=method, config=config, labels=labels)


def compared_recipe(name: str, kind: str) -> Recipe:
    """A preset of adaptation, or one of ``recipes.toml``, for a kind of encoder."""
    if name not in _variants():
        try:
            return recipe_for(name, kind)
        except HardnerError as error:
            raise HardnerError(f"{error}; to be compared also {', '.join(_variants())}") from None
    changed = dict(_variants()[name])
    base = recipe_for(changed.pop("extends"), kind)
    if "optimizer" in changed:
        changed["optimizer"] = make(Optimizer, changed["optimizer"])
    if unknown := changed.keys() - asdict(base).keys():
        raise HardnerError(f"recipes.toml, {name}: a recipe has no {min(unknown)}")
    return replace(base, **changed)


@cache
def _variants() -> Mapping[str, Mapping[str, Any]]:
    return read_toml(Path(__file__).with_name("recipes.toml"))


def _table(experiment: Experiment | None, protocol: Protocol) -> dict[str, Any]:
    """The experiment without where it ran, equal for all targets that it may leave out."""
    if experiment is None:
        return {}
    table = experiment.table()
    known = corpora_of(experiment)
    left = {name for name in protocol.sources if known.domain_of(name) != experiment.target}
    if set(experiment.data.corpora) == left:
        table["data"]["corpora"] = []
    del table["device"], table["target"], table["data"]["root"], table["data"]["catalogue"]
    # Newer than the first results, whose configurations must still hash to the same key.
    if not experiment.encoder.skip:
        del table["encoder"]["skip"]
    if experiment.encoder.unknown == "own":
        del table["encoder"]["unknown"]
    if not experiment.train.per_iteration:
        del table["train"]["per_iteration"]
    if experiment.hardness == HardnessSection():
        del table["hardness"]
    if not experiment.labels.weight:
        del table["labels"]
    if "domain" not in experiment.build_method().heads:  # a weight that nothing is weighed by
        table["inner"]["weight"] = InnerSection.weight
    return table


def _method_name(experiment: Experiment, adapt: bool) -> str:
    """The name in the papers' tables of what an experiment does, if it has one there."""
    merged = experiment.decoder.per == "all"
    for name, plan in BASELINES.items():
        same = (plan.method, plan.merged, plan.adapt) == (experiment.method, merged, adapt)
        if same and plan.train == "sources":
            return name
    return "MultiTask" if experiment.method == "multitask" else experiment.method


def with_word_vectors(
    model: Model, path: str, sentences: Collection[Sentence], cache: Path | None = None
) -> Model:
    """The model with vectors for those words of the sentences that are not in its vocabulary.

    It is unchanged without a file of vectors, or where its encoder reads none; what is read of the
    file is kept in the folder ``cache``.
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
    """The model, and the index of its decoder for a corpus: the corpus's own, or its domain's.

    If it has neither but all decoders have the same labels, their mean is taken.
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
