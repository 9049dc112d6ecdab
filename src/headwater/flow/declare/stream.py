"""The handles users hold: streams of facts, and tables of the latest row per key."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.aggregates import refuse_exact
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.clustering import kmeans_of
from headwater.flow.declare.comparisons import fitted
from headwater.flow.declare.duration import duration_us
from headwater.flow.declare.histories import history_of
from headwater.flow.declare.joins import IGNORE, join_of, refuse_counting
from headwater.flow.declare.joins import Words as JoinWords
from headwater.flow.declare.matching import ColumnOf, Match, matching_of
from headwater.flow.declare.patterns.matches import TRIES, Words, match_of, refuse_unbounded
from headwater.flow.declare.tables.keeping import kept_aggregate, kept_latest
from headwater.flow.declare.tables.ranking import neighbours_of, rank_of
from headwater.flow.declare.tables.searching import HitOptions, Points, Text, percolate_of
from headwater.flow.declare.tables.set_operations import beside_of, not_in_of, refuse_null_aware, set_operation_of
from headwater.flow.declare.topology.nodes import (
    Aggregate,
    Apply,
    Changes,
    Compared,
    Dedupe,
    Explode,
    Expression,
    Latest,
    Newest,
    Node,
    Select,
    TableAggregate,
    Union,
    Where,
    Windowed,
    WithColumns,
    key_of,
    walk,
    windowed_of,
)
from headwater.flow.declare.windows import EVENT, PROCESSING, TIMES, emission_of
from headwater.flow.formats.schema import nearest
from headwater.flow.operators.comparisons.kinds import Comparison
from headwater.flow.operators.ranks.neighbours import LAG, LEAD, Neighbour
from headwater.flow.operators.tables.sets import EXCEPT, INTERSECT
from headwater.flow.operators.windows.aligned import AlignedWindow
from headwater.flow.operators.windows.step import END, START
from headwater.flow.operators.windows.window import Window

On = str | list[str] | tuple[str, ...] | Match


class Flowing:
    """What streams and tables have in common. `node` is the declaration; every step makes another handle."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def __getattr__(self, name: str) -> ColumnOf:
        """A column by its name, for the condition of a join: `orders.user_id == users.id`."""
        if name.startswith("_") or name == "node":
            raise AttributeError(name)
        return ColumnOf(self.node, name)

    def __getitem__(self, name: str) -> ColumnOf:
        """The same, of a column that is called like a method."""
        return ColumnOf(self.node, name)


class Stream(Flowing):
    """Facts in the order of their log. Each method gives a new stream or table and changes nothing."""

    def select(self, *columns: Expression) -> "Stream":
        """These columns only: names, SQL text such as "amount * 2 as doubled", or PySpark columns."""
        return Stream(Select(calling_place(), self.node, _some(columns, "select")))

    def where(self, condition: Expression) -> "Stream":
        """Rows for which the condition is true; the others are counted as filtered."""
        return Stream(Where(calling_place(), self.node, condition))

    filter = where

    def with_columns(self, **columns: Expression) -> "Stream":
        """Add or replace columns: `with_columns(total="price * count")`."""
        _refuse_reserved(columns, "with_columns")
        return Stream(WithColumns(calling_place(), self.node, columns))

    def explode(self, column: str, into: str | None = None, *, outer: bool = False) -> "Stream":
        """One row for each element of an array column. Rows without any are counted as filtered, unless `outer`."""
        _refuse_reserved([into or column], "explode")
        return Stream(Explode(calling_place(), self.node, column, into or column, outer))

    def apply(self, function: Callable[..., Any]) -> "Stream":
        """Any function DataFrame → DataFrame that looks at one row at a time."""
        return Stream(Apply(calling_place(), self.node, function, getattr(function, "__name__", "function")))

    def union(self, *others: "Stream") -> "Stream":
        """All rows of all of them; columns are matched by name."""
        given: tuple[object, ...] = others
        if wrong := [other for other in given if not isinstance(other, Stream)]:
            raise InvalidDeclaration(
                f"union() at {calling_place()} is given a {type(wrong[0]).__name__}",
                "A stream is united with streams; table.changes() makes a stream of a table.",
            )
        return Stream(Union(calling_place(), (self.node, *(other.node for other in others))))

    def dedupe(self, *key: str, within: str, name: str = "") -> "Stream":
        """The first row with each key; what repeats it within the time is counted as a duplicate."""
        refuse_unbounded(self.node, "dedupe", calling_place())
        return Stream(Dedupe(calling_place(), self.node, _names(key, "dedupe"), duration_us(within), name))

    def by(self, *key: str) -> "Grouped":
        """Group by columns, to aggregate: `orders.by("currency").agg(f.sum("amount").alias("revenue"))`."""
        return Grouped(self.node, _names(key, "by"))

    def agg(self, *aggregates: Expression, name: str = "") -> "Table":
        """Aggregates of all rows, as one row, which is there also before any row comes: `orders.agg("count(*) as n")`.
        The key of its view is empty: `@app.view(key=[])`."""
        return Grouped(self.node, ()).agg(*aggregates, name=name)

    def window(self, window: Window, *, time: str = EVENT) -> "WindowedStream":
        """Cut time into windows: `clicks.window(hw.tumbling("5 minutes")).by("url").agg("count(*) as clicks")`.

        `time` is "event", when things happened; or "processing", when this job came to read of them.
        """
        given: object = window
        if not isinstance(given, Window):
            raise InvalidDeclaration(
                f"window() at {calling_place()} is given {given!r}", 'Use for example hw.tumbling("5 minutes").'
            )
        if timeless := [node for node in walk(self.node) if isinstance(node, Changes)]:
            raise InvalidDeclaration(
                f"window() at {calling_place()} comes after changes() at {timeless[0].place}, which have no event time",
                "Window the stream that the table is made from.",
            )
        refuse_unbounded(self.node, "window", calling_place())
        if window.ordered:
            refuse_counting(self.node)
        if time not in TIMES:
            raise InvalidDeclaration(f"window() at {calling_place()} has time={time!r}", nearest(time, TIMES))
        if time == PROCESSING and not isinstance(window, AlignedWindow):
            raise InvalidDeclaration(
                f"window() at {calling_place()} is to be of processing time, and depends on the rows that are in it",
                "Use tumbling, hopping or calendar windows, or event time.",
            )
        return WindowedStream(self.node, window, processing=time == PROCESSING)

    def join(
        self,
        other: "Stream | Table",
        *,
        on: On,
        how: str = "inner",
        prefix: str = "",
        within: str | None = None,
        between: tuple[str, str] | None = None,
        as_of: str | None = None,
        wait: str | None = None,
        on_change: str = IGNORE,
        key: str | list[str] | tuple[str, ...] = (),
        corrections: str | None = None,
        name: str = "",
    ) -> "Stream | Table":
        """Rows of both that have the same values in some columns: `on="user_id"`, a list of such names, or
        `orders.user_id == users.id`, with more comparisons after `&`.

        With a stream: rows of it `within` a time behind, or `between` two times. With a table: its row as it is when
        the event comes, `wait` if it may come later; or that which held at the event's time, `as_of` that column.
        `on_change="update"` follows the table, and `corrections` what comes for the past: then it is a table.
        """
        given: object = other
        if not isinstance(given, Flowing):
            raise InvalidDeclaration(
                f"join() at {calling_place()} is given a {type(given).__name__}", "It joins streams and tables."
            )
        own = (key,) if isinstance(key, str) else tuple(key)
        for one in (self, other):
            refuse_unbounded(one.node, "join", calling_place())
        matching = matching_of(on, self, other)
        words = JoinWords(matching, how, prefix, name, within, between, as_of, wait, on_change, own, corrections)
        node = join_of(self.node, other.node, words)
        return Table(node) if node.keyed else Stream(node)

    def match(
        self,
        *,
        by: str | Sequence[str],
        pattern: str,
        define: Mapping[str, str] | None = None,
        measures: Mapping[str, str] | None = None,
        order: str | None = None,
        within: str | None = None,
        max_rows: int | None = None,
        tries: int = TRIES,
        subset: Mapping[str, Sequence[str]] | None = None,
        rows: str = "one",
        skip: str = "past last row",
        timeouts: bool = False,
        corrections: str | None = None,
        name: str = "",
    ) -> "Stream | Table":
        """Matches of a pattern in the rows of each key, in the order of time: SQL's row pattern recognition.

        `define` says what a row of each variable is like, `measures` what is shown. A match ends `within` a time after
        its first row, or has `max_rows` at most. `rows` is "one" for each match, "all", "all omit empty" or "all with
        unmatched"; `skip` is "past last row", "to next row", "to first a" or "to last a". With `timeouts` what began
        and could not end in time is shown, too. With `corrections` late rows change matches: then it is a table.
        """
        members = {one: tuple(several) for one, several in (subset or {}).items()}
        node = match_of(self.node, Words(
            (by,) if isinstance(by, str) else tuple(by), pattern, define or {}, measures or {}, order, within, max_rows,
            tries, members, rows, skip, timeouts, corrections, name,
        ))  # fmt: skip
        return Table(node) if node.keyed else Stream(node)

    def percolate(
        self,
        queries: "Table",
        *,
        text: Text,
        query: str = "query",
        where: Expression | None = None,
        points: Points | None = None,
        as_of: str | None = None,
        default: str = "or",
        prefix: str = "",
        highlight: bool = False,
        explain: bool = False,
        name: str = "",
    ) -> "Stream":
        """A row for each of these documents and each stored query, in column `query` of a table, that matches it.

        `text` are the columns that are searched: names, or names with their analyzers, such as "english". Rows have
        the columns of both, and a `score`; with `highlight` also `highlights`, with `explain` an `explanation`.
        Queries are those that are stored when a document comes; with `as_of` those that were at its time.
        """
        documents = self if where is None else self.where(where)
        options = HitOptions(prefix, highlight, explain, name)
        return Stream(percolate_of(documents.node, queries.node, text, query, points, default, as_of, options))

    def latest(self, *key: str, keep: str | None = None, name: str = "") -> "Table":
        """The newest row for each key; with `keep="30 days"` it is removed when no row has come for so long."""
        if keep is not None:
            return Table(kept_latest(self.node, _names(key, "latest"), keep, name))
        return Table(Latest(calling_place(), self.node, _names(key, "latest"), name))


class Grouped:
    def __init__(self, node: Node, key: tuple[str, ...]) -> None:
        self._node, self._key = node, key

    def agg(self, *aggregates: Expression, keep: str | None = None, name: str = "") -> "Table":
        """Keep aggregates for each key: SQL text such as "sum(amount) as revenue", or PySpark columns.

        With `keep="30 days"` a key that has had no row for so long, by event time, is removed; it is counted as
        expired, and starts again if it comes again.
        """
        if keep is not None:
            return Table(kept_aggregate(self._node, self._key, _some(aggregates, "agg"), keep, name))
        kind = TableAggregate if self._node.keyed else Aggregate
        if not self._node.keyed:
            refuse_exact(aggregates)
        return Table(kind(calling_place(), self._node, self._key, _some(aggregates, "agg"), name))

    def count(self, name: str = "", *, keep: str | None = None) -> "Table":
        """How many rows each key has had, as column `count`."""
        return self.agg("count(*) as count", keep=keep, name=name)


class WindowedStream:
    """A stream cut into windows. Aggregate it as it is, or for each key of `by`."""

    def __init__(self, node: Node, window: Window, by: tuple[str, ...] = (), *, processing: bool = False) -> None:
        self._node, self._window, self._by, self._processing = node, window, by, processing

    def by(self, *key: str) -> "WindowedStream":
        """For each of these columns' values apart."""
        return WindowedStream(self._node, self._window, _names(key, "by"), processing=self._processing)

    def agg(
        self,
        *aggregates: Expression,
        emit: str | None = None,
        corrections: str | None = None,
        early: bool = False,
        name: str = "",
    ) -> "Table":
        """A row for each key and window, with columns `window_start` and `window_end`.

        `emit` says when: "updates" emits every change at once, "final" each window once, when no row can come for it
        any more, "corrections" the same and then what late rows within `corrections` change. With `early` results are
        emitted before the end as well, and column `final` distinguishes them.
        """
        emission = emission_of(emit, corrections, early)
        chosen = _some(aggregates, "agg")
        node = Windowed(
            calling_place(), self._node, self._window, self._by, chosen, emission, name, self._processing
        )  # fmt: skip
        if taken := [column for column in self._by if column in {*node.reserved, START, END}]:
            raise InvalidDeclaration(
                f"by() at {node.place} names column {taken[0]}, which windows have themselves",
                "Give it another name with with_columns(...).",
            )
        return Table(node)

    def kmeans(self, columns: Sequence[str], k: int, *, half_life: str | None = None, name: str = "") -> "Table":
        """The centres of k clusters, which move with every window and forget half of what they know in a half-life.

        A table with a row for each `cluster` (and key of `by`): the columns, its `weight`, and `until` when it has
        learned. It learns from a window once, when no row can come for it any more.
        """
        return Table(kmeans_of(self._node, self._window, self._by, columns, k, half_life, name, self._processing))

    def count(self, *, emit: str | None = None, corrections: str | None = None, name: str = "") -> "Table":
        """How many rows each key has in each window, as column `count`."""
        return self.agg("count(*) as count", emit=emit, corrections=corrections, name=name)


class Table(Flowing):
    """The latest row for each key, and every change of it."""

    def select(self, *columns: Expression) -> "Table":
        """These columns only. What is kept, joined or ranked needs the key among them; what is grouped does not."""
        return Table(Select(calling_place(), self.node, _some(columns, "select")))

    def where(self, condition: Expression) -> "Table":
        """Rows for which the condition is true; a row that no longer meets it is deleted."""
        return Table(Where(calling_place(), self.node, condition))

    filter = where

    def with_columns(self, **columns: Expression) -> "Table":
        """Add or replace columns that are computed from the row."""
        _refuse_reserved(columns, "with_columns")
        return Table(WithColumns(calling_place(), self.node, columns))

    def explode(self, column: str, into: str | None = None, *, outer: bool = False, position: str = "") -> "Table":
        """One row for each element of an array column, none for an empty one, unless `outer`.

        `position` names a column for the place of the element, from 0: it is part of the key of the result, which is
        that of the table and this. Without it the result can be grouped, and not be kept or joined.
        """
        _refuse_reserved([into or column, position or column], "explode")
        return Table(Explode(calling_place(), self.node, column, into or column, outer, position))

    def union(self, *others: "Table", part: str = "") -> "Table":
        """All rows of all of them, also those that are alike: UNION ALL. Columns are matched by name.

        `part` names a column that says which of them a row is of, from 0: the key of the result is this column, and
        the key that all of them have. Without it the result can be grouped, `distinct()` for one, and not be kept or
        joined.
        """
        place, given = calling_place(), tuple[object, ...](others)
        if wrong := [other for other in given if not isinstance(other, Table)]:
            raise InvalidDeclaration(
                f"union() at {place} is given a {type(wrong[0]).__name__}",
                "A table is united with tables; stream.latest(...) makes a table of a stream.",
            )
        _refuse_reserved([part] if part else [], "union")
        parts = (self.node, *(other.node for other in others))
        keys = {frozenset(key_of(one)) for one in parts}
        if part and len(keys) > 1:
            said = " and ".join(sorted(f"({', '.join(sorted(key))})" for key in keys))
            raise InvalidDeclaration(
                f"union() at {place} is of tables with the keys {said}, and its result would have none",
                "Give their keys the same names, or leave out part= and group the result.",
            )
        return Table(Union(place, parts, part))

    def distinct(self, *columns: str, name: str = "") -> "Table":
        """Each combination of the values of some columns once, or of all columns: they are the key of the result. It
        is deleted when the last row that has it goes."""
        place = calling_place()
        if columns:
            return Table(TableAggregate(place, self.node, _names(columns, "distinct"), (), name))
        from headwater.flow.declare.checks.columns import known_columns  # which knows of apps, and these of tables

        known = known_columns(self.node)
        if known is None:
            raise InvalidDeclaration(
                f"distinct() at {place} is of columns that only Spark knows", 'Name them: distinct("country", "city").'
            )
        return Table(TableAggregate(place, self.node, known, (), name))

    def by(self, *key: str) -> "Grouped":
        """Group by columns, to aggregate: `users.by("country").agg("count(*) as users")`.

        The result follows every change of the rows: what an update or a delete takes away, its group loses, and a group
        without rows is deleted. It is a table like any other, with a row for each group.
        """
        return Grouped(self.node, _names(key, "by"))

    def agg(self, *aggregates: Expression, name: str = "") -> "Table":
        """Aggregates of all rows, as one row, which is there also while there are none: `users.agg("count(*) as n")`.
        The key of its view is empty: `@app.view(key=[])`."""
        return Grouped(self.node, ()).agg(*aggregates, name=name)

    def compare(self, *, name: str = "", **columns: Comparison) -> "Table":
        """Windows beside earlier ones of their key: `compare(yesterday=hw.change("n", "1 day"))`."""
        place = calling_place()
        windows = windowed_of(self.node)
        if windows is None or not isinstance(windows.window, AlignedWindow):
            raise InvalidDeclaration(
                f"compare() at {place} is of no tumbling, hopping or calendar windows",
                'Cut time into windows first: .window(hw.tumbling("1 minute")).by(...).agg(...).compare(...).',
            )
        _refuse_reserved(columns, "compare")
        _some(tuple(columns), "compare")
        return Table(Compared(place, self.node, fitted(columns, windows.window, place), name))

    def join(
        self,
        other: "Table",
        *,
        on: On,
        how: str = "inner",
        prefix: str = "",
        null_aware: bool | str | Sequence[str] = False,
        name: str = "",
    ) -> "Table":
        """Rows of both that have the same values in some columns: `on="user_id"`, a list of such names, or
        `follows.followee == posts.author`, with more comparisons after `&`.

        What is joined on is there once, under the left's name; `prefix` stands before the other columns of the right.
        `how` is inner, left, right or full; or semi for rows that meet some of the right (IN, EXISTS), anti for those
        that meet none (NOT EXISTS). An anti join that is `null_aware` is NOT IN: where a null on either side could be
        the other's value, the row is not in the result.
        """
        _only_tables(other, "join", "A table is joined with a table; a stream is joined with either: stream.join(...).")
        matching = matching_of(on, self, other)
        if null_aware:
            refuse_null_aware(how, prefix)
            return Table(not_in_of(calling_place(), self.node, other.node, matching, null_aware, name))
        return Table(join_of(self.node, other.node, JoinWords(matching, how, prefix, name)))

    def with_scalar(self, other: "Table", *, prefix: str = "", name: str = "") -> "Table":
        """The columns of another table's only row, in every row:
        `orders.with_scalar(orders.agg("avg(amount) as mean"))`.

        They are null while the other table is empty; that it has several rows is an error. When it changes, every row
        does.
        """
        _only_tables(other, "with_scalar", "Make a table of one row, for example with agg(...).")
        return Table(beside_of(calling_place(), self.node, other.node, prefix, name))

    def intersect(self, other: "Table", *, all: bool = False, copy: str = "copy", name: str = "") -> "Table":
        """Rows that are in both tables, with all their columns, which are matched by name; nulls are the same here.

        Each is there once. With `all` it is there as often as in the table that has it less often, and column `copy`
        numbers its copies from 1 on. All columns together are the key.
        """
        _only_tables(other, "intersect", "It compares the rows of two tables.")
        place = calling_place()
        return Table(set_operation_of(place, self.node, other.node, how=INTERSECT, all=all, copy=copy, name=name))

    def except_(self, other: "Table", *, all: bool = False, copy: str = "copy", name: str = "") -> "Table":
        """Rows that are not in the other table; with `all`, as often as this one has them more often. The rest is as
        with `intersect`."""
        _only_tables(other, "except_", "It compares the rows of two tables.")
        place = calling_place()
        return Table(set_operation_of(place, self.node, other.node, how=EXCEPT, all=all, copy=copy, name=name))

    def newest(self, *by: str, order: str, limit: int, into: str = "rows", name: str = "") -> "Table":
        """For each value of some columns the rows with the highest `order`, at most `limit`, as a list in one column.

        It is right also when rows of it are deleted or changed: those behind them move up.
        """
        if limit < 1:
            raise InvalidDeclaration(f"newest() at {calling_place()} has limit {limit}", "It is at least 1.")
        if order in by:
            raise InvalidDeclaration(
                f"newest() at {calling_place()} orders by {order}, which is the same in all rows of a group",
                "Order by another column.",
            )
        _refuse_reserved([into], "newest")
        return Table(Newest(calling_place(), self.node, _names(by, "newest"), order, limit, into, name))

    def rank(
        self,
        *,
        by: str | Sequence[str] = (),
        order: str | Sequence[str],
        into: str = "place",
        how: str = "row_number",
        limit: int | None = None,
        name: str = "",
    ) -> "Table":
        """The first rows of each group, with their ranks as a column:
        `rank(by="country", order="spent desc", limit=3)`.

        `how` is row_number (ties are broken by the table's key), rank or dense_rank, as in SQL; without
        `by` all rows are one group. Rows whose place is above `limit` are not in the result.
        """
        place = calling_place()
        return Table(rank_of(place, self.node, by=by, order=order, into=into, how=how, limit=limit, name=name))

    def lag(
        self, column: str, *, by: str | Sequence[str] = (), order: str | Sequence[str], into: str, offset: int = 1,
        default: str = "", name: str = "",
    ) -> "Table":  # fmt: skip
        """Beside each row what a column has in the row before it in its group:
        `lag("amount", by="user_id", order="at", into="previous")`.

        `offset` is how many rows before; `default` names a column of the row that counts where there is no such row.
        Rows equal in the order are ordered by the table's key.
        """
        return self._beside(Neighbour(into, column, LAG, offset, default), by, order, name)

    def lead(
        self, column: str, *, by: str | Sequence[str] = (), order: str | Sequence[str], into: str, offset: int = 1,
        default: str = "", name: str = "",
    ) -> "Table":  # fmt: skip
        """The same of a row after it."""
        return self._beside(Neighbour(into, column, LEAD, offset, default), by, order, name)

    def _beside(self, value: Neighbour, by: str | Sequence[str], order: str | Sequence[str], name: str) -> "Table":
        return Table(neighbours_of(calling_place(), self.node, [value], by=by, order=order, name=name))

    def history(self, *, valid_from: str = "valid_from", valid_to: str = "valid_to", name: str = "") -> "Table":
        """Every version of every row, with since when and until when it holds: a slowly changing dimension of type 2.

        The last version of a row has no end. The key is that of the table and `valid_from`.
        """
        _refuse_reserved([valid_from, valid_to], "history")
        return Table(history_of(self.node, valid_from, valid_to, name))

    def changes(self) -> Stream:
        """Every change as a fact: columns `op` (c, u, d), `before`, `after`, and the key."""
        return Stream(Changes(calling_place(), self.node))


def _only_tables(given: object, method: str, hint: str) -> None:
    if not isinstance(given, Table):
        raise InvalidDeclaration(f"{method}() at {calling_place()} is given a {type(given).__name__}", hint)


def _names(key: tuple[str, ...], method: str) -> tuple[str, ...]:
    given: tuple[object, ...] = key
    if not given or not all(isinstance(name, str) for name in given):
        raise InvalidDeclaration(
            f"{method}() at {calling_place()} needs names of columns",
            "Make a column first with with_columns(name=...) and then name it.",
        )
    if twice := [name for place, name in enumerate(key) if name in key[:place]]:
        raise InvalidDeclaration(f"{method}() at {calling_place()} names column {twice[0]} twice", "Once is enough.")
    return key


def _refuse_reserved(names: Iterable[str], method: str) -> None:
    if reserved := [name for name in names if name.startswith("_")]:
        raise InvalidDeclaration(
            f"{method}() at {calling_place()} makes column {reserved[0]}, and names that begin with _ are reserved",
            "Give it another name.",
        )


def _some(columns: tuple[Expression, ...], method: str) -> tuple[Expression, ...]:
    if not columns:
        raise InvalidDeclaration(f"{method}() at {calling_place()} needs at least one column")
    return columns
