"""Nodes of operators that are given tables, beside joins."""

from dataclasses import dataclass

from headwater.flow.declare.topology.nodes import OneInput, TableOperator, key_of
from headwater.flow.operators.order_codes import Order


@dataclass(frozen=True, eq=False)
class Rank(OneInput, TableOperator):
    """The first rows of each group of a table, with their places."""

    by: tuple[str, ...]
    order: tuple[Order, ...]
    limit: int
    how: str
    into: str
    name: str

    @property
    def key(self) -> tuple[str, ...]:
        return key_of(self.input)
