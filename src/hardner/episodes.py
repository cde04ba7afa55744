"""Seeded draws of tasks: each is a pure function of its coordinates.

The same seed, iteration and place give the same sentences on every machine, in any order of
asking, and whatever the order in which the domains were read.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, count
from math import isqrt

from hardner.errors import HardnerError
from hardner.types import Episode, Sentence, Task

Coordinate = int | str
_WORD = 1 << 64
_ROUNDS = 6


def random_numbers(*coordinates: Coordinate) -> Iterator[int]:
    """Endless uniform numbers below 2**64 that only the coordinates decide."""
    place = json.dumps(coordinates).encode()
    for block in count():
        digest = blake2b(place, salt=block.to_bytes(8, "little")).digest()
        for at in range(0, 64, 8):
            yield int.from_bytes(digest[at : at + 8], "little")


def distinct(size: int, wanted: int, source: Iterator[int]) -> list[int]:
    """Distinct numbers below ``size`` in random order: a shuffle that stops when it has enough."""
    # Fisher-Yates from the end; of the array it would shuffle, only what has moved is kept.
    moved: dict[int, int] = {}
    drawn = []
    for left in range(size, size - wanted, -1):
        place = _below(left, source)
        drawn.append(moved.get(place, place))
        moved[place] = moved.get(left - 1, left - 1)
    return drawn


def _below(limit: int, source: Iterator[int]) -> int:
    whole = _WORD - _WORD % limit  # above it some remainders would come up more often
    return next(number for number in source if number < whole) % limit


def shuffled(place: int, size: int, key: Sequence[int]) -> int:
    """What stands at a place of the numbers below ``size`` in random order, without the others.

    A Feistel network over a grid just large enough: each round shifts one of row and column by a
    hash of the other, so that it can be undone; places outside the range are sent on.
    """
    rows = isqrt(size - 1) + 1 if size > 1 else 1
    columns = -(-size // rows)
    while True:
        row, column = divmod(place, columns)
        for turn in range(0, _ROUNDS, 2):
            row = (row + _mix(column ^ key[turn])) % rows
            column = (column + _mix(row ^ key[turn + 1])) % columns
        place = row * columns + column
        if place < size:  # cycle walking: still a permutation, as every round can be undone
            return place


def _mix(number: int) -> int:
    """Spreads every bit over the word."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % _WORD
    number = (number ^ number >> 27) * 0x94D049BB133111EB % _WORD
    return number ^ number >> 31


def _key(*coordinates: Coordinate) -> list[int]:
    source = random_numbers(*coordinates)
    return [next(source) for _ in range(_ROUNDS)]


@dataclass(frozen=True, slots=True)
class Sources:
    """The sentences of each domain, by name, and which of them hold an entity."""

    sentences: Mapping[str, Sequence[Sentence]]
    bearing: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, domains: Mapping[str, Sequence[Sentence]]) -> "Sources":
        ordered = {name: domains[name] for name in sorted(domains) if domains[name]}
        if not ordered:
            raise HardnerError("no source domain has a sentence to draw from")
        return cls(ordered, {name: bearing(found) for name, found in ordered.items()})

    @property
    def names(self) -> list[str]:
        return list(self.sentences)

    def read(self, task: Task) -> tuple[Sentence, ...]:
        return tuple(self.sentences[task.domain][row] for row in task.rows)


def bearing(sentences: Sequence[Sentence]) -> list[int]:
    return [index for index, sentence in enumerate(sentences) if sentence.spans]


def paired(
    sources: Sources,
    shots: int,
    seed: int,
    iteration: int,
    tasks: int,
    *,
    entities: bool = False,
    entity_queries: bool = False,
) -> tuple[Episode, ...]:
    """HGDA's episodes: each learns from ``shots`` sentences of a domain, judged on as many others.

    With ``entities``, each sentence to learn from holds one; with ``entity_queries``, each of all.
    """
    which = entities, entity_queries
    return tuple(
        _pair(sources, shots, *which, random_numbers("paired", seed, iteration, index))
        for index in range(tasks)
    )


def _pair(
    sources: Sources, shots: int, entities: bool, entity_queries: bool, source: Iterator[int]
) -> Episode:
    domain = sources.names[_below(len(sources.names), source)]
    sentences, usable = sources.sentences[domain], sources.bearing[domain]
    wanted = 2 * shots if entity_queries else shots if entities else 0
    if len(sentences) < 2 * shots or len(usable) < wanted:
        raise _too_few(domain, len(sentences), len(usable), 2 * shots)
    if entity_queries:
        drawn = [usable[place] for place in distinct(len(usable), 2 * shots, source)]
        support, query = drawn[:shots], drawn[shots:]
    elif entities:  # the query is of any sentences that the support has left
        support = [usable[place] for place in distinct(len(usable), shots, source)]
        taken = set(support)
        spare = (i for i in distinct(len(sentences), 2 * shots, source) if i not in taken)
        query = [next(spare) for _ in range(shots)]
    else:
        drawn = distinct(len(sentences), 2 * shots, source)
        support, query = drawn[:shots], drawn[shots:]
    return Episode((Task(domain, tuple(support)),), Task(domain, tuple(query)))


def across(
    sources: Sources, shots: int, seed: int, iteration: int, tasks: int, *, steps: int = 1
) -> tuple[Episode, ...]:
    """MetaNER's episodes: each learns from other domains than the one it is judged on.

    That one is drawn anew in each iteration, for all of its episodes alike. An episode learns from
    ``steps`` tasks, each of another domain while they last.
    """
    count = len(sources.names)
    if count < 2:
        raise HardnerError("a single domain cannot be held out while others are learnt from")
    split = distinct(count, count, random_numbers("split", seed, iteration))
    outer, *inner = (sources.names[i] for i in split)
    episodes = []
    for index in range(tasks):
        source = random_numbers("across", seed, iteration, index)
        order = distinct(len(inner), len(inner), source)
        supports = tuple(
            _draw(sources, inner[order[step % len(order)]], shots, source) for step in range(steps)
        )
        next(source)  # a choice that published draws made here, among the domains held out
        episodes.append(Episode(supports, _draw(sources, outer, shots, source)))
    return tuple(episodes)


def _draw(sources: Sources, domain: str, shots: int, source: Iterator[int]) -> Task:
    sentences = sources.sentences[domain]
    if len(sentences) < shots:
        raise _too_few(domain, len(sentences), len(sources.bearing[domain]), shots)
    return Task(domain, tuple(distinct(len(sentences), shots, source)))


def mini_batches(
    sources: Sources, size: int, seed: int, iteration: int, tasks: int = 1, *, mixed: bool = True
) -> tuple[Episode, ...]:
    """MT-BioNER's episodes: the next mini-batches of passes over all sentences, no supports.

    Each batch is of one domain; a domain's last may be smaller. Each pass is shuffled anew. The
    batches of all domains are ``mixed`` (algorithm I), or come domain by domain (algorithm II).
    """
    counts = [-(-len(found) // size) for found in sources.sentences.values()]
    ends = list(accumulate(counts))
    episodes = []
    for number in range(iteration * tasks, (iteration + 1) * tasks):
        epoch, place = divmod(number, ends[-1])
        if mixed:
            place = shuffled(place, ends[-1], _key("batches", seed, epoch))
        which = bisect_right(ends, place)
        domain = sources.names[which]
        sentences = sources.sentences[domain]
        key = _key("sentences", seed, epoch, domain)
        first = (place - ends[which] + counts[which]) * size
        drawn = range(first, min(first + size, len(sentences)))
        rows = tuple(shuffled(index, len(sentences), key) for index in drawn)
        episodes.append(Episode((), Task(domain, rows)))
    return tuple(episodes)


def few_shot(
    corpus: str, sentences: Sequence[Sentence], shots: int, sample: int, *, natural: bool = False
) -> tuple[int, ...]:
    """Which training sentences of a target corpus make up one of its samples.

    They hold an entity each, unless the sample is ``natural``.
    """
    usable = range(len(sentences)) if natural else bearing(sentences)
    if len(usable) < shots:
        raise _too_few(corpus, len(sentences), len(bearing(sentences)), shots)
    source = random_numbers("few-shot", corpus, shots, sample, 0, int(natural))
    return tuple(usable[place] for place in distinct(len(usable), shots, source))


def _too_few(domain: str, have: int, with_entity: int, wanted: int) -> HardnerError:
    return HardnerError(
        f"{domain} has {have} sentences, {with_entity} of them with an entity: "
        f"too few for tasks of {wanted}; lower the shots"
    )
