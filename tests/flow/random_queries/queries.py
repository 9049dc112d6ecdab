"""Random queries: trees of everything that a table can be made of others by, each a SELECT in both dialects."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from headwater.flow.declare.app import App
from headwater.flow.declare.stream import Table
from headwater.flow.sql.environment import relation_of
from headwater.flow.sql.facts import facts_of
from headwater.flow.sql.relations import Relation
from tests.flow.random_queries.aggregates import random_aggregate
from tests.flow.random_queries.expressions import (
    Text,
    Value,
    column_of,
    expression,
    joined_text,
    literal,
    predicate,
    said,
)
from tests.flow.random_queries.schemas import DECIMAL, INT, KINDS, REAL, TIME, Column, Source

Make = Callable[[App], Table]


@dataclass(frozen=True)
class Built:
    """A table that Python makes, which queries read by its name."""

    name: str
    columns: tuple[Column, ...]
    make: Make

    def relation(self, app: App) -> Relation:
        chosen = {one.name for one in self.columns}
        known = relation_of(self.make(app).node)
        assert known.columns is not None
        return Relation(known.flow, tuple(one for one in known.columns if one.name in chosen))


@dataclass(frozen=True)
class Query:
    columns: tuple[Column, ...]
    text: Text
    children: tuple["Query", ...] = ()
    built: tuple[Built, ...] = ()
    """Of it and of all below it."""
    source: Source | None = None
    """It is nothing but this table."""
    way: str = "table"

    def item(self, alias: str) -> Text:
        """It in FROM."""
        if self.source is not None:
            return said(f"{self.source.name} AS {alias}")
        return said(f"({{}}) AS {alias}", self.text)

    @property
    def sources(self) -> frozenset[str]:
        own = {self.source.name} if self.source else set()
        return frozenset(own).union(*(one.sources for one in self.children))

    @property
    def sources_read(self) -> frozenset[Source]:
        own = {self.source} if self.source else set()
        return frozenset(own).union(*(one.sources_read for one in self.children))

    @property
    def ways(self) -> frozenset[str]:
        return frozenset({self.way}).union(*(one.ways for one in self.children))


def _table(app: App, text: Text) -> Table:
    """Rows of a stream as rows of a table, as queries take them."""
    flow = app.sql(text.spark)
    return flow if isinstance(flow, Table) else facts_of(flow)


def table_query(source: Source) -> Query:
    names = ", ".join(one.name for one in source.columns)
    return Query(source.columns, said(f"SELECT {names} FROM {source.name}"), source=source)


@dataclass
class Generator:
    random: Random
    sources: tuple[Source, ...]
    python: bool = True
    """Whether steps are said in Python too."""
    _aliases: int = 0
    _built: int = 0

    def query(self, depth: int) -> Query:
        """A tree of at most so many levels."""
        if depth <= 0:
            return table_query(self.random.choice(self.sources))
        return WAYS[self.random.choice(list(WAYS))](self, depth)

    def below(self, depth: int) -> Query:
        return self.query(self.random.choice((depth - 1, depth - 1, depth - 2, 0)))

    def alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def selected(self, values: list[Value]) -> tuple[tuple[Column, ...], Text]:
        columns = tuple(Column(f"c{place}", one.kind) for place, one in enumerate(values))
        return columns, joined_text([said(f"{{}} AS c{place}", one.text) for place, one in enumerate(values)], ", ")

    def some(self, values: list[Value], least: int = 1) -> list[Value]:
        count = self.random.randint(least, max(least, min(4, len(values))))
        return self.random.sample(values, min(count, len(values)))

    # -- one input -----------------------------------------------------------------------------------------------------

    def filtered(self, depth: int) -> Query:
        child, alias = self.below(depth), self.alias()
        columns = [column_of(alias, one) for one in child.columns]
        made, texts = self.selected(columns)
        text = said("SELECT {} FROM {} WHERE {}", texts, child.item(alias), predicate(self.random, columns))
        return self._of(made, text, child, way="where")

    def projected(self, depth: int) -> Query:
        child, alias = self.below(depth), self.alias()
        columns = [column_of(alias, one) for one in child.columns]
        chosen = [
            expression(self.random, columns, self.random.choice(columns).kind) or columns[0]
            for _ in range(self.random.randint(1, 3))
        ]
        made, texts = self.selected([*self.some(columns), *chosen])
        return self._of(made, said("SELECT {} FROM {}", texts, child.item(alias)), child, way="select")

    def distinct(self, depth: int) -> Query:
        child, alias = self.below(depth), self.alias()
        columns = [column_of(alias, one) for one in child.columns]
        made, texts = self.selected(self.some(columns))
        return self._of(made, said("SELECT DISTINCT {} FROM {}", texts, child.item(alias)), child, way="distinct")

    def grouped(self, depth: int, *, top: bool = False) -> Query:
        child, alias = self.below(depth), self.alias()
        columns = [column_of(alias, one) for one in child.columns]
        keys = self.random.sample(columns, min(self.random.choice((0, 1, 1, 1, 2)), len(columns)))
        if keys and self.random.random() < 0.2:
            keys[0] = expression(self.random, columns, keys[0].kind) or keys[0]
        keys = list({one.text: one for one in keys}.values())
        times = [one for one in columns if one.kind == TIME]
        window = keys and times and self.random.random() < 0.3
        of_facts = any(one.is_stream for one in child.sources_read)
        aggregates = [
            random_aggregate(self.random, columns, approximate=top, of_facts=of_facts)
            for _ in range(self.random.randint(1, 3))
        ]
        values = [*keys, *aggregates]
        group = [one.text for one in keys]
        if window:
            time = self.random.choice(times).text
            values.append(Value(said(
                "window.start", postgres=f"date_bin('10 minutes', {time.postgres}, timestamptz '2000-01-01 00:00:00Z')"
            ), TIME))  # fmt: skip
            group.append(Text(f"window({time.spark}, '10 minutes')", values[-1].text.postgres))
        made, texts = self.selected(values)
        where = predicate(self.random, columns) if self.random.random() < 0.3 else said("true")
        text = said("SELECT {} FROM {}", texts, child.item(alias))
        if where.spark != "true":
            text = said("{} WHERE {}", text, where)
        if window:
            text = said("{} {} {} IS NOT NULL", text, said("AND" if where.spark != "true" else "WHERE"), time)
        if group:
            text = said("{} GROUP BY {}", text, joined_text(group, ", "))
        if self.random.random() < 0.35:
            exact = [*keys, *(one for one in aggregates if one.kind in KINDS)]
            text = said("{} HAVING {}", text, predicate(self.random, exact, 1) if exact else said("count(*) > 1"))
        return self._of(made, text, child, way="group by" if group else "aggregate")

    def ranked(self, depth: int) -> Query:
        child, inner, outer = self.below(depth), self.alias(), self.alias()
        columns = [column_of(inner, one) for one in child.columns]
        by = self.random.sample(columns, min(self.random.choice((0, 1, 1)), len(columns)))
        how = self.random.choice(("row_number", "row_number", "rank", "dense_rank"))
        over = self._over([one for one in columns if one not in by] or columns, whole=how == "row_number")
        partition = said("PARTITION BY {} ", joined_text([one.text for one in by], ", ")) if by else said("")
        made, texts = self.selected(columns)
        place = said(f"{how}() OVER ({{}}ORDER BY {{}}) AS place", partition, over)
        names = ", ".join([*(f"{outer}.{one.name}" for one in made), f"cast({outer}.place as bigint) AS place"])
        limit = self.random.randint(1, 3)
        text = said(
            f"SELECT {names} FROM (SELECT {{}}, {{}} FROM {{}}) AS {outer} WHERE {outer}.place <= {limit}",
            texts, place, child.item(inner),
        )  # fmt: skip
        return self._of((*made, Column("place", INT)), text, child, way=how)

    def first_rows(self, depth: int) -> Query:
        child, alias = self.below(depth), self.alias()
        columns = [column_of(alias, one) for one in child.columns]
        made, texts = self.selected(columns)
        text = said(
            f"SELECT {{}} FROM {{}} ORDER BY {{}} LIMIT {self.random.randint(1, 4)}", texts, child.item(alias),
            self._over(columns, whole=True),
        )  # fmt: skip
        return self._of(made, text, child, way="limit")

    def _over(self, columns: list[Value], *, whole: bool) -> Text:
        """In which order; by all columns, rows that are level are the same."""
        chosen = self.random.sample(columns, len(columns) if whole else min(len(columns), self.random.randint(1, 2)))
        ways = [f"{self.random.choice(('ASC', 'DESC'))} NULLS {self.random.choice(('FIRST', 'LAST'))}" for _ in chosen]
        return joined_text([said(f"{{}} {way}", one.text) for one, way in zip(chosen, ways, strict=True)], ", ")

    def neighbours(self, depth: int) -> Query:
        """lag and its like; rows that are level in the order are the same."""
        child, alias = self.below(depth), self.alias()
        columns = [column_of(alias, one) for one in child.columns]
        by = self.random.sample(columns, min(self.random.choice((0, 1, 1)), len(columns)))
        rest = [one for one in columns if one not in by] or columns
        partition = said("PARTITION BY {} ", joined_text([one.text for one in by], ", ")) if by else said("")
        order, given = self._over(rest, whole=True), self.random.choice(columns)
        value = expression(self.random, columns, given.kind) or given
        whole = " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
        way, spec = self.random.choice((
            ("lag({})", ""), ("lead({})", ""), ("lag({}, 2)", ""), ("lead({}, 2)", ""), ("lag({}, 1, {})", ""),
            ("first_value({})", ""), ("last_value({})", whole),
        ))  # fmt: skip
        parts = [value.text, given.text][: way.count("{}")]
        made, texts = self.selected(columns)
        beside = said(f"{{}} OVER ({{}}ORDER BY {{}}{spec}) AS beside", said(way, *parts), partition, order)
        text = said("SELECT {}, {} FROM {}", texts, beside, child.item(alias))
        return self._of((*made, Column("beside", value.kind)), text, child, way=way.split("(")[0])

    def several_groups(self, depth: int) -> Query:
        """ROLLUP and its like. As in Spark, nothing is there where there are no rows."""
        child, alias = self.below(depth), self.alias()
        columns = [column_of(alias, one) for one in child.columns]
        keys = self.random.sample(columns, min(self.random.choice((1, 2, 2, 3)), len(columns)))
        names = [one.text for one in keys]
        sets = [joined_text(names[:1], ", "), joined_text(names, ", "), said("")]
        group = self.random.choice((
            said("ROLLUP ({})", joined_text(names, ", ")), said("CUBE ({})", joined_text(names, ", ")),
            said("GROUPING SETS (({}), ({}), ({}))", *self.random.sample(sets, 3)),
        ))  # fmt: skip
        aggregate = random_aggregate(self.random, columns, approximate=False)
        of = self.random.choice(keys)
        marks = Value(said("cast(grouping({}) as bigint)", of.text), INT)
        made, texts = self.selected([*keys, aggregate, marks])
        text = said("SELECT {} FROM {} GROUP BY {}", texts, child.item(alias), group)
        having = said("count(*) > 0")
        if self.random.random() < 0.3:
            having = said("count(*) > 0 AND (grouping({}) = 0 OR count(*) > 2)", of.text)
        return self._of(made, said("{} HAVING {}", text, having), child, way="sets of groups")

    # -- two inputs ----------------------------------------------------------------------------------------------------

    def joined(self, depth: int) -> Query:
        left, right = self.below(depth), self.below(depth)
        if self.random.random() < 0.2:
            right = left
        one, other = self.alias(), self.alias()
        ours = [column_of(one, column) for column in left.columns]
        theirs = [column_of(other, column) for column in right.columns]
        how = self.random.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        conditions = self._matches(ours, theirs, more=how != "FULL JOIN")
        made, texts = self.selected([*self.some(ours, 2), *self.some(theirs)])
        on = joined_text(conditions, " AND ")
        text = said(f"SELECT {{}} FROM {{}} {how} {{}} ON {{}}", texts, left.item(one), right.item(other), on)
        return self._of(made, text, left, right, way=how.lower())

    def _matches(self, ours: list[Value], theirs: list[Value], *, more: bool) -> list[Text]:
        """An equality, and perhaps a comparison beside it."""
        pairs = [(a, b) for a in ours for b in theirs if a.kind == b.kind]
        numbers = [(a, b) for a in ours for b in theirs if {a.kind, b.kind} <= {INT, DECIMAL, REAL}]
        if numbers and self.random.random() < 0.2:  # also of different types, and computed
            pair = self.random.choice(numbers)
            right = expression(self.random, theirs, pair[1].kind) or pair[1]
            return [said("{} = {}", pair[0].text, right.text)]
        if not pairs:  # everything meets everything
            return [said("{} = {}", literal(self.random, INT), literal(self.random, INT))]
        chosen = self.random.sample(pairs, min(len(pairs), 2 if more and self.random.random() < 0.4 else 1))
        found = [said("{} = {}", chosen[0][0].text, chosen[0][1].text)]
        if len(chosen) > 1:
            sign = self.random.choice(("=", "<", ">=", "<>"))
            if sign != "=" or not {chosen[0][0], chosen[0][1]} & set(chosen[1]):
                found.append(said(f"{{}} {sign} {{}}", chosen[1][0].text, chosen[1][1].text))
        return found

    def existing(self, depth: int) -> Query:
        left, right = self.below(depth), self.below(depth)
        one, other = self.alias(), self.alias()
        ours = [column_of(one, column) for column in left.columns]
        theirs = [column_of(other, column) for column in right.columns]
        made, texts = self.selected(ours)
        negated = self.random.choice(("", "NOT "))
        condition = said(
            f"{negated}EXISTS (SELECT 1 FROM {{}} WHERE {{}})", right.item(other),
            joined_text(self._matches(ours, theirs, more=True), " AND "),
        )  # fmt: skip
        text = said("SELECT {} FROM {} WHERE {}", texts, left.item(one), condition)
        return self._of(made, text, left, right, way=f"{negated}exists".lower())

    def among(self, depth: int) -> Query:
        left, right = self.below(depth), self.below(depth)
        one, other = self.alias(), self.alias()
        ours = [column_of(one, column) for column in left.columns]
        theirs = [column_of(other, column) for column in right.columns]
        pairs = [(a, b) for a in ours for b in theirs if a.kind == b.kind]
        if not pairs:
            return self.existing(depth)
        pair = self.random.choice(pairs)
        negated = self.random.choice(("", "NOT ", "NOT "))
        if negated and self.python and self.random.random() < 0.5:
            return self._not_in(left, right, pair[0], pair[1], pairs)
        inner = said("SELECT {} FROM {}", pair[1].text, right.item(other))
        rest = [each for each in pairs if each[0] != pair[0] and each[1] != pair[1]]
        if rest and self.random.random() < 0.4:
            outside = self.random.choice(rest)
            inner = said("{} WHERE {} = {}", inner, outside[1].text, outside[0].text)
        elif self.random.random() < 0.3:
            inner = said("{} WHERE {}", inner, predicate(self.random, theirs, 1))
        made, texts = self.selected(ours)
        text = said(f"SELECT {{}} FROM {{}} WHERE {{}} {negated}IN ({{}})", texts, left.item(one), pair[0].text, inner)
        return self._of(made, text, left, right, way=f"{negated}in".lower())

    def scalar(self, depth: int) -> Query:
        left, right = self.below(depth), self.below(depth)
        one, other = self.alias(), self.alias()
        ours = [column_of(one, column) for column in left.columns]
        theirs = [column_of(other, column) for column in right.columns]
        aggregate = random_aggregate(self.random, theirs, approximate=False)
        computed = ("{}", "coalesce({}, 1)", "{} + 1") if aggregate.kind == INT else ("{}",)
        aggregate = Value(said(self.random.choice(computed), aggregate.text), aggregate.kind)
        inner = plain = said("SELECT {} FROM {}", aggregate.text, right.item(other))
        pairs = [(a, b) for a in ours for b in theirs if a.kind == b.kind]
        if pairs and self.random.random() < 0.5:
            pair = self.random.choice(pairs)
            inner = said("{} WHERE {} = {}", inner, pair[1].text, pair[0].text)
        same = [each for each in ours if each.kind == aggregate.kind]
        if same and self.random.random() < 0.5:
            made, texts = self.selected(ours)
            sign = self.random.choice(("<", ">", "=", "<>"))
            condition = said(f"{{}} {sign} ({{}})", self.random.choice(same).text, inner)
            text = said("SELECT {} FROM {} WHERE {}", texts, left.item(one), condition)
        else:
            if self.python and self._aliases % 2 and inner == plain:
                return self._beside(left, right, inner, aggregate.kind)
            made, texts = self.selected([*ours, Value(said("({})", inner), aggregate.kind)])
            text = said("SELECT {} FROM {}", texts, left.item(one))
        return self._of(made, text, left, right, way="scalar")

    def combined(self, depth: int) -> Query:
        first, second = self.below(depth), self.below(depth)
        # Few columns, so that rows are there several times.
        chosen = tuple(self.random.sample(first.columns, min(len(first.columns), self.random.choice((1, 1, 2, 3)))))
        sides = [self._fitted(each, chosen) for each in (first, second)]
        kind = self.random.choice(("UNION", "UNION", "INTERSECT", "EXCEPT"))
        whole = self.random.random() < 0.6
        made = tuple(Column(f"c{place}", one.kind) for place, one in enumerate(chosen))
        text = said(f"({{}}) {kind} {'ALL ' if whole else ''}({{}})", *sides)
        if self.python and self.random.random() < 0.5:
            return self._combined(first, second, made, sides, text, kind, whole=whole)
        return self._of(made, text, first, second, way=f"{kind}{' all' if whole else ''}".lower())

    def _fitted(self, child: Query, columns: tuple[Column, ...]) -> Text:
        """A SELECT of columns of these kinds."""
        alias = self.alias()
        own = [column_of(alias, one) for one in child.columns]
        texts = []
        for place, one in enumerate(columns):
            same = [each.text for each in own if each.kind == one.kind]
            found = self.random.choice(same) if same else literal(self.random, one.kind)
            texts.append(said(f"{{}} AS c{place}", found))
        return said("SELECT {} FROM {}", joined_text(texts, ", "), child.item(alias))

    # -- what Python says ----------------------------------------------------------------------------------------------

    def _combined(
        self, first: Query, second: Query, made: tuple[Column, ...], sides: list[Text], text: Text, kind: str, *,
        whole: bool,
    ) -> Query:  # fmt: skip
        names = [one.name for one in made]

        def make(app: App) -> Table:
            left, right = (_table(app, one).select(*names) for one in sides)
            if kind == "UNION":
                united = left.union(right)
                return united if whole else united.distinct(*names)
            combine = left.intersect if kind == "INTERSECT" else left.except_
            return combine(right, all=whole)

        way = f"{kind.lower()}{' all' if whole else ''} in Python"
        if kind == "UNION" and whole:  # it has no key: it is grouped at once
            return self._grouped_union(first, second, made, text, make)
        return self._python(made, text, make, way, first, second)

    def _grouped_union(self, first: Query, second: Query, made: tuple[Column, ...], text: Text, make: Make) -> Query:
        names = ", ".join(one.name for one in made)
        alias = self.alias()
        counted = (*made, Column("copies", INT))
        plain = said(f"SELECT {names}, count(*) AS copies FROM ({{}}) AS {alias} GROUP BY {names}", text)

        def grouped(app: App) -> Table:
            return make(app).by(*(one.name for one in made)).agg("count(*) as copies")

        return self._python(counted, plain, grouped, "union all in Python", first, second)

    def _beside(self, left: Query, right: Query, inner: Text, kind: str) -> Query:
        alias, single = self.alias(), self.alias()
        names = ", ".join(f"{alias}.{one.name}" for one in left.columns)
        text = said(f"SELECT {names}, ({{}}) AS value FROM {{}}", inner, left.item(alias))

        def make(app: App) -> Table:
            value = Text(f"SELECT {single}.* FROM ({inner.spark}) AS {single}(value)", "")
            return _table(app, left.text).with_scalar(_table(app, value))

        return self._python((*left.columns, Column("value", kind)), text, make, "with_scalar", left, right)

    def _not_in(self, left: Query, right: Query, ours: Value, theirs: Value, pairs: list[tuple[Value, Value]]) -> Query:
        mine, other = ours.text.spark.split(".")[1], theirs.text.spark.split(".")[1]
        within = [
            (a.text.spark.split(".")[1], b.text.spark.split(".")[1]) for a, b in pairs if a != ours and b != theirs
        ]
        within = [(a, b) for a, b in within if a != mine and b != other]
        within = within[:1] if self.random.random() < 0.5 else []
        one, two = self.alias(), self.alias()
        names = ", ".join(f"{one}.{each.name}" for each in left.columns)
        inner = f"SELECT {two}.{other} FROM {{}}" + "".join(f" WHERE {two}.{b} = {one}.{a}" for a, b in within)
        text = said(f"SELECT {names} FROM {{}} WHERE {one}.{mine} NOT IN ({inner})", left.item(one), right.item(two))

        def make(app: App) -> Table:
            sides = _table(app, left.text), _table(app, right.text)
            on = sides[0][mine] == sides[1][other]
            for a, b in within:
                on &= sides[0][a] == sides[1][b]
            return sides[0].join(sides[1], on=on, how="anti", null_aware=mine)

        return self._python(left.columns, text, make, "not in, in Python", left, right)

    def _python(self, made: tuple[Column, ...], text: Text, make: Make, way: str, *children: Query) -> Query:
        self._built += 1
        name = f"built_{self._built}"
        names = ", ".join(one.name for one in made)
        one = self._of(made, Text(f"SELECT {names} FROM {name}", text.postgres), *children, way=way)
        return Query(one.columns, one.text, one.children, (*one.built, Built(name, made, make)), way=way)

    def _of(self, columns: tuple[Column, ...], text: Text, *children: Query, way: str) -> Query:
        built = {one.name: one for child in children for one in child.built}
        return Query(columns, text, children, tuple(built.values()), way=way)


WAYS: dict[str, Callable[[Generator, int], Query]] = {
    "where": Generator.filtered,
    "select": Generator.projected,
    "distinct": Generator.distinct,
    "group by": Generator.grouped,
    "group by more": Generator.grouped,
    "rank": Generator.ranked,
    "limit": Generator.first_rows,
    "neighbours": Generator.neighbours,
    "sets of groups": Generator.several_groups,
    "join": Generator.joined,
    "join more": Generator.joined,
    "exists": Generator.existing,
    "in": Generator.among,
    "in more": Generator.among,
    "scalar": Generator.scalar,
    "combined": Generator.combined,
    "combined more": Generator.combined,
}
