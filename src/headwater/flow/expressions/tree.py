"""A typed expression over the columns of a row, as plain data (pure).

Spark's analyser decides types, casts and functions. This tree holds its decisions (spark/expressions.py reads them),
and evaluation.py computes them on Arrow. It is handed to tasks, and so holds nothing but data.
"""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

COLUMN, LITERAL = "column", "literal"


@dataclass(frozen=True)
class Expression:
    """`kind` names an entry of the table in evaluation.py, or is COLUMN or LITERAL."""

    kind: str
    type: pa.DataType
    inputs: tuple["Expression", ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    text: str = field(default="", compare=False)
    """The expression as Spark writes it, for messages."""

    def option(self, name: str) -> Any:
        return dict(self.options)[name]

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the row that it reads."""
        if self.kind == COLUMN:
            return frozenset([self.option("name")])
        return frozenset().union(*(one.columns for one in self.inputs))


def column(name: str, type: pa.DataType) -> Expression:
    return Expression(COLUMN, type, options=(("name", name),), text=name)


def literal(value: Any, type: pa.DataType) -> Expression:
    return Expression(LITERAL, type, options=(("value", pa.scalar(value, type)),), text=repr(value))


class Untranslatable(Exception):
    """The expression has a part that only Spark evaluates; the message names the part."""
