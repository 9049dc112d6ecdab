"""From what a user says of ranks to the node."""

from collections.abc import Sequence

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import Place
from headwater.flow.declare.tables.nodes import Neighbours, Rank
from headwater.flow.declare.tables.ordering import order_of
from headwater.flow.declare.topology.nodes import Node
from headwater.flow.operators.ranks.neighbours import Neighbour
from headwater.flow.operators.ranks.rank import WAYS

By = str | Sequence[str]


def rank_of(
    place: Place, node: Node, *, by: By, order: str | Sequence[str], into: str, how: str, limit: object, name: str
) -> Rank:
    what = f"rank() at {place}"
    if how not in WAYS:
        raise InvalidDeclaration(f"{what} cannot be {how!r}", f"It may be {', '.join(WAYS)}.")
    if limit is None:
        raise InvalidDeclaration(
            f"{what} has no limit, and one changed row could change the places of all behind it",
            "Say limit=10 to keep the first ten of each group.",
        )
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidDeclaration(f"{what} has limit {limit!r}", "It is a whole number, at least 1.")
    chosen = columns_of_group(by, what)
    wanted = order_of(order, what)
    if same := [one.column for one in wanted if one.column in chosen]:
        raise InvalidDeclaration(
            f"{what} orders by {same[0]}, which is the same in all rows of a group", "Order by another column."
        )
    if into.startswith("_") or not into:
        raise InvalidDeclaration(f"{what} makes column {into!r}", "Give it a name that does not begin with _.")
    return Rank(place, node, chosen, wanted, limit, how, into, name)


def neighbours_of(
    place: Place, node: Node, values: Sequence[Neighbour], *, by: By, order: str | Sequence[str], name: str
) -> Neighbours:
    what = f"{values[0].how}() at {place}"
    for one in values:
        offset: object = one.offset
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 1:
            raise InvalidDeclaration(f"{what} has offset {offset!r}", "It is a whole number, at least 1.")
        if one.into.startswith("_") or not one.into:
            raise InvalidDeclaration(f"{what} makes column {one.into!r}", "Give it a name that does not begin with _.")
    return Neighbours(place, node, columns_of_group(by, what), order_of(order, what), tuple(values), name)


def columns_of_group(by: By, what: str) -> tuple[str, ...]:
    """Names of columns, each once; none for all rows together."""
    chosen = (by,) if isinstance(by, str) else tuple(by)
    given: tuple[object, ...] = chosen
    if wrong := [one for one in given if not isinstance(one, str)]:
        raise InvalidDeclaration(
            f"{what} groups by {wrong[0]!r}, which is no name of a column",
            "Make a column first with with_columns(name=...) and then name it.",
        )
    if twice := [one for number, one in enumerate(chosen) if one in chosen[:number]]:
        raise InvalidDeclaration(f"{what} groups by {twice[0]} twice", "Once is enough.")
    return chosen
