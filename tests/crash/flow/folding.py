"""What a changelog adds up to, and where its changes do not follow one another."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Folded:
    table: dict[Any, dict[str, Any]] = field(default_factory=dict)
    """By key: its only column, or all of them."""
    wrong: list[str] = field(default_factory=list)


def folded(topic: str, changes: Iterable[tuple[Any, Any]], key: Sequence[str]) -> Folded:
    """Every change follows the one before it, and each deletion is followed by a tombstone.

    >>> emitted = ({"id": 1}, {"before": None, "after": {"id": 1}})
    >>> folded("orders", [emitted], ["id"])
    Folded(table={1: {'id': 1}}, wrong=[])
    >>> folded("orders", [emitted, emitted], ["id"]).wrong
    ["orders: a change of 1 says it was None, and it was {'id': 1}"]
    """
    found, deleted = Folded(), None
    for said, change in changes:
        if (change is None) != (deleted is not None) or (deleted is not None and said != deleted):
            found.wrong.append(f"{topic}: {said} says {change} where {deleted} was deleted before")
        deleted = None
        if change is None:
            continue
        place = _place(change["after"] or change["before"], key)
        if change["before"] != (held := found.table.pop(place, None)):
            found.wrong.append(f"{topic}: a change of {place} says it was {change['before']}, and it was {held}")
        if change["after"] is None:
            deleted = said
        else:
            found.table[place] = change["after"]
    if deleted is not None:
        found.wrong.append(f"{topic} ends with the deletion of {deleted}, and no tombstone")
    return found


def _place(row: Mapping[str, Any], key: Sequence[str]) -> Any:
    return row[key[0]] if len(key) == 1 else tuple(row[name] for name in key)
