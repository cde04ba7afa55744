"""The types of a model: taken apart, dropped, renamed, put together with those of others.

Heads that stay are found exactly as before: they keep their numbers and those of the encoder that
they read.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import reduce
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

import hardner
from hardner.errors import HardnerError
from hardner.model.describe import describe_tagger, files_of
from hardner.model.tagger import Model, Tagger, described_decoder
from hardner.schemes import TagSet
from hardner.tag.added_heads import Origin, add_heads, heads_by_copy, take_heads, widen
from hardner.tag.predictor import Predictor
from hardner.tag.thresholds import PrecisionRecallCurve
from hardner.types import Sentence

WITHOUT_EXAMPLE = "its name and description, without an example"
"""`Origin.began` of such types."""


class Heads(NamedTuple):
    """A model, and what is known of its heads."""

    model: Model
    temperatures: Sequence[float]
    learnt: Mapping[str, Collection[int]]
    """By domain, as `Predictor.learnt`."""
    origins: Mapping[str, Origin]
    thresholds: Mapping[str, float] = MappingProxyType({})
    """By label."""
    curves: Mapping[str, PrecisionRecallCurve] = MappingProxyType({})
    """By label, as `Predictor.curves`."""

    @classmethod
    def of(cls, predictor: Predictor) -> "Heads":
        """All heads of a predictor."""
        model = Model(predictor.tagger, predictor.params)
        own = predictor
        return cls(model, own.temperatures, own.learnt, own.origins, own.thresholds, own.curves)

    def take(self, heads: Collection[int]) -> "Heads":
        """Some of the heads, by their places."""
        own = [head for head in range(len(self.temperatures)) if head in heads]
        tag_sets = [self.model.tagger.tag_sets[head] for head in own]
        domains = {tag_set.domain for tag_set in tag_sets}
        labels = {label for tag_set in tag_sets for label in tag_set.labels}
        return Heads(
            take_heads(self.model, own),
            [self.temperatures[head] for head in own],
            {name: texts for name, texts in self.learnt.items() if name in domains},
            {name: origin for name, origin in self.origins.items() if name in domains},
            {label: score for label, score in self.thresholds.items() if label in labels},
            {label: curve for label, curve in self.curves.items() if label in labels},
        )

    def beside(self, others: "Heads") -> "Heads":
        """These heads, and those of another model on a copy of the encoder."""
        others = others.renamed(_free_names(self.model.tagger.domains, others.model.tagger.domains))
        return Heads(
            add_heads(self.model, others.model),
            [*self.temperatures, *others.temperatures],
            {**self.learnt, **others.learnt},
            {**self.origins, **others.origins},
            {**self.thresholds, **others.thresholds},
            {**self.curves, **others.curves},
        )

    def renamed(
        self, domains: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> "Heads":
        """The same with other names of domains and labels."""
        names = labels or {}
        tag_sets = tuple(
            replace(
                t,
                domain=domains.get(t.domain, t.domain),
                labels=tuple(names.get(label, label) for label in t.labels),
            )
            for t in self.model.tagger.tag_sets
        )
        return self._replace(
            model=self.model._replace(tagger=replace(self.model.tagger, tag_sets=tag_sets)),
            learnt={domains.get(name, name): texts for name, texts in self.learnt.items()},
            origins={domains.get(name, name): origin for name, origin in self.origins.items()},
            thresholds={names.get(name, name): score for name, score in self.thresholds.items()},
            curves={names.get(name, name): curve for name, curve in self.curves.items()},
        )

    def in_place_of(self, predictor: Predictor) -> Predictor:
        """A predictor with these heads, otherwise like another one."""
        return self.predictor(predictor.device, predictor.start)

    def predictor(self, device: str, start: Path | None) -> Predictor:
        """A predictor with these heads; its arguments are those of `Predictor`."""
        return Predictor(
            *self.model,
            tuple(self.temperatures),
            device,
            start,
            self.learnt,
            origins=self.origins,
            thresholds=self.thresholds,
            curves=self.curves,
        )


def _free_names(taken: Collection[str], names: Collection[str]) -> dict[str, str]:
    """A name for each domain that no other has."""
    used, found = {*taken}, {}
    for name in names:
        free = name
        while free in used:
            free += "+"
        used.add(free)
        found[name] = free
    return found


def add_described(predictor: Predictor, types: Mapping[str, str]) -> Predictor:
    """The predictor with types that are made of their names and descriptions, without an example.

    Their heads read the encoder as it is, the first of its copies, so that they share its pass with
    those that are there; these are found exactly as before.
    """
    for label in types:
        if label in predictor.labels:
            raise HardnerError(f"the model finds {label!r} already; name the new type otherwise")
    own = Heads.of(predictor)
    first, *others = (own.take(heads) for heads in heads_by_copy(predictor.tagger))
    tagger = first.model.tagger
    domains = _free_names(predictor.tagger.domains, list(types))
    sets = [TagSet(domains[name], (name,), tagger.tag_sets[0].scheme) for name in types]
    made = [described_decoder(first.model, tag_set, types) for tag_set in sets]
    began = {
        domains[name]: Origin((name,), began=WITHOUT_EXAMPLE, description=text.strip())
        for name, text in types.items()
    }
    dated = {name: replace(o, date=today(), versions=versions()) for name, o in began.items()}
    found = first._replace(
        model=widen(first.model, sets, made),
        temperatures=[*first.temperatures, *(1.0 for _ in types)],
        origins={**first.origins, **dated},
    )
    return reduce(Heads.beside, others, found).in_place_of(predictor)


def keep_labels(predictor: Predictor, labels: Collection[str]) -> Predictor:
    """The predictor with only the heads that know some labels."""
    predictor.check_labels(labels)
    tag_sets = predictor.tagger.tag_sets
    heads = [i for i, tags in enumerate(tag_sets) if not set(labels).isdisjoint(tags.labels)]
    return Heads.of(predictor).take(heads).in_place_of(predictor)


def drop_labels(predictor: Predictor, labels: Collection[str]) -> Predictor:
    """The predictor without some labels; the others are found exactly as before."""
    predictor.check_labels(labels)
    for tag_set in predictor.tagger.tag_sets:
        gone, others = set(tag_set.labels) & set(labels), set(tag_set.labels) - set(labels)
        if gone and others:
            one, other = min(gone), min(others)
            raise HardnerError(f"{one} is found by one head with {other}; drop both or none")
    rest = [label for label in predictor.labels if label not in labels]
    if not rest:
        raise HardnerError("a model without labels finds nothing; leave one of them")
    return keep_labels(predictor, rest)


def rename_labels(predictor: Predictor, names: Mapping[str, str]) -> Predictor:
    """The predictor with other names for some labels; what is found stays the same."""
    predictor.check_labels(names.keys())
    count = Counter(names.get(label, label) for label in predictor.labels)
    if double := [name for name, times in count.items() if times > 1 or not name.strip()]:
        raise HardnerError(f"two labels would be named {double[0]!r}; choose another name")
    domains = {}
    for tag_set in predictor.tagger.tag_sets:  # the domain of a single type has its name
        if tag_set.labels == (tag_set.domain,):
            domains[tag_set.domain] = names.get(tag_set.domain, tag_set.domain)
    others = [d for d in predictor.tagger.domains if d not in domains]
    clash = set(domains.values()) & set(others) or len(set(domains.values())) < len(domains)
    return Heads.of(predictor).renamed({} if clash else domains, names).in_place_of(predictor)


def forget_sentences(predictor: Predictor) -> Predictor:
    """The predictor without the sentences that it has kept; what is found stays the same."""
    origins = {name: replace(origin, kept=()) for name, origin in predictor.origins.items()}
    return replace(predictor, origins=origins)


def merge_models(predictors: Sequence[Predictor]) -> Predictor:
    """One predictor with the heads of several that begin with the same kind of encoder.

    Each keeps what it has changed of the encoder, so all labels are found exactly as before; the
    price is a pass of the encoder for each.
    """
    first, *others = predictors
    found = Heads.of(first)
    for other in others:
        known = {label for t in found.model.tagger.tag_sets for label in t.labels}
        if both := sorted(known.intersection(other.labels)):
            raise HardnerError(f"both models find {both[0]!r}; drop or rename it in one of them")
        if _reads(other.tagger) != _reads(first.tagger):
            raise HardnerError("the models have different encoders, so they cannot become one")
        own = Heads.of(other)
        for heads in heads_by_copy(other.tagger):
            found = found.beside(own.take(heads))
    return found.in_place_of(first)


def _reads(tagger: Tagger) -> tuple[object, ...]:
    """What models that become one must have in common: their encoder but for its numbers."""
    encoder = describe_tagger(tagger)["encoder"]
    return encoder.get("base", encoder), files_of(tagger), tagger.tag_sets[0].scheme


def origin_of(predictor: Predictor, label: str) -> Origin | None:
    """Where the head for a label comes from, if it was adapted and the folder says so."""
    own = (t.domain for t in predictor.tagger.tag_sets if label in t.labels)
    return next((predictor.origins[name] for name in own if name in predictor.origins), None)


def differences(one: Predictor, other: Predictor) -> dict[str, dict[str, tuple[Any, Any]]]:
    """By label, what differs between two models: pairs of values by name.

    ``type`` is whether each finds the label at all, ``numbers`` whether they are the same.
    """
    found: dict[str, dict[str, tuple[Any, Any]]] = {}
    for label in dict.fromkeys((*one.labels, *other.labels)):
        here, there = (label in model.labels for model in (one, other))
        if not (here and there):
            found[label] = {"type": ("there" if here else None, "there" if there else None)}
            continue
        origins = [origin_of(model, label) for model in (one, other)]
        left, right = (asdict(replace(o, kept=())) if o else {} for o in origins)
        own = {n: (left.get(n), right.get(n)) for n in (left | right)}
        own = {n: pair for n, pair in own.items() if pair[0] != pair[1]}
        first, second = (keep_labels(model, [label]).params for model in (one, other))
        same = first.keys() == second.keys() and all(
            torch.equal(value, second[name]) for name, value in first.items()
        )
        if not same:
            own["numbers"] = ("these", "others")
        if own:
            found[label] = own
    return found


def data_hash(sentences: Iterable[Sentence]) -> str:
    """SHA-256 of labelled sentences; neither their order nor their names matter."""
    lines = sorted(json.dumps([s.tokens, sorted(s.spans)], ensure_ascii=True) for s in sentences)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def versions() -> dict[str, str]:
    """The versions of hardner and torch."""
    return {"hardner": hardner.__version__, "torch": version("torch")}


def today() -> str:
    """The day in UTC, or that of ``SOURCE_DATE_EPOCH``, for folders that are the same anew."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(given), UTC) if given.isdecimal() else datetime.now(UTC)
    return now.date().isoformat()
