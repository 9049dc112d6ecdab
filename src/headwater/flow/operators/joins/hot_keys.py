"""Join keys with very many rows, as they are noted from batch to batch (pure)."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

SIDES = ("left", "right")
HOT_KEYS_MAX = 64
"""So many are kept for each join, those with the most rows."""


@dataclass(frozen=True)
class HotKey:
    """`side` is the one with many rows: 0 left, 1 right."""

    hash: int
    side: int
    rows: int
    key: str
    """For people."""


Hot = Mapping[str, tuple[HotKey, ...]]
"""By operator."""


def hot_after(known: Hot, found: Iterable[tuple[str, tuple[HotKey, ...]]]) -> dict[str, tuple[HotKey, ...]]:
    """What the next batch is to split. A key that was counted again is what it was counted to be; none is forgotten.

    >>> hot_after({"feed": (HotKey(1, 0, 10, "ann"),)}, [("feed", (HotKey(1, 0, 12, "ann"),))])
    {'feed': (HotKey(hash=1, side=0, rows=12, key='ann'),)}
    """
    newest = {name: {one.hash: one for one in keys} for name, keys in known.items()}
    for name, keys in found:
        if keys:
            newest.setdefault(name, {}).update({one.hash: one for one in keys})
    return {
        name: tuple(sorted(keys.values(), key=lambda one: (-one.rows, one.hash))[:HOT_KEYS_MAX])
        for name, keys in newest.items()
    }


def hot_to_json(hot: Hot) -> dict[str, Any]:
    return {name: [asdict(one) for one in keys] for name, keys in hot.items()}


def hot_of_json(row: Mapping[str, Any]) -> dict[str, tuple[HotKey, ...]]:
    return {name: tuple(HotKey(**one) for one in keys) for name, keys in row.items()}
