"""The probability of every sequence of tags, by going through all of them."""

import itertools

import torch

from hardner.model.layers import SCORING
from hardner.tag.predictor import Predictor
from hardner.types import Sentence


def brute_force(emissions: torch.Tensor, chain: tuple[torch.Tensor, ...]) -> dict[tuple, float]:
    """The probability of every sequence of tags of one sentence of one head."""
    transitions, start, end = chain
    tokens, tags = emissions.shape
    scores = {}
    for path in itertools.product(range(tags), repeat=tokens):
        score = start[path[0]] + end[path[-1]]
        score += sum(emissions[t, tag] for t, tag in enumerate(path))
        score += sum(transitions[a, b] for a, b in itertools.pairwise(path))
        scores[path] = float(score)
    probable = torch.tensor(list(scores.values()), dtype=torch.float64).softmax(0).tolist()
    return dict(zip(scores, probable, strict=True))


def truth(predictor: Predictor, tokens: tuple[str, ...], head: int) -> dict[tuple, float]:
    tagger, params = predictor.tagger, predictor.params
    store = tagger.store([Sentence(tokens)])
    batch = store.batch(torch.tensor([[0]]), store.widths([0]))
    encoded = tagger.encoder(params, batch, SCORING)
    said = tagger.emissions(params, encoded, batch, torch.tensor([head]))
    temperatures = predictor.temperatures[head]
    chain = tuple(part[0].double() / temperatures for part in said.chain)
    return brute_force(said.scores[0, 0].double() / temperatures, chain)
