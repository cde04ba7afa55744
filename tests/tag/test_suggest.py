"""What to label next: doubt against enumeration, choice against a plain greedy one."""

import itertools
from collections import Counter

import numpy as np
import pytest
import small_models as models
import tiny
import torch

from hardner.errors import HardnerError
from hardner.tag.predictor import Predictor
from hardner.tag.suggest import (
    _DISCOUNT,
    Candidate,
    Shortlist,
    diversify,
    suggest_sentences,
    uncertain,
    words_of,
)
from hardner.tag.uncertainty import Uncertainty, entropies
from hardner.types import Sentence, Span


def entropy(probabilities) -> float:
    return -sum(p * np.log(p) for p in probabilities if p > 0)


def test_entropies_are_those_of_all_paths() -> None:
    torch.manual_seed(0)
    tags, lengths = 3, [4, 1, 0, 3]
    emissions = 2 * torch.randn(1, 4, 4, tags)
    transitions, start, end = torch.randn(1, tags, tags), torch.randn(1, tags), torch.randn(1, tags)
    transitions[0, 0, 2] = start[0, 2] = -torch.inf
    found = entropies(emissions, torch.tensor([lengths]), transitions, start, end)
    probabilities, given, alone, chance = (value[0] for value in found)
    for row, length in enumerate(lengths):
        weights = {}
        for path in itertools.product(range(tags), repeat=length):
            score = sum(float(emissions[0, row, t, tag]) for t, tag in enumerate(path))
            score += sum(float(transitions[0, a, b]) for a, b in itertools.pairwise(path))
            if path:
                score += float(start[0, path[0]] + end[0, path[-1]])
            weights[path] = np.exp(score)
        total = sum(weights.values())
        shares = {path: weight / total for path, weight in weights.items()}
        assert float(given[row].sum()) == pytest.approx(entropy(shares.values()), abs=1e-4)
        assert float(chance[row]) == pytest.approx(1 - shares[(0,) * length], abs=1e-5)
        for t in range(length):
            right = [sum(p for path, p in shares.items() if path[t] == tag) for tag in range(tags)]
            assert probabilities[row, t].tolist() == pytest.approx(right, abs=1e-5)
            assert float(alone[row, t]) == pytest.approx(entropy(right), abs=1e-4)


@pytest.fixture(scope="module", params=["bilstm", "transformer"])
def predictor(request) -> Predictor:
    tagger = tiny.tagger(request.param, "crf" if request.param == "bilstm" else "softmax")
    return Predictor(tagger, tiny.params(tagger, dtype=torch.float32))


POOL = tiny.everything()[0]


def test_hardness_is_what_the_predictor_says(predictor: Predictor) -> None:
    for tag_set in predictor.tagger.tag_sets:
        right = predictor.hardness(POOL, labels=tag_set.labels)
        found = predictor.uncertainties(POOL, labels=tag_set.labels)
        assert [one.hardness for one in found] == pytest.approx(right)


def test_a_token_is_spoken_for_by_the_head_that_claims_it_most(predictor: Predictor) -> None:
    every = predictor.uncertainties(POOL)
    tag_sets = predictor.tagger.tag_sets
    alone = [predictor.uncertainties(POOL, labels=tag_set.labels) for tag_set in tag_sets]
    for row, sentence in enumerate(POOL):
        claims = np.stack([found[row].inside for found in alone])
        entropies = np.stack([found[row].tokens for found in alone])
        best = claims.argmax(0)
        assert len(every[row].tokens) == len(sentence)
        assert np.allclose(every[row].inside, claims.max(0), atol=1e-4)
        own = np.take_along_axis(entropies, best[None], 0)[0]
        assert np.allclose(every[row].tokens, own, atol=1e-4)
        assert every[row].labels == tuple(alone[d][row].labels[t] for t, d in enumerate(best))


def test_nothing_is_unsure_in_nothing(predictor: Predictor) -> None:
    (found,) = predictor.uncertainties([Sentence(())])
    assert (found.hardness, found.chance, len(found.tokens)) == (0.0, 0.0, 0)


def test_a_mention_has_the_score_that_tagging_gives_it() -> None:
    predictor = models.predictor()
    found = suggest_sentences(predictor, POOL, 20)
    tagged = predictor.spans([suggestion.sentence for suggestion in found])
    same = 0
    for suggestion, mentions in zip(found, tagged, strict=True):
        possible, known = dict(suggestion.uncertain), dict(mentions)
        for span, score in possible.items():
            met = [s for s in known if s.start < span.end and span.start < s.end]
            assert span in known if met else span not in known
            assert known.get(span, score) == score
            same += span in known
    assert same > 5


def made(text: str, *doubtful: str, chance: float = 1.0, hardness: float = 1.0) -> tuple:
    """A sentence, and a doubt about some of its words."""
    tokens = tuple(text.split())
    unsure = np.array([0.6 if token in doubtful else 0.001 for token in tokens], np.float32)
    inside = np.array([0.5 if token in doubtful else 0.0 for token in tokens], np.float32)
    given = np.full(len(tokens), hardness / len(tokens))
    return Sentence(tokens), Uncertainty(given, unsure, inside, ("Device",) * len(tokens), chance)


def candidates(items) -> list[Candidate]:
    held = Shortlist(1_000)
    for place, (sentence, uncertainty) in enumerate(items):
        held.add(place, sentence, uncertainty)
    return held.best()


def text_of(found) -> list[str]:
    return [" ".join(c.sentence.tokens) for c in found]


def test_one_entity_does_not_fill_the_list() -> None:
    stents = [made(f"a stent of {w} lies there", "stent", hardness=3) for w in "abcdefghijklmnop"]
    others = [
        made(f"the {w} was used again", w, hardness=1) for w in ("pump", "lead", "wire", "tube")
    ]
    chosen = text_of(diversify(candidates([*stents, *others]), 6, Counter()))
    assert sum("stent" in text for text in chosen) <= 2
    assert sum("again" in text for text in chosen) == 4
    known = Counter({"stent": 2})
    assert "stent" not in " ".join(text_of(diversify(candidates([*stents, *others]), 4, known)))


def test_the_choice_is_that_of_a_plain_greedy_one() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(30)]
    items = []
    for _ in range(60):
        tokens = list(rng.choice(words, 6))
        items.append(made(" ".join(tokens), *rng.choice(tokens, 2), hardness=float(rng.random())))
    found = candidates(items)
    shown = Counter({"w1": 1, "w2": 3})

    left, counts, greedy = list(found), shown.copy(), []
    while left and len(greedy) < 20:

        def adds(c: Candidate) -> float:
            fresh = [_DISCOUNT ** counts[token.lower()] for token in c.sentence.tokens]
            return c.value * float(np.dot(c.uncertainty.tokens, fresh) / c.uncertainty.tokens.sum())

        best = min(left, key=lambda c: (-round(adds(c), 9), c.place))
        greedy.append(best.place)
        left.remove(best)
        counts.update(words_of(best.sentence))
    assert [c.place for c in diversify(found, 20, shown)] == greedy
    assert shown == Counter({"w1": 1, "w2": 3})


def test_sentences_that_differ_in_numbers_and_case_are_one() -> None:
    texts = ["Device 12 was used", "device 7 was used", "a pump was used"]
    found = candidates(made(text, "Device", "device", "pump") for text in texts)
    assert text_of(sorted(found, key=lambda c: c.place)) == [texts[0], texts[2]]


def test_no_chance_of_a_mention_is_no_suggestion() -> None:
    found = candidates([made("a pump", "pump", chance=0.001), made("a lead", "lead", chance=0.3)])
    assert text_of(found) == ["a lead"]


def test_what_is_held_does_not_grow_with_the_stream() -> None:
    held = Shortlist(50)
    for place in range(5_000):
        word = "stent" if place % 2 else f"w{chr(97 + place % 26)}{chr(97 + place // 26 % 26)}"
        filler = "".join(chr(97 + int(digit)) for digit in str(place))
        held.add(place, *made(f"{filler} {word} here", word, hardness=1 + place % 97))
        assert len(held._held) <= 100
    best = held.best()
    assert len(best) <= 50
    assert sum("stent" in c.sentence.tokens for c in best) <= 1


def test_possible_mentions_are_runs_with_their_label() -> None:
    inside = np.array([0.0, 0.4, 0.6, 0.0, 0.95], np.float32)
    unsure = np.array([0.0, 0.6, 0.6, 0.0, 0.1], np.float32)
    uncertainty = Uncertainty(unsure, unsure, inside, ("A", "A", "B", "A", "A"), 1.0)
    found = uncertain(Sentence(("the", "new", "pump", "and", "lead")), uncertainty)
    assert [span for span, _ in found] == [Span(1, 3, "B"), Span(4, 5, "A")]
    assert [share for _, share in found] == pytest.approx([0.5, 0.95])


def test_suggestions_are_the_same_each_time_and_new_to_the_user(predictor: Predictor) -> None:
    first = suggest_sentences(predictor, iter(POOL), 5)
    assert first == suggest_sentences(predictor, list(POOL), 5)
    assert len(first) == 5
    assert all(s.sentence in POOL and s.hardness > 0 and s.reason for s in first)
    known = [s.sentence for s in first]
    second = suggest_sentences(predictor, POOL, 5, known=known)
    assert not {s.sentence.tokens for s in second} & {s.tokens for s in known}


def test_a_label_asks_the_heads_that_know_it(predictor: Predictor) -> None:
    gene = suggest_sentences(predictor, POOL, 5, label="Gene")
    assert {span.label for s in gene for span, _ in s.uncertain} == {"Gene"}
    assert suggest_sentences(predictor, POOL, 5, label="Device") == suggest_sentences(
        predictor, POOL, 5
    )


def test_odd_input(predictor: Predictor) -> None:
    assert suggest_sentences(predictor, []) == []
    assert suggest_sentences(predictor, [Sentence(()), Sentence(("word",) * 300)]) == []
    assert len(suggest_sentences(predictor, POOL[:3], 50)) == 3
    with pytest.raises(HardnerError, match="at least 1"):
        suggest_sentences(predictor, POOL, 0)


def test_a_model_that_is_sure_of_nothing_there_suggests_nothing() -> None:
    tagger = tiny.tagger("bilstm")
    params = tiny.params(tagger, dtype=torch.float32)
    params["decoder.bias"] = params["decoder.bias"].clone()
    params["decoder.bias"][..., 0] += 100
    assert suggest_sentences(Predictor(tagger, params), POOL) == []
