"""Pretrained word vectors: any common layout, only the rows of the vocabulary at hand."""

from hardner.vectors.characters import character_vectors
from hardner.vectors.load import Vectors, load_vectors

__all__ = ["Vectors", "character_vectors", "load_vectors"]
