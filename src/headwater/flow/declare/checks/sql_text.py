"""What SQL text says of columns, read without Spark (pure).

sqlglot reads Spark's SQL, and nearly all of it. Where it does not understand a text, nothing is said of it here: Spark
reads it later, and has the last word.
"""

import logging
import re
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it would warn on standard error of what it does not know

WITHOUT_BRACKETS = frozenset(
    {
        "current_catalog", "current_database", "current_date", "current_schema", "current_time", "current_timestamp",
        "current_timezone", "current_user", "localtimestamp", "now", "session_user", "user",
    }
)  # fmt: skip
"""Functions that Spark calls without brackets: they look like columns."""
QUERIES = ("select", "with", "from", "values", "table")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Expression:
    """SQL text that computes one column."""

    reads: tuple[str, ...]
    """The columns that it names, without fields of them. Empty where that is not certain."""
    name: str | None
    """What its result is called; None if that is for Spark to say."""
    alias: str = ""
    """A name that it gives itself."""


@dataclass(frozen=True)
class Query:
    """A SELECT of one table, without joins and without queries in it."""

    table: str
    alias: str
    """What it calls the table."""
    reads: tuple[str, ...]
    makes: tuple[str | None, ...]
    """The names of its columns; * for all of the table, None if that is for Spark to say."""
    gives: tuple[str, ...]
    """Names of its own among them."""
    aggregates: bool
    """It computes one row of several."""


@lru_cache(maxsize=1024)
def expression(text: str) -> Expression:
    """
    >>> expression("sum(place.amount) as total")
    Expression(reads=('place',), name='total', alias='total')
    """
    tree = _read(text)
    if tree is None or tree.find(exp.Query):
        return Expression((), None)
    return Expression(_columns(tree), _name(tree), tree.alias)


@lru_cache(maxsize=1024)
def query(text: str) -> Query | None:
    """
    >>> query("select id, o.amount * 2 as doubled from orders o").reads
    ('id', 'amount')
    """
    tree = _read(text)
    if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Query))) > 1:
        return None
    source, tables = tree.args.get("from_") or tree.args.get("from"), list(tree.find_all(exp.Table))
    if source is None or len(tables) != 1 or any(tree.args.get(one) for one in ("joins", "laterals", "with_", "with")):
        return None
    made = tuple("*" if isinstance(one, exp.Star) else _name(one) for one in tree.expressions)
    computes = any(one.find(exp.AggFunc) and not one.find(exp.Window) for one in tree.expressions)
    called, given = tables[0].alias_or_name, tuple(one.alias for one in tree.expressions if one.alias)
    return Query(tables[0].name, called, _columns(tree, called), made, given, computes)


def refusal(text: str) -> str:
    """Why text is no query; "" if it may be one.

    >>> refusal("selct id from orders")
    "it begins with 'selct', and a query with select"
    """
    first = re.match(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(\w*)", text, re.DOTALL)
    word = first[1] if first else ""
    return "" if word.lower() in QUERIES else f"it begins with {word or text[:20]!r}, and a query with select"


def misread(text: str) -> str:
    """Where sqlglot stumbles over a text, for an error message; "" if it does not."""
    try:
        sqlglot.parse_one(text, read="spark")
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        near = f" near {first['highlight']!r}" if first.get("highlight") else ""
        return f"{str(first.get('description') or 'it cannot be read').rstrip('.')}{near}"
    except (SqlglotError, RecursionError) as error:
        return COLOURS.sub("", str(error)).splitlines()[0]
    return ""


def _read(text: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(text, read="spark")
    except (SqlglotError, RecursionError):
        return None


def _name(one: exp.Expr) -> str | None:
    return one.alias_or_name or None if isinstance(one, exp.Alias | exp.Column) else None


def _columns(tree: exp.Expr, table: str = "") -> tuple[str, ...]:
    found: list[str] = []
    for column in tree.find_all(exp.Column):
        parts = [part for part in column.parts if isinstance(part, exp.Identifier)]
        if len(parts) > 1 and parts[0].name.lower() == table.lower():
            parts = parts[1:]
        if not parts or (not parts[0].quoted and parts[0].name.lower() in WITHOUT_BRACKETS):
            continue
        found.append(parts[0].name)
    return tuple(dict.fromkeys(found))
