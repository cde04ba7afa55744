from collections import Counter
from collections.abc import Sequence
from itertools import islice, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from hardner import episodes
from hardner.episodes import (
    Sources,
    across,
    distinct,
    few_shot,
    mini_batches,
    paired,
    random_numbers,
)
from hardner.errors import HardnerError
from hardner.types import Sentence, Span


def domain(name: str, size: int, every: int = 3) -> list[Sentence]:
    """Sentences of which every third, or so, holds an entity."""
    return [
        Sentence((name,), (Span(0, 1, name),) if index % every == 0 else (), f"{name}{index}")
        for index in range(size)
    ]


SIZES = {"gene": 40, "drug": 31, "disease": 25, "species": 50}
DOMAINS = {name: domain(name, size) for name, size in SIZES.items()}
SOURCES = Sources.of(DOMAINS)
BACKWARDS = Sources.of(dict(reversed(DOMAINS.items())))

DRAWS = {
    "paired": lambda sources, iteration: paired(sources, 5, 7, iteration, 3),
    "entities": lambda sources, iteration: paired(sources, 5, 7, iteration, 3, entities=True),
    "across": lambda sources, iteration: across(sources, 5, 7, iteration, 3, steps=2),
    "mixed": lambda sources, iteration: mini_batches(sources, 8, 7, iteration, 3),
    "in order": lambda sources, iteration: mini_batches(sources, 8, 7, iteration, mixed=False),
}
EVERY_DRAW = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)


def fits(counts: Counter, cells: int) -> bool:
    """Whether counts look uniform: so far off or farther only once in 100,000 times."""
    return len(counts) == cells and chisquare(list(counts.values())).pvalue > 1e-5


@EVERY_DRAW
def test_the_order_of_asking_and_of_domains_does_not_matter(draw):
    forwards = [draw(SOURCES, iteration) for iteration in range(20)]
    assert forwards == [draw(BACKWARDS, i) for i in reversed(range(20))][::-1]
    assert len(set(forwards)) == 20


def test_draws_are_the_same_on_every_machine():
    assert list(islice(random_numbers("a", 1), 9))[::8] == [
        13299969806644848248,
        9318490989722804409,
    ]
    assert distinct(1000, 5, random_numbers("pinned", 3)) == [147, 704, 841, 902, 722]
    assert few_shot("LINNAEUS", DOMAINS["species"], 5, sample=19) == (36, 42, 3, 33, 12)
    (episode,) = mini_batches(SOURCES, 3, 1, 1000)
    ids = [s.id for s in SOURCES.read(episode.query)]
    assert ids == ["drug9", "drug5", "drug19"]


@pytest.mark.parametrize(("entities", "queries"), [(False, False), (True, False), (True, True)])
def test_support_and_query_are_disjoint_and_of_one_domain(entities, queries):
    seen = Counter()
    for iteration in range(200):
        which = {"entities": entities, "entity_queries": queries}
        for episode in paired(SOURCES, 4 if queries else 8, 0, iteration, 4, **which):
            (support,), query = episode.supports, episode.query
            both = (*SOURCES.read(support), *SOURCES.read(query))
            assert len({s.id for s in both}) == len(both) == (8 if queries else 16)
            assert support.domain == query.domain
            assert all(s.tokens == (query.domain,) for s in both)
            assert not entities or all(s.spans for s in SOURCES.read(support))
            assert not queries or all(s.spans for s in both)
            seen[query.domain] += 1
    assert fits(seen, 4)


def test_queries_beside_entity_support_are_uniform_over_the_rest():
    """Every sentence without an entity is a query as often as any other."""
    one = Sources.of({"gene": DOMAINS["gene"]})
    drawn = (paired(one, 5, seed, 0, 1, entities=True)[0] for seed in range(4000))
    counts = Counter(s.id for episode in drawn for s in SOURCES.read(episode.query) if not s.spans)
    assert fits(counts, sum(not s.spans for s in DOMAINS["gene"]))


def test_domains_to_learn_from_and_to_judge_on_are_split_in_each_iteration():
    outer, pairs = Counter(), Counter()
    for iteration in range(2000):
        drawn = across(SOURCES, 2, 0, iteration, 2, steps=3)
        queries = {episode.query.domain for episode in drawn}
        assert len(queries) == 1
        for episode in drawn:
            inner = [task.domain for task in episode.supports]
            assert len(set(inner)) == 3
            assert queries.isdisjoint(inner)
        outer[episode.query.domain] += 1
        pairs[episode.query.domain, inner[0]] += 1
    assert fits(outer, 4)
    assert fits(pairs, 12)
    assert len(across(SOURCES, 2, 0, 0, 1, steps=7)[0].supports) == 7


@pytest.mark.parametrize("mixed", [True, False])
def test_a_pass_of_mini_batches_holds_every_sentence_once(mixed):
    size = 8
    batches = sum(-(-found // size) for found in SIZES.values())
    passes = []
    for epoch in range(3):
        drawn = [
            mini_batches(SOURCES, size, 0, epoch * batches + i, mixed=mixed)[0]
            for i in range(batches)
        ]
        assert all(
            not e.supports and len({s.tokens for s in SOURCES.read(e.query)}) == 1 for e in drawn
        )
        ids = [s.id for e in drawn for s in SOURCES.read(e.query)]
        assert sorted(ids) == sorted(s.id for found in DOMAINS.values() for s in found)
        passes.append(ids)
        names = [e.query.domain for e in drawn]
        assert (names == sorted(names)) is not mixed
    assert passes[0] != passes[1] != passes[2]
    one_by_one = [mini_batches(SOURCES, size, 0, i, 1, mixed=mixed)[0] for i in range(12)]
    assert one_by_one == [
        e for i in range(4) for e in mini_batches(SOURCES, size, 0, i, 3, mixed=mixed)
    ]


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 300), st.integers(0, 2**64))
def test_a_keyed_shuffle_is_a_permutation(size, seed):
    key = list(islice(random_numbers(seed), 6))
    assert sorted(episodes.shuffled(place, size, key) for place in range(size)) == [*range(size)]


@pytest.mark.parametrize("size", [2, 3, 5, 12, 100])
def test_a_keyed_shuffle_sends_every_place_everywhere(size):
    keys = [list(islice(random_numbers("key", n), 6)) for n in range(3000)]
    places = (0, size // 2, size - 1)
    for place in places:
        assert fits(Counter(episodes.shuffled(place, size, key) for key in keys), size)
    if size == 12:
        pairs = Counter(
            (episodes.shuffled(0, size, key), episodes.shuffled(1, size, key)) for key in keys
        )
        assert fits(pairs, size * (size - 1))


def test_distinct_draws_every_order_alike():
    counts = Counter(tuple(distinct(5, 3, random_numbers("order", n))) for n in range(6000))
    assert set(counts) == set(permutations(range(5), 3))
    assert fits(counts, 60)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 100), st.data())
def test_distinct_numbers_are_distinct(size, data):
    wanted = data.draw(st.integers(0, size))
    drawn = distinct(size, wanted, random_numbers("n", size))
    assert len(set(drawn)) == len(drawn) == wanted
    assert set(drawn) <= set(range(size))


@pytest.mark.parametrize("natural", [False, True])
def test_few_shot_samples(natural):
    found = DOMAINS["species"]
    samples = [few_shot("S800", found, 10, n, natural=natural) for n in range(20)]
    assert len(set(samples)) == 20
    assert all(len(set(sample)) == 10 for sample in samples)
    assert natural or all(found[i].spans for sample in samples for i in sample)
    assert samples[3] == few_shot("S800", found, 10, 3, natural=natural)
    other = few_shot("LINNAEUS", found, 10, 3, natural=natural)
    assert samples[3] != other
    many = Counter(i for n in range(2000) for i in few_shot("S800", found, 3, n, natural=natural))
    assert fits(many, 50 if natural else 17)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: paired(SOURCES, 30, 0, 0, 4),
        lambda: paired(Sources.of({"a": domain("a", 100, 50)}), 3, 0, 0, 1, entities=True),
        lambda: across(SOURCES, 60, 0, 0, 1),
        lambda: across(Sources.of({"a": domain("a", 100)}), 1, 0, 0, 1),
        lambda: few_shot("S800", DOMAINS["species"], 18, 0),
        lambda: Sources.of({"a": []}),
    ],
)
def test_too_little_to_draw_from_is_one_clear_line(draw):
    with pytest.raises(HardnerError) as caught:
        draw()
    assert "\n" not in str(caught.value)


class Rows(Sequence[int]):
    """Row numbers that count how many of them were looked at."""

    def __init__(self, size: int) -> None:
        self.size, self.visited = size, 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: int) -> int:
        self.visited += 1
        return range(self.size)[place]


def test_drawing_looks_at_no_row_that_is_not_drawn():
    everything, with_entity = Rows(1_000_000), Rows(300_000)
    sources = Sources({"gene": everything}, {"gene": with_entity})
    assert len(paired(sources, 5, 0, 0, tasks=8, entities=True)) == 8
    assert (everything.visited, with_entity.visited) == (0, 8 * 5)
