"""Old shapes of events into new ones: a list that stands in the aggregate, from the oldest to the newest. Pure.

    upcasters = (
        Upcast("Reserved", 1, lambda data: {**data, "price": 0}),             # 1 -> 2: a price was added
        Upcast("Reserved", 2, lambda data: {**data, "user": data["user"].lower()}),
    )

An event is stored with the version of its shape, which is 1 + the number of upcasters of its type; one that is read
with a smaller version passes those between. What is stored is never changed.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headwater.errors import UsageError

Data = dict[str, Any]


class Upcast(NamedTuple):
    """`change` makes data of version `version` + 1 of an event's shape from data of `version`. It must be pure."""

    type: str
    version: int
    change: Callable[[Data], Data]


def check_upcasters(upcasters: Sequence[Upcast]) -> None:
    """UsageError where a version is left out or said twice."""
    for type in {one.type for one in upcasters}:
        versions = [one.version for one in upcasters if one.type == type]
        if versions != [*range(1, len(versions) + 1)]:
            raise UsageError(f"upcasters of {type} are for versions {versions}; they have to count from 1, in order")


def schema_version(upcasters: Sequence[Upcast], type: str) -> int:
    return 1 + sum(one.type == type for one in upcasters)


def upcast(upcasters: Sequence[Upcast], type: str, version: int, data: Data) -> Data:
    """
    >>> upcast([Upcast("Paid", 1, lambda data: {**data, "currency": "EUR"})], "Paid", 1, {"amount": 3})
    {'amount': 3, 'currency': 'EUR'}
    """
    newest = schema_version(upcasters, type)
    if version > newest:
        raise UsageError(f"{type} was stored in shape {version}, and this program knows {newest}; run the newer one")
    for one in upcasters:
        if one.type == type and one.version >= version:
            data = one.change(dict(data))
    return data
