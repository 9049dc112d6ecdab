"""Random expressions over columns, as Spark and as PostgreSQL read them."""

from random import Random
from typing import NamedTuple

from tests.flow.random_queries.schemas import BOOL, DECIMAL, INT, REAL, TEXT, TIME, Column


class Text(NamedTuple):
    """SQL of both dialects."""

    spark: str
    postgres: str

    def __format__(self, dialect: str) -> str:
        return self.postgres if dialect == "postgres" else self.spark


def said(template: str, *parts: Text, postgres: str = "") -> Text:
    """The same words in both dialects, unless PostgreSQL's differ.

    >>> said("{} + 1", Text("a", "b"))
    Text(spark='a + 1', postgres='b + 1')
    """
    return Text(
        template.format(*(one.spark for one in parts)), (postgres or template).format(*(one.postgres for one in parts))
    )


def joined_text(parts: list[Text], between: str) -> Text:
    return Text(between.join(one.spark for one in parts), between.join(one.postgres for one in parts))


class Value(NamedTuple):
    text: Text
    kind: str


def column_of(alias: str, column: Column) -> Value:
    return Value(said(f"{alias}.{column.name}"), column.kind)


LITERALS = {
    INT: ("0", "1", "2", "3"), TEXT: ("'a'", "'ab'", "''"), BOOL: ("true", "false"),
    DECIMAL: ("cast(0.50 as decimal(9,2))", "cast(1.25 as decimal(9,2))"),
    REAL: ("cast(0.5 as double)", "cast(1 as double)"),
    TIME: ("timestamp '2026-01-01 00:14:00'",),
}  # fmt: skip


def literal(random: Random, kind: str) -> Text:
    text = random.choice(LITERALS[kind])
    return said(text, postgres=text.replace("as double", "as float8").replace("timestamp '", "timestamptz '"))


def expression(random: Random, columns: list[Value], kind: str) -> Value | None:
    """None where no column has the kind."""
    own = [one for one in columns if one.kind == kind]
    texts = [one for one in columns if one.kind == TEXT]
    if kind == INT and texts and random.random() < 0.15:
        return Value(said("cast(length({}) as bigint)", random.choice(texts).text), INT)
    if not own:
        return None
    one, other = random.choice(own).text, random.choice(own).text
    if random.random() < 0.55:
        return Value(one, kind)
    small = literal(random, kind)
    if kind == INT:
        small = said("cast({} as bigint)", small)
    ways = {
        INT: ("{0} + {1}", "{0} - {1}", "{0} * 2", "abs({0})", "{0} % 3", "-{0}", "greatest({0}, {1})"),
        TEXT: ("upper({0})", "{0} || {1}", "{0} || 'x'", "substring({0}, 1, 1)", "lower({0})"),
        BOOL: ("not {0}", "({0} and {1})", "({0} or {1})"),
        DECIMAL: ("{0} + {1}", "{0} * 2", "-{0}", "abs({0})"),
        REAL: ("{0} + {1}", "{0} * 2", "abs({0})"),
        TIME: ("{0}",),
    }[kind]  # fmt: skip
    ways = (*ways, "coalesce({0}, {2})", "nullif({0}, {2})", "case when {0} is null then {1} else {0} end")
    way = random.choice(ways)
    return Value(said(f"({way})", one, other, small), kind)


def predicate(random: Random, columns: list[Value], depth: int = 2) -> Text:
    if depth and random.random() < 0.35:
        both = predicate(random, columns, depth - 1), predicate(random, columns, depth - 1)
        return said(random.choice(("({} and {})", "({} or {})", "not ({})")), *both)
    given = random.choice(columns)
    one = expression(random, columns, given.kind) or given
    same = [each for each in columns if each.kind == one.kind]
    other = random.choice(same).text if same and random.random() < 0.4 else literal(random, one.kind)
    roll = random.random()
    if roll < 0.2:
        return said(random.choice(("{} is null", "{} is not null")), one.text)
    if roll < 0.28:
        return said("{} <=> {}", one.text, other, postgres="{} is not distinct from {}")
    if one.kind == BOOL and roll < 0.6:
        return said("({})", one.text)
    if one.kind == TEXT and roll < 0.4:
        return said(random.choice(("{} like 'a%'", "{} not like '%b'")), one.text)
    if roll < 0.4:
        way = random.choice(("{0} in ({1}, {2})", "{0} not in ({1}, {2})", "{0} between {1} and {3}"))
        return said(way, one.text, literal(random, one.kind), literal(random, one.kind), other)
    sign = random.choice(("=", "<>", "<", "<=", ">", ">="))
    return said(f"{{}} {sign} {{}}", one.text, other)
