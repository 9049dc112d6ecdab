"""What rows are ordered by: "spent desc, user_id", with nulls where Spark has them unless it is said."""

import re
from collections.abc import Sequence

from headwater.errors import InvalidDeclaration
from headwater.flow.operators.order_codes import Order

ORDERED = re.compile(
    r"(?:`(?P<quoted>[^`]+)`|(?P<plain>\w+))(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?",
    re.IGNORECASE,
)
WRITTEN = re.compile(r"(?:`[^`]*`|[^,`])+")


def order_of(given: str | Sequence[str], what: str) -> tuple[Order, ...]:
    """InvalidDeclaration if it is no list of columns.

    >>> [str(one) for one in order_of("spent desc, `user id`, at DESC NULLS FIRST", "rank")]
    ['spent desc', 'user id', 'at desc nulls first']
    """
    parts = WRITTEN.findall(given) if isinstance(given, str) else list(given)
    found = tuple(_order(str(one), what) for one in parts)
    if not found:
        raise InvalidDeclaration(f"{what} does not say in which order rows are", 'Say order="amount desc".')
    names = [one.column for one in found]
    if twice := [name for place, name in enumerate(names) if name in names[:place]]:
        raise InvalidDeclaration(f"{what} orders by {twice[0]} twice", "Once is enough.")
    return found


def _order(text: str, what: str) -> Order:
    said = ORDERED.fullmatch(text.strip())
    if said is None:
        raise InvalidDeclaration(
            f"{what} orders by {text.strip()!r}, which is no column",
            'Make a column first with with_columns(...), and say "column", "column desc" or "column nulls last".',
        )
    descending = (said["way"] or "").lower() == "desc"
    nulls = (said["nulls"] or ("last" if descending else "first")).lower()
    return Order(said["quoted"] or said["plain"], descending, nulls == "first")
