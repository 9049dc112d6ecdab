"""Queries of a view: comparisons of columns with values, an order, a limit. Pure.

    {"country": "DE", "amount >": 100, "status in": ["open", "late"], "deleted": None}      order "amount desc, id"

Every condition must hold. A null is found by asking for None, and by nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from headwater.errors import InvalidQuery
from headwater.views.shape import Column, Shape

Where = Mapping[str, object]

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in")
_SAME = {"==": "=", "<>": "!="}
WRITTEN = (">=", "<=", "!=", ">", "<", "=")


class Condition(NamedTuple):
    column: Column
    operator: str
    values: tuple[object, ...]  # one, or any number for "in"; a null is None

    @property
    def null(self) -> bool:
        return self.operator != "in" and self.values[0] is None


class Order(NamedTuple):
    column: Column
    descending: bool


@dataclass(frozen=True)
class Query:
    where: tuple[Condition, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    skip: int = 0


def parse_query(
    shape: Shape, where: Where | None, order: str | Sequence[str] | None, limit: int | None, skip: int = 0
) -> Query:
    """InvalidQuery names what is not there, and what is. Where rows are skipped, the key decides what `order` leaves
    open: pages must not overlap."""
    if limit is not None and limit < 0:
        raise InvalidQuery(f"a limit cannot be {limit}", "Leave it out to get all rows.")
    conditions = tuple(_condition(shape, term, value) for term, value in (where or {}).items())
    terms = order.split(",") if isinstance(order, str) else list(order or ())
    orders = [_order(shape, term) for term in terms]
    if skip:
        named = {one.column.name for one in orders}
        orders += [Order(column, descending=False) for column in shape.key_columns if column.name not in named]
    return Query(conditions, tuple(orders), limit, skip)


def parse_condition(text: str) -> tuple[str, object]:
    """A column with a comparison, and a value, as people write them.

    >>> parse_condition("amount >= 100"), parse_condition("currency = EUR")
    (('amount >=', '100'), ('currency', 'EUR'))
    """
    found = [(text.find(sign), -len(sign), sign) for sign in WRITTEN if sign in text]
    if not found:
        raise InvalidQuery(f'{text[:80]!r} is not a condition, such as "amount > 100"')
    _, _, operator = min(found)
    name, _, value = text.partition(operator)
    return (name.strip() if operator == "=" else f"{name.strip()} {operator}"), value.strip()


def key_query(shape: Shape, view: str, key: Sequence[object]) -> Query:
    """The row of one key, given as its values in order or as one mapping of them."""
    if not shape.key and not shape.one_row:
        raise InvalidQuery(f'"{view}" has no key', "Ask for rows(where=…) instead.")
    if len(key) == 1 and isinstance(key[0], Mapping) and set(key[0]) == set(shape.key):
        key = [key[0][name] for name in shape.key]
    if len(key) != len(shape.key):
        raise InvalidQuery(f'view "{view}" has the key ({", ".join(shape.key)}); {len(key)} values were given')
    return Query(tuple(Condition(column, "=", (value,)) for column, value in zip(shape.key_columns, key, strict=True)))


def _condition(shape: Shape, term: str, value: object) -> Condition:
    name, operator = _split(shape, term)
    column = _column(shape, name)
    if operator == "in":
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset):
            raise InvalidQuery(f'"{term}" needs a list of values, not {value!r}')
        return Condition(column, operator, tuple(value))
    if value is None and operator not in ("=", "!="):
        raise InvalidQuery(f'"{term}" cannot be compared with None', f'Ask for {{"{name} !=": None}} to find values.')
    if column.nested and operator not in ("=", "!="):
        raise InvalidQuery(f'column "{name}" holds lists or objects, which are neither smaller nor greater')
    return Condition(column, operator, (value,))


def _split(shape: Shape, term: str) -> tuple[str, str]:
    """A column's name may hold spaces and signs: the whole term is tried first."""
    if term in shape.names:
        return term, "="
    name, _, operator = term.strip().rpartition(" ")
    operator = _SAME.get(operator.lower(), operator.lower())
    if operator in OPERATORS:
        return name.strip(), operator
    return term.strip(), "="


def _order(shape: Shape, term: str) -> Order:
    name = term.strip()
    if name in shape.names:
        return Order(_column(shape, name), descending=False)
    name, _, direction = name.rpartition(" ")
    if direction.lower() not in ("asc", "desc"):
        return Order(_column(shape, term.strip()), descending=False)
    return Order(_column(shape, name.strip()), descending=direction.lower() == "desc")


def _column(shape: Shape, name: str) -> Column:
    if name in shape.names:
        return shape.column(name)
    close = get_close_matches(name, shape.names, n=1)
    hint = f'Did you mean "{close[0]}"? ' if close else ""
    raise InvalidQuery(f'there is no column "{name}"', f"{hint}The columns are {', '.join(shape.names)}.")
