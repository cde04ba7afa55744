"""Networks as pure functions of named tensors.

Every activation has a leading task axis, ``[M, B, T, ...]``: ``M`` tasks of ``B`` sentences of
``T`` words. Every parameter has one too, of length ``M`` (each task its own) or 1 (shared by all).
A single model is therefore the case of one task, and many adapted copies of a model are one
computation.
"""
