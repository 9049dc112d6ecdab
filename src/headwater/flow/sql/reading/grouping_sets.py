"""GROUP BY ROLLUP, CUBE and GROUPING SETS: which keys each set of groups goes by (pure).

A row is counted in one group of every set: it is there once for each, with null for the keys that the set leaves out,
and the number of the set is part of the key of its group.
"""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import NamedTuple

from sqlglot import exp

from headwater.flow.sql.reading.source_text import SourceText, start_of

MOST = 256
GROUPING_ID = "grouping_id"
"""The column that says which keys the set of a group leaves out; grouping_id() is it."""
SEVERAL: dict[type[exp.Expr], str] = {
    exp.Rollup: "rollup",
    exp.Cube: "cube",
    exp.GroupingSets: "grouping_sets",
}
Set = frozenset[str]
TextOf = Callable[[exp.Expr], str]


class GroupingSets(NamedTuple):
    keys: dict[str, exp.Expr]
    """By their text, in the order of GROUP BY."""
    sets: tuple[Set, ...]
    """Texts of the keys that each goes by."""

    def among(self, text: str) -> str:
        """A list of the numbers of the sets that go by a key."""
        return ", ".join(str(number) for number, one in enumerate(self.sets) if text in one) or "-1"

    def bits(self, texts: Sequence[str]) -> list[int]:
        """For each set, as a number, which of some keys it leaves out: the last is the lowest bit."""
        return [sum((text not in one) << place for place, text in enumerate(reversed(texts))) for one in self.sets]


def sets_of(group: exp.Group, text: TextOf, source: SourceText) -> GroupingSets | None:
    """None for a plain GROUP BY. `text` resolves a key, and may refuse it."""
    plain = [one for one in group.expressions if type(one) not in SEVERAL]
    several = [one for one in group.expressions if type(one) in SEVERAL]
    for name in SEVERAL.values():
        several += [one for one in group.args.get(name) or () if isinstance(one, exp.Expr)]
    if not several:
        return None
    keys = {text(one): one for one in plain}
    if all(one.expressions for one in several) and not _after_keys(group):
        parts = [[frozenset(keys)], *(_sets(one, one.expressions, keys, text) for one in several)]
    else:  # x, y WITH ROLLUP; x, y GROUPING SETS (...)
        parts = [_sets(one, one.expressions or plain, keys, text) for one in several]
    sets = tuple(frozenset[str]().union(*one) for one in product(*parts))
    if len(sets) > MOST:
        raise source.refusal(
            start_of(group), f"GROUP BY makes {len(sets)} sets of groups, and each row is counted in all of them",
            f"At most {MOST} are kept: name those that are wanted with GROUPING SETS (...).",
        )  # fmt: skip
    return GroupingSets(keys, sets)


def _after_keys(group: exp.Group) -> bool:
    return bool(group.args.get("grouping_sets"))


def _sets(one: exp.Expr, elements: Sequence[exp.Expr], keys: dict[str, exp.Expr], text: TextOf) -> list[Set]:
    found = []
    for element in elements:
        inner = element.unnest() if isinstance(element, exp.Paren) else element
        members = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
        for member in members:
            keys.setdefault(text(member), member)
        found.append(frozenset(map(text, members)))
    if isinstance(one, exp.GroupingSets):
        return found
    if isinstance(one, exp.Rollup):
        return [frozenset[str]().union(*found[:count]) for count in range(len(found), -1, -1)]
    counts = range(len(found), -1, -1)
    return [frozenset[str]().union(*chosen) for count in counts for chosen in combinations(found, count)]
