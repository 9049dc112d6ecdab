"""JOIN: what its condition says is taken apart, and becomes one of the joins that flows have (pure).

both streams, their times compared               an interval join
stream, table FOR SYSTEM_TIME AS OF its time     an as-of join
stream, table FOR SYSTEM_TIME AS OF now()        the table as it is when the event comes
everything else                                  a join of tables, that follows both; streams as tables of facts
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from headwater.flow.declare.duration import spelled
from headwater.flow.declare.joins import Words, join_of
from headwater.flow.declare.matching import Matching
from headwater.flow.declare.stream import Stream
from headwater.flow.declare.topology.nodes import SourceStream, SourceTable, walk
from headwater.flow.expressions.resolution.coercion import is_number
from headwater.flow.operators.joins.pairing import ANTI, EXISTENCE, FULL, INNER, LEFT, RIGHT, SEMI, Condition
from headwater.flow.sql.column_types import type_of, types_of
from headwater.flow.sql.facts import facts_of
from headwater.flow.sql.intervals import MIRRORED, Bounds, is_now, time_bounds
from headwater.flow.sql.reading.dialect import name_text
from headwater.flow.sql.reading.source_text import start_of
from headwater.flow.sql.relations import Column, Item, Rows, as_column, flow_of, fresh

SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "==", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
ONE = "cast(1 as int)"
UTC = pa.timestamp("us", "UTC")
NAMES = {
    pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint", pa.float32(): "float",
    pa.float64(): "double", pa.bool_(): "boolean", pa.date32(): "date", UTC: "timestamp",
}  # fmt: skip


class Pair(NamedTuple):
    """Expressions of the left and of the right, and how they compare."""

    left: exp.Expr
    sign: type[exp.Expr]
    right: exp.Expr


@dataclass(frozen=True)
class JoinText:
    """What is said of a join: how it keeps rows, its conditions, and the moment of FOR SYSTEM_TIME AS OF."""

    how: str
    conditions: tuple[exp.Expr, ...]
    start: int
    as_of: exp.Expr | None = None
    using: frozenset[str] = frozenset()
    wanted: frozenset[str] | None = None
    """Names that the query has of columns, in small letters; None for all."""
    key: tuple[str, ...] = ()
    """Of the view that is to come: the facts of a stream go by it."""


def joined(left: Rows, right: Rows, text: JoinText) -> Rows:
    """The rows of both. `right` has one item, which is added to those of the left."""
    join = _Join(left, right, text)
    return join.made()


class _Join:
    def __init__(self, left: Rows, right: Rows, text: JoinText) -> None:
        self.left, self.right, self.text = left, right, text
        self.both = replace(left, items=(*left.items, *right.items), window=None)
        self.number = len(left.items)
        self.equal: list[Pair] = []
        self.further: list[Pair] = []
        self.after: list[exp.Expr] = []
        self.shared: dict[frozenset[str], str] = {}
        self.only: tuple[list[exp.Expr], list[exp.Expr]] = ([], [])
        self.bounds = Bounds()

    def made(self) -> Rows:
        self._refuse_unknown()
        self._divide()
        self._narrow()
        if self.bounds == Bounds() and self.text.as_of is None:
            self.left, self.right = self._as_table(self.left, self.text.key), self._as_table(self.right, ())
        on, further = self._keys()
        kept, further = self._keep_columns(on, further)
        words = self._words(Matching(tuple(on), tuple(further)))
        node = join_of(self.left.flow.node, self.right.flow.node, words)
        shared = {**self.left.shared, **self.shared}
        rows = replace(self.left, flow=flow_of(node), items=kept, unique=(), shared=shared)
        for one in self.after:
            rows = rows.where(rows.text(one))
        return rows

    def _refuse_unknown(self) -> None:
        if not self.both.known:
            raise self._refusal("columns of a side are known to Spark only", "Declare its columns, or select them.")

    def _refusal(self, message: str, hint: str = "") -> Exception:
        return self.left.source.refusal(self.text.start, f"in this join {message}", hint)

    def _divide(self) -> None:
        """Conditions by the sides that they are of."""
        conditions: list[exp.Expr] = list(self.text.conditions)
        if isinstance(self.left.flow, Stream) and isinstance(self.right.flow, Stream):
            bounds, others = time_bounds(conditions, self.both, self.number)
            if bounds.low_us is not None and bounds.high_us is not None:
                self.bounds, conditions = bounds, others
        for one in conditions:
            pair = self._pair(one)
            if pair is not None:
                (self.equal if pair.sign is exp.EQ else self.further).append(pair)
                continue
            items = self.both.items_in(one)
            if items == {self.number}:
                self.only[1].append(one)
            elif self.number not in items and items:
                self.only[0].append(one)
            else:
                self.after.append(one)
        if self.after and self.text.how != INNER:
            said = self.left.source.text[start_of(self.after[0]) :].split("\n")[0][:40]
            raise self._refusal(
                f"a condition is no comparison of one side with the other, near {said!r}",
                "An outer join compares an expression of one side with one of the other; use WHERE for others.",
            )

    def _pair(self, node: exp.Expr) -> Pair | None:
        if type(node) not in SIGNS:
            return None
        sides = self.both.items_in(node.this), self.both.items_in(node.expression)
        if sides[1] == {self.number} and sides[0] and self.number not in sides[0]:
            return Pair(node.this, type(node), node.expression)
        if sides[0] == {self.number} and sides[1] and self.number not in sides[1]:
            return Pair(node.expression, MIRRORED[type(node)], node.this)
        return None

    def _narrow(self) -> None:
        """Conditions of one side alone: its rows, where none is there without a partner; else they never meet."""
        if self.text.how in (INNER, RIGHT, SEMI):
            for one in self.only[0]:
                self.left = self.left.where(self.both.text(one))
        if self.text.how in (INNER, LEFT, *EXISTENCE):
            for one in self.only[1]:
                self.right = self.right.where(self.both.text(one))

    def _meets(self, side: int) -> str:
        """A condition that rows of a side have to meet to have a partner, where all of them are there."""
        keeps = (self.text.how in (LEFT, FULL, ANTI), self.text.how in (RIGHT, FULL))[side]
        said = [self.both.text(one) for one in self.only[side]] if keeps else []
        return " and ".join(f"({one})" for one in said)

    def _as_table(self, rows: Rows, wanted: tuple[str, ...]) -> Rows:
        if not isinstance(rows.flow, Stream):
            return rows
        key = tuple(one.flat for name in wanted for item in rows.items if (one := item.find(name)))
        return replace(rows, flow=facts_of(rows.flow, key if wanted and len(key) == len(wanted) else ()))

    # -- what is compared ----------------------------------------------------------------------------------------------

    def _keys(self) -> tuple[list[tuple[str, str]], list[Condition]]:
        """Columns of both sides for every comparison, made where the query compares something else than columns."""
        meets = self._meets(0), self._meets(1)
        pairs: list[Pair | None] = list(self.equal)
        if not pairs:
            if self.text.as_of is not None or self.bounds != Bounds():
                raise self._refusal("nothing of one side is equal to something of the other", "Add ON a = b.")
            pairs = [None]  # every row meets every other: all of them have one key
        on: list[tuple[str, str]] = []
        for number, pair in enumerate(pairs):
            limits = meets if number == 0 else ("", "")
            said = ("", "") if pair is None else self._same_type(pair)
            left = self._column(0, pair and pair.left, said[0] or ONE, limits[0], [one for one, _ in on])
            right = self._column(1, pair and pair.right, said[1] or ONE, limits[1], [other for _, other in on])
            on.append((left, right))
        further = []
        for pair in self.further:
            said = self._same_type(pair)
            further.append(
                Condition(
                    self._column(0, pair.left, said[0], "", []), SIGNS[pair.sign],
                    self._column(1, pair.right, said[1], "", []),
                )
            )  # fmt: skip
        return on, further

    def _column(self, side: int, node: exp.Expr | None, text: str, meets: str, used: Sequence[str]) -> str:
        """The column of a side that an expression is, or one that is made of it."""
        rows = self.left if side == 0 else self.right
        plain = None if node is None else self.both.plain(node)
        if plain is not None and not meets and text == name_text(plain.flat) and plain.flat not in used:
            return plain.flat
        name = rows.fresh("join_key", used)
        made = f"case when {meets} then {text} end" if meets else text
        flow = rows.flow.with_columns(**{name: made})
        hidden = Item("", (Column("", name),))
        rows = replace(rows, flow=flow, items=(*rows.items, hidden))
        if side == 0:
            self.left = rows
        else:
            self.right = rows
        return name

    def _same_type(self, pair: Pair) -> tuple[str, str]:
        """Both texts, with a cast to the type that Spark compares them in where they are of different ones."""
        texts = self.both.text(pair.left), self.both.text(pair.right)
        kinds = self._type(self.left, pair.left, texts[0]), self._type(self.right, pair.right, texts[1])
        if kinds[0] is None or kinds[1] is None or kinds[0] == kinds[1]:
            return texts
        wider = kinds[1] if self.text.as_of is not None else _wider(kinds[0], kinds[1])
        if wider is None and any(map(pa.types.is_nested, (kinds[0], kinds[1]))):
            return texts  # whose types have several forms that mean the same
        if wider is None:
            said = [_as_written(node) for node in (pair.left, pair.right)]
            raise self._refusal(
                f"{said[0]} is {_spark_name(kinds[0])}, and {said[1]}, which it is compared with, is "
                f"{_spark_name(kinds[1])}",
                f"Cast one of them, as in cast(... as {_spark_name(kinds[1])}).",
            )
        found = [
            text if kind == wider else f"cast({text} as {_spark_name(wider)})"
            for text, kind in zip(texts, kinds, strict=True)
        ]
        return found[0], found[1]

    def _type(self, rows: Rows, node: exp.Expr, text: str) -> pa.DataType | None:
        plain = self.both.plain(node)
        if plain is not None and plain.type is not None:
            return plain.type
        return type_of(text, types_of(rows.flow.node))

    # -- which columns are there after it ------------------------------------------------------------------------------

    def _keep_columns(
        self, on: Sequence[tuple[str, str]], further: Sequence[Condition]
    ) -> tuple[tuple[Item, ...], list[Condition]]:
        """Chooses the columns of both sides and gives those of the right names of their own; answers the items, and
        the comparisons with those names."""
        how, wanted = self.text.how, self.text.wanted
        if how in EXISTENCE:  # what the left has, and nothing of the right
            needed = dict.fromkeys([*self.right.key, *(other for _, other in on), *(one.right for one in further)])
            self.right = _selected(self.right, [*map(name_text, needed)], [*needed])
            named = [one for one in self.left.items if one.alias or any(each.name for each in one.columns or ())]
            return tuple(named), list(further)
        ours, left = _chosen(self.left, [*(a for a, _ in on), *(one.left for one in further)], wanted)
        partners = {right: left for left, right in on}
        seen = {one.flat for item in left for one in item.columns or ()}
        copied = {name: name for name, _ in on if name in seen} if how in (RIGHT, FULL) else {}
        taken = {name.lower() for name in ours}
        for name in copied:
            copied[name] = fresh(f"{name}_left", taken)
            taken.add(copied[name].lower())
        mine = [*map(name_text, ours), *(as_column(name_text(name), own) for name, own in copied.items())]
        self.left = _selected(self.left, mine, [*ours, *copied.values()])
        theirs, right = _chosen(self.right, [*partners, *(one.right for one in further)], wanted)
        names, columns = {name: name for name in partners}, [*map(name_text, partners)]
        taken |= {name.lower() for name in partners}
        for name in theirs:
            if name in partners:
                continue
            names[name] = fresh(name if name.lower() not in taken else f"{self.right.items[0].alias}_{name}", taken)
            taken.add(names[name].lower())
            columns.append(as_column(name_text(name), names[name]))
        merged = dict(partners)
        if how in (LEFT, FULL):  # without a partner they are null, and the left's are not
            for name in partners:
                merged[name] = fresh(f"{self.right.items[0].alias}_{name}", taken)
                taken.add(merged[name].lower())
                columns.append(as_column(name_text(name), merged[name]))
        copies = merged.values() if how in (LEFT, FULL) else ()
        validity = [name for name in self._validity() if names.get(name) != name]
        columns += map(name_text, validity)
        self.right = _selected(self.right, columns, [*names.values(), *copies, *validity])
        items = tuple(self._without_partner(item, copied) for item in left)
        both = [one for item in left for one in item.columns or () if one.flat in copied]
        shared = [one for one in both if one.name.lower() in self.text.using]
        if shared:  # by its name alone it is that of whichever side has the row
            items = (*items, Item("", tuple(replace(one, event_time=False) for one in shared)))
        found = right[0]
        moved = {**names, **merged}
        self.shared = {frozenset({copied[name], moved[other]}): name for name, other in on if name in copied}
        own = tuple(replace(one, flat=moved.get(one.flat, one.flat), event_time=False) for one in found.columns or ())
        renamed = [Condition(one.left, one.sign, names[one.right]) for one in further]
        return (*items, replace(found, columns=own, merged=frozenset(self.text.using))), renamed

    def _validity(self) -> list[str]:
        """Columns that say when versions hold: a join as of a time reads them under their own names."""
        if self.text.as_of is None or is_now(self.text.as_of):
            return []
        tables = [one for one in walk(self.right.flow.node) if isinstance(one, SourceTable)]
        return [name for one in tables for name in (one.valid_from, one.valid_to) if name is not None]

    def _without_partner(self, item: Item, copied: Mapping[str, str]) -> Item:
        """An item of the left, whose columns are null in rows of the right alone."""
        columns = item.columns or ()
        found = [one for one in columns if one.flat in copied and one.name.lower() in self.text.using]
        own = tuple(replace(one, flat=copied.get(one.flat, one.flat)) for one in columns)
        return replace(item, columns=own, merged=item.merged | {one.name.lower() for one in found})

    def _words(self, matching: Matching) -> Words:
        how = self.text.how
        if self.bounds != Bounds():
            assert self.bounds.low_us is not None
            assert self.bounds.high_us is not None
            between = _signed(self.bounds.low_us), _signed(self.bounds.high_us)
            return Words(matching, how, "", "", between=between)
        if self.text.as_of is None:
            return Words(matching, how, "", "")
        if is_now(self.text.as_of):
            return Words(matching, how, "", "")
        column = self.both.plain(self.text.as_of)
        if column is None or not column.event_time:
            raise self._refusal(
                "FOR SYSTEM_TIME AS OF is not the time of the stream",
                f"Name {self._time()}, or current_timestamp() for the table as it is when the event comes.",
            )
        times = [one.time for one in walk(self.left.flow.node) if isinstance(one, SourceStream)]
        return Words(matching, how, "", "", as_of=times[0])

    def _time(self) -> str:
        found = [one.name for item in self.left.items for one in item.columns or () if one.event_time]
        return found[0] if found else "the column of its time, which CREATE STREAM says WITH (time = '...')"


def _chosen(rows: Rows, needed: Sequence[str], wanted: frozenset[str] | None) -> tuple[list[str], list[Item]]:
    """Names of the frame that are needed after the join, and the items with only those columns."""
    items = [
        replace(
            item,
            columns=tuple(one for one in item.columns or () if wanted is None or one.name.lower() in wanted),
        )
        for item in rows.items
        if item.alias or any(one.name for one in item.columns or ())
    ]
    named = [one.flat for item in items for one in item.columns or ()]
    return list(dict.fromkeys([*rows.key, *needed, *named])), items


def _selected(rows: Rows, columns: Sequence[str], names: Sequence[str]) -> Rows:
    """Nothing is chosen where all columns of the frame are."""
    flats = {one.flat for item in rows.items for one in item.columns or ()} | set(rows.key)
    if set(names) == flats and set(map(name_text, names)) == set(columns):
        return rows
    return replace(rows, flow=rows.flow.select(*columns))


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that Spark compares values of two in; None where it is for the user to say."""
    kinds = (one, other)
    if all(map(pa.types.is_integer, kinds)):
        return pa.int64()
    if not all(map(is_number, kinds)):
        return UTC if {one, other} == {pa.date32(), UTC} else None
    if any(map(pa.types.is_floating, kinds)):
        return pa.float64()
    if all(map(pa.types.is_decimal, kinds)):
        scale = max(kind.scale for kind in kinds)
        whole = max(kind.precision - kind.scale for kind in kinds)
        return pa.decimal128(min(whole + scale, 38), scale)
    return pa.decimal128(38, max(kind.scale for kind in kinds if pa.types.is_decimal(kind)))


def _as_written(node: exp.Expr) -> str:
    """As the user wrote it: columns of a query in brackets have no name of his."""
    inner = node.unnest() if isinstance(node, exp.Paren) else node
    of_query = isinstance(inner, exp.Column) and inner.table.startswith(" ")
    return "the value of the query" if of_query else node.sql(dialect="spark")


def _spark_name(kind: pa.DataType) -> str:
    """
    >>> _spark_name(pa.int64()), _spark_name(pa.decimal128(9, 2)), _spark_name(pa.timestamp("us", "UTC"))
    ('bigint', 'decimal(9, 2)', 'timestamp')
    """
    if pa.types.is_decimal(kind):
        return str(kind).replace("decimal128", "decimal")
    return NAMES.get(kind, str(kind))


def _signed(us: int) -> str:
    return f"-{spelled(-us)}" if us < 0 else spelled(us)
