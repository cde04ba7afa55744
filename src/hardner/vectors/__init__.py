"""Pretrained word vectors: any common layout, only the rows of the vocabulary at hand."""

from hardner.vectors.load import Vectors, character_vectors, load_vectors
from hardner.vectors.scanner import ReadProgress

__all__ = ["ReadProgress", "Vectors", "character_vectors", "load_vectors"]
