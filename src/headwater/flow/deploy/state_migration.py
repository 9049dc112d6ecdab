"""What of an output survives a change of its code without a look at the log (pure, about descriptions in words).

The state of an operator is carried over if the operator means the same: under another name, with its aggregates called
otherwise, without some of them. Rows of a stream continue if they only get columns that nothing else depends on.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.flow.deploy.descriptions import Words
from headwater.flow.formats.schema import parse_ddl
from headwater.flow.state.manifest import DELETED, HASH

OF_TABLES = ("Rank", "Neighbours", "SetOperation", "Beside")
SEVERAL_STORES = (
    "TableJoin",
    "IntervalJoin",
    "LatestJoin",
    "AsOfJoin",
    "Percolate",
    "AsOfPercolate",
    "TableAggregate",
    "Recognized",
    *OF_TABLES,
)
"""Operators whose state stays under its name, or is built."""
OPAQUE = ("Apply",)
"""A function may do anything with columns that it did not know before."""


@dataclass(frozen=True)
class Carry:
    """Where the state of an operator comes from."""

    operator: str
    source: str
    """The name under which it lies."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column of the state → what it is called there; empty: they are the same."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Aggregate → what it was called."""

    @property
    def needed(self) -> bool:
        return self.operator != self.source or bool(self.columns)


def carried(now: Mapping[str, Words], before: Mapping[str, Words], name: str) -> Carry | None:
    """From where an operator of `now` gets its state; None: only from the log."""
    wanted = now[name]
    if before.get(name) == wanted:
        return Carry(name, name)
    if wanted["made_from"]["step"] in SEVERAL_STORES:
        return None
    # What another operator is going to be written over is not there for long.
    lasting = [other for other in before if other != name and now.get(other, before[other]) == before[other]]
    if same := [other for other in lasting if before[other] == wanted]:
        return Carry(name, same[0])
    for other in [*([name] if name in before else []), *lasting]:
        names = _renamed(wanted, before[other])
        if names is not None:
            return Carry(name, other, _columns(names, wanted, before[other]), _changed_names(names))
    return None


def _renamed(now: Words, before: Words) -> dict[str, str] | None:
    """Which of the old aggregates each new one is; None if one is not among them, or anything else is different."""
    if "aggregates" not in now or "aggregates" not in before or _rest(now) != _rest(before):
        return None
    if not _includes(before["reads"], now["reads"]):
        return None
    names = {}
    for name, said in now["aggregates"].items():
        old = [one for one, kept in before["aggregates"].items() if kept["computes"] == said["computes"]]
        if not old:
            return None
        names[name] = name if name in old else old[0]
    columns = _columns(names, now, before)
    return names if all(now["keeps"][new] == before["keeps"].get(old) for new, old in columns.items()) else None


def _rest(said: Words) -> tuple[Any, Any]:
    """All but the aggregates: what rows go in, and how they are grouped."""
    made_from = {name: value for name, value in said["made_from"].items() if name != "aggregates"}
    kept = {column for one in said["aggregates"].values() for column in one["keeps"]}
    return made_from, {name: kind for name, kind in said["keeps"].items() if name not in kept}


def _columns(names: Mapping[str, str], now: Words, before: Words) -> dict[str, str]:
    own = {name: name for name in _rest(now)[1] if name not in (HASH, DELETED)}
    for new, old in names.items():
        own |= dict(zip(now["aggregates"][new]["keeps"], before["aggregates"][old]["keeps"], strict=True))
    return own


def _changed_names(names: Mapping[str, str]) -> dict[str, str]:
    return {new: old for new, old in names.items() if new != old}


def lacking(now: Iterable[Words], before: Iterable[Words]) -> str:
    """A sentence about columns that operators of the same words have to keep now, and did not; "" if there are none."""
    for one, other in zip(now, before, strict=False):
        if one["made_from"] == other["made_from"]:
            fresh = [name for name in one["keeps"] if name not in other["keeps"]]
            if fresh:
                return f"it keeps {', '.join(fresh)}, which its state does not hold"
    return ""


def only_adds(before: Words, now: Words) -> list[str] | None:
    """The columns that rows of a stream get beside those they had; None if anything else about them may change."""
    old, new = (dict(_fields(said["columns"])) for said in (before, now))
    added = [name for name in new if name not in old]
    if before["key"] != now["key"] or any(new.get(name) != kind for name, kind in old.items()) or not added:
        return None
    trees = before["made_from"], now["made_from"]
    if any(step["step"] in OPAQUE for tree in trees for step in _steps(tree)):
        return None
    fresh = {*added, *(_made(trees[1]) - _made(trees[0]))}
    mentioned = {word.lower() for text in _texts(trees[0]) for word in re.findall(r"\w+", text)}
    if any(name.lower() in mentioned for name in fresh) or not _grown(*trees):
        return None
    if not _includes(now["reads"], before["reads"]):
        return None
    return added


def _includes(more: Mapping[str, Words], less: Mapping[str, Words]) -> bool:
    """Of the same sources, are all columns of one read by the other too, as the same types?"""
    return more.keys() == less.keys() and all(
        more[source].get(name) == kind for source, columns in less.items() for name, kind in columns.items()
    )


def _fields(columns: str) -> Iterable[tuple[str, str]]:
    return ((one.name, str(one.type)) for one in parse_ddl(columns).fields)


def _steps(tree: Words) -> list[Words]:
    return [tree, *(step for one in tree.get("inputs", ()) for step in _steps(one))]


def _made(tree: Words) -> set[str]:
    """Columns that steps make by name."""
    return {name for step in _steps(tree) if step["step"] == "WithColumns" for name in step["columns"]}


def _texts(value: Any) -> Iterable[str]:
    """The user's own words: expressions, and names that steps give."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        is_step = "step" in value
        for name, one in value.items():
            if is_step and name in ("step", "topic", "format"):
                continue
            yield from () if is_step else (name,)
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _grown(before: Words, now: Words) -> bool:
    """Are the steps the same but for columns that are made or chosen beside the others?"""
    if before == now:
        return True
    if before["step"] == now["step"] and _same_step(before, now):
        inputs = before.get("inputs", ()), now.get("inputs", ())
        if len(inputs[0]) == len(inputs[1]) and all(map(_grown, *inputs)):
            return True
    return now["step"] == "WithColumns" and _grown(before, now["inputs"][0])


def _same_step(before: Words, now: Words) -> bool:
    if before["step"] == "Select":
        return all(before["columns"].count(one) <= now["columns"].count(one) for one in before["columns"])
    if before["step"] == "WithColumns":
        return all(now["columns"].get(name) == one for name, one in before["columns"].items())
    aside = ("inputs",)
    return all(before.get(name) == now.get(name) for name in {*before, *now} if name not in aside)
