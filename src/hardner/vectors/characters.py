"""Character vectors that start from the statistics of the word vectors."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from hardner.vectors.load import Vectors


def character_vectors(vectors: Vectors, alphabet: Sequence[str]) -> Tensor:
    """Each character the mean of the vectors of the words that hold it; zeros where none does.

    A word counts once for each occurrence of the character in it, as in Woolf's char-embeddings
    (2018), which MetaBioNER uses.
    """
    holders: dict[str, list[int]] = {character: [] for character in alphabet}
    for row, word in enumerate(vectors.words):
        for character in word:
            if character in holders:
                holders[character].append(row)
    rows = torch.tensor([row for character in alphabet for row in holders[character]])
    counts = torch.tensor([0, *(len(holders[character]) for character in alphabet)])
    starts = counts.cumsum(0)[:-1]  # [alphabet]
    return embedding_bag(rows.long(), vectors.matrix, starts, mode="mean")  # [alphabet, dimension]
