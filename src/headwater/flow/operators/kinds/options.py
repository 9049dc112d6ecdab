"""What a user may choose about an aggregate beside its column. What is chosen belongs to the meaning of its state."""

from dataclasses import dataclass


class Options:
    """Frozen, with a `repr` that says all of it."""


@dataclass(frozen=True)
class Limit(Options):
    """Of a collection: so many elements at most, the first by time and place."""

    limit: int


@dataclass(frozen=True)
class Hll(Options):
    lg_k: int = 12
    sketch: bool = False
    """Is the result the sketch itself, instead of what it estimates?"""


@dataclass(frozen=True)
class Kll(Options):
    ranks: tuple[float, ...]
    several: bool = False
    """Is the result a list?"""
    k: int = 200
    sketch: bool = False


@dataclass(frozen=True)
class Frequent(Options):
    most: int
    """How many are told."""
    lg: int
    tracked: int
    sketch: bool = False


@dataclass(frozen=True)
class Bloom(Options):
    bits: int
    hashes: int


@dataclass(frozen=True)
class CountMin(Options):
    buckets: int
    hashes: int
