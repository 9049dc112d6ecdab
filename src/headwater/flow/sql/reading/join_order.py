"""In which order the items of FROM are joined, and what their conditions say of one item alone (pure).

FROM part, supplier, partsupp WHERE p = ps_p AND s = ps_s         part, partsupp, supplier: no two are multiplied
WHERE (p = l AND size < 5) OR (p = l AND size > 7)                p = l, and (size < 5 OR size > 7) of part alone
"""

from collections.abc import Callable, Sequence

from sqlglot import exp

from headwater.flow.sql.relations import conjuncts

SAFE = (
    exp.Column, exp.Identifier, exp.Literal, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In,
    exp.Like, exp.Is, exp.Null, exp.Boolean, exp.Not, exp.Paren, exp.And, exp.Or,
)  # fmt: skip
"""What fails for no row: it may be computed of rows of which the query would not have computed it."""
ItemsOf = Callable[[exp.Expr], set[int] | None]
"""Which items an expression names; None if that is not known."""


def order_of(free: Sequence[bool], conditions: Sequence[exp.Expr], items_of: ItemsOf) -> list[int]:
    """The numbers of all items in the order of their joins: as they are written, but a `free` item that is equal to
    nothing of those before it comes after others that are.

    Free are those that a comma or CROSS JOIN puts there, with no condition of their own. An item that is not free, and
    all after it, stay where they are.
    """
    ends = next((number for number, one in enumerate(free) if number and not one), len(free))
    waiting, found = list(range(1, ends)), [0]
    pairs = [pair for one in conditions if (pair := _sides(one, items_of)) is not None]
    while waiting:
        linked = (number for number in waiting if _is_linked(number, {*found}, pairs))
        number = next(linked, waiting[0])
        waiting.remove(number)
        found.append(number)
    return [*found, *range(ends, len(free))]


def _sides(node: exp.Expr, items_of: ItemsOf) -> tuple[set[int], set[int]] | None:
    if not isinstance(node, exp.EQ):
        return None
    sides = items_of(node.this), items_of(node.expression)
    return None if sides[0] is None or sides[1] is None else (sides[0], sides[1])


def _is_linked(number: int, there: set[int], pairs: Sequence[tuple[set[int], set[int]]]) -> bool:
    return any(
        own == {number} and other and other <= there for one, two in pairs for own, other in ((one, two), (two, one))
    )


def implied(condition: exp.Expr, items_of: ItemsOf) -> list[exp.Expr]:
    """Conditions that hold wherever one of several does that OR connects: what stands in each of them, and for every
    item what each says of it alone."""
    ways = [conjuncts(one) for one in _alternatives(condition)]
    if len(ways) < 2:
        return []
    of = [[items_of(one) for one in way] for way in ways]
    if any(items is None for way in of for items in way):
        return []
    texts = [{one.sql() for one in way} for way in ways]
    shared = [one for one in ways[0] if _is_safe(one) and all(one.sql() in others for others in texts)]
    found, said = [one.copy() for one in shared], {one.sql() for one in shared}
    numbers = set[int]().union(*(items or set() for way in of for items in way))
    for number in sorted(numbers) if len(numbers) > 1 else ():
        own = [
            [
                one
                for one, items in zip(way, given, strict=True)
                if items == {number} and _is_safe(one) and one.sql() not in said
            ]
            for way, given in zip(ways, of, strict=True)
        ]
        if all(own):
            found.append(exp.or_(*(exp.and_(*each, copy=True) for each in own), copy=True))
    return found


def _is_safe(node: exp.Expr) -> bool:
    """Arithmetic is of literals alone."""
    if isinstance(node, exp.Add | exp.Sub):
        return isinstance(node.this, exp.Literal) and isinstance(node.expression, exp.Literal)
    return isinstance(node, SAFE) and all(map(_is_safe, node.iter_expressions()))


def _alternatives(node: exp.Expr) -> list[exp.Expr]:
    inner = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.Or):
        return [*_alternatives(inner.this), *_alternatives(inner.expression)]
    return [inner]
