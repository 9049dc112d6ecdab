"""row_number() OVER (...) and its like: the first rows of each group of a table, in an order (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headwater.flow.declare.stream import Stream, Table
from headwater.flow.sql.facts import facts_of
from headwater.flow.sql.grouping import Stage
from headwater.flow.sql.reading.source_text import SourceText, start_of
from headwater.flow.sql.relations import Flow, Rows, flat_tree, fresh

RANKS = ("row_number", "rank", "dense_rank")
MIRRORED = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ}


def windows_in(node: exp.Expr) -> list[exp.Window]:
    """Functions OVER (...), but for those of queries within."""
    if isinstance(node, exp.Query):
        return []
    if isinstance(node, exp.Window):
        return [node]
    return [found for one in node.iter_expressions() for found in windows_in(one)]


def bounds_of(conditions: Sequence[exp.Expr], alias: str) -> dict[str, int]:
    """The highest whole number that columns, or functions OVER (...), may have: place <= 3."""
    found: dict[str, int] = {}
    for one in conditions:
        for name, most in _bound(one, alias):
            found[name] = min(most, found.get(name, most))
    return found


def _bound(node: exp.Expr, alias: str) -> list[tuple[str, int]]:
    if isinstance(node, exp.Between):
        return _bound(exp.LTE(this=node.this, expression=node.args["high"]), alias)
    if type(node) not in MIRRORED:
        return []
    for one, other, kind in (
        (node.this, node.expression, type(node)), (node.expression, node.this, MIRRORED[type(node)])
    ):  # fmt: skip
        name = _ranked_name(one, alias)
        if name and isinstance(other, exp.Literal) and not other.is_string and str(other.this).isdigit():
            most = int(str(other.this))
            return [(name, most - (kind is exp.LT))] if kind in (exp.LT, exp.LTE, exp.EQ) else []
    return []


def _ranked_name(node: exp.Expr, alias: str) -> str:
    if isinstance(node, exp.Window):
        return node.sql()
    if isinstance(node, exp.Column) and (not node.table or node.table.lower() == alias.lower()):
        return node.name.lower()
    return ""


def ranked(stage: Stage, windows: Sequence[tuple[exp.Window, str]], bounds: Mapping[str, int]) -> Stage:
    """The stage with a column for every function OVER (...)."""
    raise NotImplementedError
