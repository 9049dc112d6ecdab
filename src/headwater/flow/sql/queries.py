"""From the tree of a query to a stream or a table, step by step, with the declarations that Python makes (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from headwater.flow.declare.stream import Grouped, Stream
from headwater.flow.declare.topology.nodes import key_of
from headwater.flow.formats.schema import parse_ddl
from headwater.flow.operators.joins.pairing import ANTI, EXISTENCE, FULL, INNER, LEFT, RIGHT, SEMI
from headwater.flow.operators.windows.step import END, START
from headwater.flow.sql.combining import combined
from headwater.flow.sql.environment import Environment
from headwater.flow.sql.from_items import rows_of, with_lateral
from headwater.flow.sql.grouping import Stage, grouped, is_grouped, is_whole_window
from headwater.flow.sql.joining import JoinText, joined
from headwater.flow.sql.ranking import bounds_of, first_rows, newest_of, ranked, windows_in
from headwater.flow.sql.reading.dialect import name_text
from headwater.flow.sql.reading.join_order import implied, order_of
from headwater.flow.sql.reading.source_text import start_of
from headwater.flow.sql.relations import Column, Flow, Relation, Rows, as_column, conjuncts, flow_of, fresh, transformed
from headwater.flow.sql.subqueries import Queries, filtered, with_scalars
from headwater.flow.sql.subqueries import has_query as has_query_in

NOT_READ = {
    "limit": "", "offset": "OFFSET", "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY",
    "windows": "WINDOW", "connect": "CONNECT BY", "match": "MATCH_RECOGNIZE", "into": "INTO", "sample": "TABLESAMPLE",
    "pivots": "PIVOT", "locks": "FOR UPDATE",
}  # fmt: skip


@dataclass(frozen=True)
class Hints:
    """What a query around it, or a view, wants of a query."""

    bounds: Mapping[str, int] = field(default_factory=dict)
    """Of ranks: the highest that is looked at, by the name of the column."""
    key: tuple[str, ...] = ()
    grouped: bool = False
    """Its rows are grouped, and nothing else looks at them."""


def compiled(query: exp.Expr, environment: Environment, hints: Hints | None = None) -> Relation:
    """InvalidDeclaration, with its position in the text, for what flows cannot keep."""
    hints = hints or Hints()
    query = query.unnest() if isinstance(query, exp.Subquery | exp.Paren) else query
    environment = _with_named(query, environment)
    if isinstance(query, exp.SetOperation):
        within = replace(hints, bounds={}, grouped=hints.grouped and isinstance(query, exp.Union))
        sides = [compiled(one, environment, within) for one in (query.left, query.right)]
        relation = combined(query, sides[0], sides[1], environment.source, grouped=hints.grouped)
        return _ordered_set(query, relation, environment)
    if not isinstance(query, exp.Select):
        raise environment.source.refusal(
            start_of(query), f"{type(query).__name__.upper()} is nothing that flows read", "Write SELECT ... FROM ...."
        )
    return _Block(query, environment, hints).relation()


def _with_named(query: exp.Expr, environment: Environment) -> Environment:
    """With the common table expressions of a query."""
    given = query.args.get("with_") or query.args.get("with")
    if given is None:
        return environment
    if given.args.get("recursive"):
        called = ", ".join(one.alias for one in given.expressions)
        raise environment.source.refusal(
            start_of(given), f"WITH RECURSIVE {called} cannot be kept: a row that is deleted would have to be followed "
            "through every round",
            "Keep the tables that it reads as views, and ask this query of them with headwater sql; or write as many "
            "joins as there are steps.",
        )  # fmt: skip
    for one in given.expressions:
        names = [each.name for each in one.args["alias"].args.get("columns") or ()]
        relation = compiled(one.this, environment)
        if names and relation.columns is not None:
            pairs = zip(relation.columns, names, strict=False)
            relation = replace(relation, columns=tuple(replace(each, name=name) for each, name in pairs))
        environment = environment.having(one.alias, relation)
    return environment


def _ordered_set(query: exp.SetOperation, relation: Relation, environment: Environment) -> Relation:
    if query.args.get("order") is None and query.args.get("limit") is None:
        return relation
    raise environment.source.refusal(
        start_of(query.args.get("order") or query.args["limit"]), "ORDER BY and LIMIT stand after a combination",
        "Put it in brackets: SELECT * FROM (... UNION ...) ORDER BY ... LIMIT ....",
    )  # fmt: skip


class _Block:
    """One SELECT."""

    def __init__(self, select: exp.Select, environment: Environment, hints: Hints) -> None:
        self.select, self.environment, self.hints = select.copy(), environment, hints
        self.source = environment.source

    def relation(self) -> Relation:
        self._refuse_others()
        conditions = conjuncts(self.select.args["where"].this if self.select.args.get("where") else None)
        rows, left = self._from(conditions)
        for lateral in self.select.args.get("laterals") or ():
            rows = with_lateral(rows, lateral)
        for one in left:
            rows = filtered(rows, one, self._queries) if has_query_in(one) else rows.where(rows.text(one))
        rows = self._with_scalars(rows)
        if (newest := self._newest(rows)) is not None:
            return newest
        stage = grouped(rows, self.select) if is_grouped(self.select) else self._plain(rows)
        if stage.windowed is False and rows.window is not None and not is_grouped(self.select):
            raise self.source.refusal(
                start_of(self.select), "rows of TUMBLE, HOP or SESSION are not grouped",
                "Add GROUP BY window_start, window_end.",
            )  # fmt: skip
        stage = ranked(stage, self._windows(), self._bounds(), rows)
        if (qualify := self._qualify(rows)) is not None:
            stage = replace(stage, flow=stage.flow.where(stage.text(qualify)))
        relation = self._projected(stage, rows)
        return self._distinct(relation) if self.select.args.get("distinct") else relation

    def _refuse_others(self) -> None:
        if not self.select.expressions:
            raise self.source.refusal(start_of(self.select), "SELECT has no columns", "Name them, or write *.")
        for name, said in NOT_READ.items():
            if said and (part := self.select.args.get(name)):
                where = part if isinstance(part, exp.Expr) else part[0]
                raise self.source.refusal(start_of(where), f"{said} cannot be kept from batch to batch")
        distinct = self.select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self.source.refusal(
                start_of(distinct), "DISTINCT ON is not Spark's", "Use row_number() and a query around it."
            )

    @property
    def _queries(self) -> Queries:
        return Queries(
            lambda query: compiled(query, self.environment),
            lambda select: _Block(select, _with_named(select, self.environment), Hints()).scope(),
        )

    def scope(self) -> Rows:
        """What names in it may mean; nothing is joined."""
        items = self._items()[0]
        return Rows(items[0].flow, tuple(item.items[0] for item in items), self.source)

    def _with_scalars(self, rows: Rows) -> Rows:
        """Queries in SELECT and HAVING that give one value are columns."""
        parts = [*self.select.expressions, *(one for one in (self.select.args.get("having"),) if one is not None)]
        for part in parts:
            if has_query_in(part):
                rows, made = with_scalars(rows, part, self._queries, grouped=is_grouped(self.select))
                part.replace(made)
        return rows

    # -- FROM ----------------------------------------------------------------------------------------------------------

    def _from(self, conditions: Sequence[exp.Expr]) -> tuple[Rows, list[exp.Expr]]:
        """All rows joined, and the conditions that are still to be met."""
        items, joins = self._items()
        hows = [self._how(join) for join in joins]
        early = not self.select.args.get("laterals") and not {RIGHT, FULL} & set(hows)
        everything = Rows(items[0].flow, tuple(item.items[0] for item in items), self.source)
        seen = partial(self._items_of, everything=everything)
        conditions = [*conditions, *(more for one in conditions if early for more in implied(one, seen))]
        of = {id(one): seen(one) for one in conditions} if early else {}
        optional = {number for number, how in enumerate(hows, 1) if how in (LEFT, *EXISTENCE)}
        left = list(conditions)
        for number, _ in enumerate(items):
            for one in [one for one in left if of.get(id(one)) == {number} and number not in optional]:
                items[number] = items[number].where(items[number].text(one))
                left.remove(one)
        free = [True, *(self._is_free(join, how) for join, how in zip(joins, hows, strict=True))]
        order = order_of(free, left, seen) if early else list(range(len(items)))
        rows, there = items[0], {0}
        moved = max((place for place, number in enumerate(order) if place != number), default=0)
        for place, number in enumerate(order[1:], 1):
            there.add(number)
            join, how, more = joins[number - 1], hows[number - 1], list[exp.Expr]()
            if how == INNER:
                more = [one for one in left if number in (named := of.get(id(one)) or set()) and named <= there]
            left = [one for one in left if one not in more]
            rows = self._joined(rows, items[number], join, how, more)
            if place == moved:  # `*` has columns as they are written
                rows = replace(rows, items=tuple(rows.items[order.index(each)] for each in range(moved + 1)))
        return rows, left

    def _is_free(self, join: exp.Join, how: str) -> bool:
        """Whether nothing but WHERE says how it is joined."""
        said = join.args.get("on") or join.args.get("using") or join.this.args.get("version")
        return how == INNER and not said

    def _items(self) -> tuple[list[Rows], list[exp.Join]]:
        source = self.select.args.get("from_") or self.select.args.get("from")
        if source is None:
            raise self.source.refusal(start_of(self.select), "it has no FROM", "Name a stream, a table or a view.")
        joins: list[exp.Join] = list(self.select.args.get("joins") or ())
        items = [self._item(one) for one in (source.this, *(join.this for join in joins))]
        self._refuse_same_names(items)
        return items, joins

    def _item(self, node: exp.Expr) -> Rows:
        hints = Hints(self._bounds_under(node), grouped=self._groups_alone())
        return rows_of(node, self.environment, lambda query, inner: compiled(query, inner, hints))

    def _groups_alone(self) -> bool:
        """Whether rows of FROM are grouped as they are: nothing is joined with them or looked up for them."""
        others = any(self.select.args.get(name) for name in ("joins", "laterals"))
        parts = [*self.select.expressions, self.select.args.get("where"), self.select.args.get("having")]
        looks = any(has_query_in(one) for one in parts if one is not None)
        return is_grouped(self.select) and not others and not looks

    def _bounds_under(self, node: exp.Expr) -> dict[str, int]:
        """What WHERE says of ranks that a query in FROM computes."""
        where = self.select.args.get("where")
        return bounds_of(conjuncts(where.this if where else None), node.alias_or_name)

    def _refuse_same_names(self, items: Sequence[Rows]) -> None:
        seen: set[str] = set()
        for one in items:
            alias = one.items[0].alias.lower()
            if alias and alias in seen:
                raise self.source.refusal(
                    one.items[0].start, f"{one.items[0].alias} stands in FROM twice", "Give one another name with AS."
                )
            seen.add(alias)

    def _items_of(self, node: exp.Expr, everything: Rows) -> set[int] | None:
        """None for what is not looked at before all rows are joined."""
        if has_query_in(node) or not everything.known:
            return None
        return everything.items_in(node)

    def _how(self, join: exp.Join) -> str:
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        if join.method:
            raise self.source.refusal(
                start_of(join), f"{join.method}{side} {kind} JOIN is not read".replace("  ", " "), "Write JOIN ... ON."
            )
        if kind in ("SEMI", "ANTI"):
            return {"SEMI": SEMI, "ANTI": ANTI}[kind]
        return {"LEFT": LEFT, "RIGHT": RIGHT, "FULL": FULL}.get(side, INNER)

    def _joined(self, rows: Rows, item: Rows, join: exp.Join, how: str, more: Sequence[exp.Expr]) -> Rows:
        using = [one.name for one in join.args.get("using") or ()]
        table = join.this
        version = table.args.get("version") if isinstance(table, exp.Table) else None
        conditions = [*conjuncts(join.args.get("on")), *self._equalities(rows, item, using, join), *more]
        if wrong := [one for one in conditions if has_query_in(one)]:
            raise self.source.refusal(start_of(wrong[0]), "ON has a query in it", "Put it into WHERE.")
        text = JoinText(
            how, tuple(conditions), start_of(join.this), version.expression if version is not None else None,
            frozenset(name.lower() for name in using), self._wanted(), self.hints.key,
        )  # fmt: skip
        return joined(rows, item, text)

    def _equalities(self, rows: Rows, item: Rows, using: Sequence[str], join: exp.Join) -> list[exp.Expr]:
        """Of USING (a, b)."""
        found: list[exp.Expr] = []
        for name in using:
            owners = [one.alias for one in rows.items if one.columns is not None and one.find(name)]
            owners = [""] if "" in owners else owners
            if not owners or item.items[0].find(name) is None:
                raise self.source.refusal(start_of(join), f"USING ({name}) is not a column of both sides")
            sides = [exp.column(name, table=alias or None) for alias in (owners[0], item.items[0].alias)]
            found.append(exp.EQ(this=sides[0], expression=sides[1]))
        return found

    def _wanted(self) -> frozenset[str] | None:
        """Names of columns that the query has anywhere; None where it has `*`."""
        stars = [
            one for one in self.select.expressions
            if isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star))
        ]  # fmt: skip
        if stars:
            return None
        return frozenset(one.name.lower() for one in self.select.find_all(exp.Identifier))

    # -- SELECT --------------------------------------------------------------------------------------------------------

    def _plain(self, rows: Rows) -> Stage:
        return Stage(rows.flow, rows.rewritten, frozenset(rows.taken), unique=rows.unique)

    def _windows(self) -> list[tuple[exp.Window, str]]:
        """Ranks and their like, each with the name that SELECT gives it."""
        found = []
        for one in self.select.expressions:
            for window in windows_in(one):
                found.append((window, one.alias if isinstance(one, exp.Alias) and one.this is window else ""))
        qualify = self.select.args.get("qualify")
        return [*found, *((window, "") for window in (windows_in(qualify) if qualify is not None else ()))]

    def _qualify(self, rows: Rows) -> exp.Expr | None:
        """The condition of QUALIFY, with what SELECT computes under a name where the condition has the name."""
        given = self.select.args.get("qualify")
        if given is None:
            return None
        named: dict[str, exp.Expr] = {
            one.alias.lower(): one.this for one in self.select.expressions if isinstance(one, exp.Alias)
        }

        def meant(one: exp.Expr) -> exp.Expr:
            if isinstance(one, exp.Column) and not one.table and rows.find(one) is None:
                return named.get(one.name.lower(), one)
            return one

        return transformed(given.this.copy(), meant)

    def _bounds(self) -> Mapping[str, int]:
        qualify = self.select.args.get("qualify")
        return {**self.hints.bounds, **bounds_of(conjuncts(qualify.this if qualify is not None else None), "")}

    def _newest(self, rows: Rows) -> Relation | None:
        """The newest row of a stream for each key, where that is all that a rank is asked for."""
        if is_grouped(self.select) or not isinstance(rows.flow, Stream):
            return None
        windows = self._windows()
        if len(windows) != 1 or (flow := newest_of(rows, windows[0], self._bounds())) is None:
            return None
        rank = fresh(windows[0][1] or "rank", set(rows.taken))
        own = replace(rows, flow=flow.with_columns(**{rank: "1"}))

        def rewrite(node: exp.Expr) -> exp.Expr:
            return own.rewritten(node, lambda one: exp.Var(this="1") if isinstance(one, exp.Window) else None)

        return self._projected(Stage(own.flow, rewrite, frozenset({*rows.taken, rank})), own)

    def _projected(self, stage: Stage, rows: Rows) -> Relation:
        """The columns of SELECT; those of a table's key go along unseen where it does not have them."""
        made = self._limited(stage, self._chosen(stage, rows))
        columns, texts, flow = made
        key = rows_key(flow)
        flats = {one.flat.lower() for one in columns}
        kept = {text for text in texts if text in {name_text(one) for one in key}}
        hidden = []
        for name in key:
            if name_text(name) not in kept and not any(_renames(text, name) for text in texts):
                hidden.append(as_column(name_text(name), fresh(name, flats)))
        whole = [*texts, *hidden]
        # The first rows of all have their ranks beside the columns, which no query around this one may see.
        if self._selects_all(stage, rows, texts) and (flow is stage.flow or not rows.known):
            return Relation(flow, tuple(columns) if rows.known else None, stage.one_row, stage.unique)
        chosen = flow.select(*whole)
        return Relation(flow_of(chosen.node), tuple(columns), stage.one_row, _selected(stage.unique, columns, texts))

    def _selects_all(self, stage: Stage, rows: Rows, texts: Sequence[str]) -> bool:
        if not rows.known and texts == ["*"]:
            return True
        if is_grouped(self.select) or stage.flow is not rows.flow or not rows.known:
            return False
        visible = [name_text(one.flat) for item in rows.items for one in item.columns or ()]
        return list(texts) == visible and set(map(name_text, rows.key)) <= set(visible)

    def _chosen(self, stage: Stage, rows: Rows) -> tuple[list[Column], list[str]]:
        columns: list[Column] = []
        texts: list[str] = []
        for number, one in enumerate(self.select.expressions, 1):
            for column, text in self._columns(one, number, stage, rows):
                taken = {each.flat.lower() for each in columns}
                flat = fresh(column.flat, taken)
                columns.append(replace(column, flat=flat))
                texts.append(text if text == "*" else as_column(text, flat))
        return columns, texts

    def _columns(self, one: exp.Expr, number: int, stage: Stage, rows: Rows) -> list[tuple[Column, str]]:
        if isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star)):
            return self._starred(one, stage, rows)
        inner = one.unalias()
        if stage.windowed and isinstance(inner, exp.Column) and is_whole_window(inner) and rows.find(inner) is None:
            if isinstance(one, exp.Alias):
                raise self.source.refusal(
                    start_of(one), "a window has two columns, and gets one name",
                    "Select window.start AS ... and window.end AS ....",
                )  # fmt: skip
            return [(Column(name, name), name) for name in (START, END)]
        text = rows.shared_key(inner) or stage.text(inner)
        name = one.alias or (inner.name if isinstance(inner, exp.Column | exp.Dot) else "")
        if stage.windowed and not one.alias and text in (START, END):
            name = text
        plain = rows.plain(inner) if isinstance(inner, exp.Column) and rows.find(inner) is not None else None
        kind = plain.type if plain is not None else _cast_type(inner)
        time = plain is not None and plain.event_time and isinstance(stage.flow, Stream)
        said = name or f"column_{number}"
        if said.startswith("_"):
            raise self.source.refusal(
                start_of(one), f"column {said} begins with _, which is reserved", "Give it another name."
            )
        return [(Column(said, said, kind, time, bool(name)), text)]

    def _starred(self, one: exp.Expr, stage: Stage, rows: Rows) -> list[tuple[Column, str]]:
        star = one.this if isinstance(one, exp.Column) else one
        if is_grouped(self.select):
            raise self.source.refusal(start_of(one), "* stands beside groups", "Name the columns.")
        left_out = {each.name.lower() for each in star.args.get("except_") or star.args.get("except") or ()}
        if star.args.get("replace") or star.args.get("rename"):
            raise self.source.refusal(start_of(one), "* REPLACE is not read", "Name the columns.")
        if not rows.known:
            return [(Column("*", "*"), "*")]
        columns = rows.exposed() or []
        if isinstance(one, exp.Column):
            under = [item for item in rows.items if item.alias.lower() == one.table.lower()]
            if not under:
                return self._fields(one, stage, rows)
            columns = list(under[0].columns or ())
        found = [each for each in columns if each.name.lower() not in left_out]
        return [(replace(each, flat=each.name), name_text(each.flat)) for each in found]

    def _fields(self, one: exp.Column, stage: Stage, rows: Rows) -> list[tuple[Column, str]]:
        """place.*, of a struct whose fields are known."""
        found = rows.resolve(exp.column(one.table))
        kind = found.column.type
        if kind is None or not hasattr(kind, "names"):
            raise self.source.refusal(start_of(one), f"the fields of {one.table} are not known", "Name them.")
        flat = name_text(found.column.flat)
        return [(Column(field.name, field.name, field.type), f"{flat}.{name_text(field.name)}") for field in kind]

    def _limited(self, stage: Stage, chosen: tuple[list[Column], list[str]]) -> tuple[list[Column], list[str], Flow]:
        """ORDER BY ... LIMIT n: the first rows of all."""
        order, limit = self.select.args.get("order"), self.select.args.get("limit")
        if order is None and limit is None:
            return *chosen, stage.flow
        if order is None or limit is None:
            said, hint = ("LIMIT without ORDER BY leaves to chance which rows there are", "Add ORDER BY.")
            if limit is None:
                said, hint = (
                    "ORDER BY: a view has no order",
                    "Leave it out, or add LIMIT; readers order what they read.",
                )
            raise self.source.refusal(start_of(order or limit or self.select), said, hint)
        return *chosen, first_rows(stage, order, limit, self.select, self.source)

    def _distinct(self, relation: Relation) -> Relation:
        if relation.columns is None:
            raise self.source.refusal(start_of(self.select), "DISTINCT is of columns that only Spark knows")
        names = tuple(one.flat for one in relation.columns)
        counted = Grouped(relation.flow.node, names).agg(f"count(*) as {fresh('rows_in_group', set(names))}")
        return Relation(counted.select(*map(name_text, names)), relation.columns)


def rows_key(flow: Flow) -> tuple[str, ...]:
    return key_of(flow.node) if flow.node.keyed else ()


def _selected(names: Sequence[str], columns: Sequence[Column], texts: Sequence[str]) -> tuple[str, ...]:
    """What columns of the frame are called after SELECT; none if it does not have all of them."""
    found = []
    for name in names:
        own = [
            one.flat
            for one, text in zip(columns, texts, strict=True)
            if text == name_text(name) or _renames(text, name)
        ]
        if not own:
            return ()
        found.append(own[0])
    return tuple(found)


def _renames(text: str, name: str) -> bool:
    return text.startswith(f"{name_text(name)} as ")


def _cast_type(node: exp.Expr) -> object:
    if not isinstance(node, exp.Cast):
        return None
    try:
        return parse_ddl(f"x {node.args['to'].sql(dialect='spark')}").fields[0].type
    except Exception:  # noqa: BLE001
        return None
