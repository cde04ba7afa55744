"""Randomness by place: a seed is a hash of what it is for, so order and machine do not matter."""

import hashlib


def seed_of(*coordinates: int | str) -> int:
    """A seed of 48 bits for a place, the same on every machine."""
    digest = hashlib.blake2b(repr(coordinates).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big")
