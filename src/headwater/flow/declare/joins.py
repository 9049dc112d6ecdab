"""From what a user says of a join to the kind it is: by its inputs, and by what is said about time."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import Place, calling_place
from headwater.flow.declare.duration import duration_us
from headwater.flow.declare.matching import Matching
from headwater.flow.declare.topology.nodes import (
    VERSIONS,
    AsOfJoin,
    Changes,
    Explode,
    IntervalJoin,
    Join,
    Latest,
    LatestJoin,
    Node,
    Select,
    SourceStream,
    SourceTable,
    SourceVersions,
    TableJoin,
    Union,
    WithColumns,
    key_of,
    sources_of,
    walk,
)
from headwater.flow.operators.joins.pairing import EXISTENCE, FULL, HOWS, INNER, LEFT

IGNORE, UPDATE = "ignore", "update"
_VERSIONS: WeakKeyDictionary[SourceTable, SourceVersions] = WeakKeyDictionary()
"""The versions of a table are one source, however many joins ask for them."""


@dataclass(frozen=True)
class Words:
    """What is said of a join beside its inputs."""

    matching: Matching
    how: str
    prefix: str
    name: str
    within: str | None = None
    between: tuple[str, str] | None = None
    as_of: str | None = None
    wait: str | None = None
    on_change: str = IGNORE
    key: tuple[str, ...] = ()
    corrections: str | None = None


def join_of(left: Node, right: Node, words: Words) -> Node:
    """InvalidDeclaration if inputs and words do not fit."""
    place = calling_place()
    ways = (*HOWS, *EXISTENCE) if left.keyed else HOWS
    if words.how not in ways:
        raise InvalidDeclaration(f"join() at {place} cannot be {words.how!r}", f"It may be {', '.join(ways)}.")
    if words.how in EXISTENCE and words.prefix:
        raise InvalidDeclaration(
            f"join() at {place} is {words.how}, and has a prefix= for columns of the right, of which it has none",
            "Leave it out.",
        )
    if left.keyed:
        return _of_tables(TableJoin(place, left, right, *words.matching, words.how, words.prefix, words.name))
    refuse_timeless(left, place)
    if not right.keyed:
        refuse_timeless(right, place)
        return _interval(left, right, words, place)
    if words.how not in (INNER, LEFT):
        raise InvalidDeclaration(
            f"join() at {place} of a stream with a table cannot be {words.how!r}",
            "inner gives rows that have one in the table, left all of them.",
        )
    if words.within or words.between:
        raise InvalidDeclaration(
            f"join() at {place} has within= or between=, and its right is a table",
            "For the row that held at the time of the event say as_of=.",
        )
    return _as_of(left, right, words, place) if words.as_of else _latest(left, right, words, place)


def _of_tables(join: TableJoin) -> TableJoin:
    """Two rows that are both unmatched, because a further condition is not met, would have one key."""
    met = {name for name, _ in join.on}, {name for _, name in join.on}
    if join.how == FULL and join.further and {*key_of(join.left)} <= met[0] and {*key_of(join.right)} <= met[1]:
        raise InvalidDeclaration(
            f"join() at {join.place} is full, and where {' '.join(join.further[0])} does not hold it would "
            f"have two rows for one {', '.join(key_of(join.left))}",
            'Say how="left" or "right"; or leave the condition out and ask for it after the join, with where(...).',
        )
    return join


def _interval(left: Node, right: Node, words: Words, place: Place) -> IntervalJoin:
    if (words.within is None) == (words.between is None):
        raise InvalidDeclaration(
            f"join() at {place} of two streams does not say how near in time rows are",
            'Say within="1 hour" for rows of the right up to an hour later, or between=("-5 minutes", "1 hour").',
        )
    if words.as_of or words.wait or words.on_change != IGNORE or words.key:
        raise InvalidDeclaration(
            f"join() at {place} is of two streams, and as_of=, wait=, on_change= and key= are about tables",
            "Leave them out.",
        )
    low, high = ("0s", words.within) if words.between is None else words.between
    bounds = _signed_us(str(low)), _signed_us(str(high))
    if bounds[0] > bounds[1]:
        raise InvalidDeclaration(f"join() at {place} is between {low} and {high}, and the first is later", "Swap them.")
    horizon_us = duration_us(words.corrections) if words.corrections else 0
    return IntervalJoin(place, left, right, *words.matching, words.how, words.prefix, words.name, *bounds, horizon_us)


def _signed_us(text: str) -> int:
    """
    >>> _signed_us("-5 minutes")
    -300000000
    """
    bare = text.strip()
    return -duration_us(bare[1:]) if bare.startswith("-") else duration_us(bare)


def _latest(left: Node, right: Node, words: Words, place: Place) -> Node:
    if words.corrections:
        raise InvalidDeclaration(
            f"join() at {place} has corrections=, and joins with the table as it is",
            'Say on_change="update" to follow its changes, or as_of= for what held at the time of the event.',
        )
    if words.on_change == UPDATE:
        if not words.key or words.wait:
            raise InvalidDeclaration(
                f"join() at {place} follows the table, and does not say which row of the result a change is of",
                "Say key=, the columns that distinguish its events, and no wait=.",
            )
        newest = Latest(place, left, words.key, f"{words.name}.events" if words.name else "")
        return TableJoin(place, newest, right, *words.matching, words.how, words.prefix, words.name)
    if words.on_change != IGNORE or words.key:
        raise InvalidDeclaration(
            f'join() at {place} has on_change="{words.on_change}" and key={list(words.key)!r}',
            'on_change is "ignore", or "update" with a key=.',
        )
    wait_us = duration_us(words.wait) if words.wait else 0
    return LatestJoin(place, left, right, *words.matching, words.how, words.prefix, words.name, wait_us)


def _as_of(left: Node, right: Node, words: Words, place: Place) -> AsOfJoin:
    versions = as_of_versions(left, right, words.as_of or "", place, "join")
    if words.wait or words.on_change != IGNORE or words.key:
        raise InvalidDeclaration(
            f"join() at {place} is as of {words.as_of}, and wait=, on_change= and key= are about the table as it is",
            'Leave them out; corrections="..." follows changes of the past.',
        )
    if words.corrections and words.how != LEFT:
        raise InvalidDeclaration(
            f"join() at {place} with corrections= cannot be {words.how!r}: a row may get its partner later",
            'Say how="left".',
        )
    joined_on, key = {name for _, name in words.matching.on}, _source(right).key
    if joined_on != set(key) or words.matching.further:
        raise InvalidDeclaration(
            f"join() at {place} is as of a time, on {', '.join(sorted(joined_on))}, and the table's versions are "
            f"those of {', '.join(key)}",
            "Join on the key of the table; put other conditions into where(...) after it.",
        )
    horizon_us = duration_us(words.corrections) if words.corrections else 0
    return AsOfJoin(place, left, versions, *words.matching, words.how, words.prefix, words.name, horizon_us)


def as_of_versions(left: Node, right: Node, as_of: str, place: Place, step: str) -> Node:
    """All versions of a table that keeps them; `as_of` has to be the time of the left."""
    times = [one.time for one in _timing(left)]
    if as_of not in times:
        known = ", ".join(sorted({str(time) for time in times if time})) or "none: say time= where it is declared"
        raise InvalidDeclaration(
            f"{step}() at {place} is as of {as_of}, which is not the time of the stream", f"That is: {known}."
        )
    return _versions(right, place)


def _source(right: Node) -> SourceTable:
    found = right
    while isinstance(found, Select | WithColumns):
        found = found.input
    if not isinstance(found, SourceTable) or not found.versions_us:
        raise InvalidDeclaration(
            f"join() at {calling_place()} is as of a time, and its right keeps no versions",
            'Join with app.table(..., versions="30 days"), with nothing but select and with_columns between.',
        )
    return found


def _versions(right: Node, place: Place) -> Node:
    """The same steps over all versions of the table's rows."""
    if isinstance(right, Select):
        return Select(right.place, _versions(right.input, place), right.columns)
    if isinstance(right, WithColumns):
        return WithColumns(right.place, _versions(right.input, place), right.columns)
    return versions_of(_source(right))


def versions_of(table: SourceTable) -> SourceVersions:
    if table not in _VERSIONS:
        _VERSIONS[table] = SourceVersions(
            table.place, table.name + VERSIONS, table.topic, table.contents, table.format, None, 0, table.options,
            table.idle_us, key=table.key, versions_us=table.versions_us, valid_from=table.valid_from,
            valid_to=table.valid_to, version_id=table.version_id,
        )  # fmt: skip
    return _VERSIONS[table]


def refuse_timeless(node: Node, place: Place) -> None:
    if timeless := [one for one in walk(node) if isinstance(one, Changes)]:
        raise InvalidDeclaration(
            f"join() at {place} comes after changes() at {timeless[0].place}, which have no event time",
            "Join the table itself.",
        )


def _timing(node: Node) -> list[SourceStream]:
    """The streams whose time is that of the rows: of a join, the left's."""
    if isinstance(node, SourceStream):
        return [node]
    inputs = (node.left,) if isinstance(node, Join) else node.inputs
    return [one for each in inputs for one in _timing(each)]


def refuse_counting(node: Node) -> None:
    """Windows of so many rows, downstream of a step that makes several of one: of rows at one offset none is the
    first. What free functions and SQL do is seen when Spark reads them (plan/resolution.py)."""
    for one in walk(node):
        if isinstance(one, IntervalJoin | Explode) or (isinstance(one, Union) and _shares(one)):
            step = {IntervalJoin: "join", Explode: "explode", Union: "union"}[type(one)]
            raise counting_behind(f"window() at {calling_place()}", f"{step}() at {one.place}")


def counting_behind(window: str, step: str) -> InvalidDeclaration:
    return InvalidDeclaration(
        f"{window} counts rows after {step}, which makes several of one",
        "Use windows of time; or count the rows of the stream before that step.",
    )


def _shares(union: Union) -> bool:
    """Whether a row may come to it on several ways."""
    found = [source for part in union.parts for source in set(sources_of(part))]
    return len(found) > len(set(found))
