"""No row of a table mixes two trainings: by what its lines and their configurations say."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from hardner.errors import HardnerError
from hardner.evaluate.results import Result, ResultConfig, read_configs

_Row = TypeVar("_Row", bound=Hashable)
_WHAT_TO_DO = "(see configs.json): put them into different folders, or give one another --name"


@dataclass(frozen=True)
class RowTraining:
    """What of a configuration must be the same in a whole row of a table."""

    everything: str
    """Digest of all of it."""
    but_shots: str
    """Of all but how many sentences a task has: a row may have a model for each number of them."""
    shots: int
    """Sentences of a task."""


def read_trainings(paths: Sequence[str | Path]) -> dict[str, RowTraining]:
    """The trainings behind the configurations of some result files, by key.

    Left out is what differs between the models of a row anyway: the seed; paths of vectors and of
    weights, whose hashes stand in the lines; the corpora and passes of a model trained on its
    target alone; and keys that were not set, or did not exist yet.
    """
    held = {k: v for path in paths for k, v in read_configs(Path(path).parent).items()}
    return {key: _training(config) for key, config in held.items()}


def _training(config: ResultConfig) -> RowTraining:
    table = json.loads(json.dumps(config))
    experiment = table.get("experiment") or {}
    encoder, train = experiment.get("encoder", {}), experiment.get("train", {})
    for section, names in ((experiment, ["seed"]), (encoder, ["folder", "vectors"])):
        for name in names:
            section.pop(name, None)
    if table.get("train") == "target":
        experiment.get("data", {}).pop("corpora", None)
        train.pop("iterations", None)
    everything = _digest(table)
    train.pop("per_iteration", None)
    shots = int(train.pop("shots", 0))
    return RowTraining(everything, _digest(table), shots)


def _digest(table: Any) -> str:
    return blake2b(json.dumps(_set_keys(table), sort_keys=True).encode()).hexdigest()


def _set_keys(value: Any) -> Any:
    """A nested table without the keys whose value is false or empty."""
    if not isinstance(value, dict):
        return value
    found = {key: _set_keys(held) for key, held in value.items()}
    return {key: held for key, held in found.items() if held or held == ""}


def refuse_mixed_files(results: Sequence[tuple[_Row, Result]]) -> frozenset[_Row]:
    """The rows with several configurations; two of one cell are an error.

    So are two word vectors of one row, and two encoders of one target domain, where the lines say
    which these were.
    """
    first: dict[tuple[object, ...], str] = {}
    mixed = set()
    for row, r in results:
        model = row, r.seed, r.target_domain, r.config
        for place, value, what in (
            ((row, r.corpus, r.seed, r.size), r.config, "configurations"),
            ((row, r.seed, "vectors"), r.vectors_hash, "word vectors"),
            ((*model, "encoder"), r.encoder_hash, "encoders"),
        ):
            if value and (other := first.setdefault(place, value)) != value:
                raise HardnerError(
                    f"{r.method} on {r.corpus}, {r.size} has two results with different {what}, "
                    f"{other} and {value} {_WHAT_TO_DO}"
                )
        if first.setdefault((row, r.seed), r.config) != r.config:
            mixed.add(row)
    return frozenset(mixed)


def refuse_mixed_trainings(
    results: Sequence[tuple[_Row, Result]], trainings: Mapping[str, RowTraining]
) -> None:
    """Refuse a row of two trainings.

    A row is of one on all its corpora and sizes, or of one with K shots for each size K.
    """
    rows: dict[_Row, dict[str, Result]] = {}
    a_model_a_size: dict[_Row, bool] = {}
    for row, r in results:
        rows.setdefault(row, {}).setdefault(r.config, r)
        own = trainings[r.config].shots == r.size
        a_model_a_size[row] = own and a_model_a_size.get(row, True)
    for row, found in rows.items():
        part = "but_shots" if a_model_a_size[row] else "everything"
        kinds = {getattr(trainings[key], part): r for key, r in found.items()}
        if len(kinds) > 1:
            one, other, *_ = kinds.values()
            raise HardnerError(
                f"the row {one.method} ({one.encoder}, {one.preset}) mixes two trainings: "
                f"{one.config} on {one.corpus}, {one.size} and {other.config} on {other.corpus}, "
                f"{other.size} {_WHAT_TO_DO}"
            )
