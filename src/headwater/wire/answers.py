"""The answers of a handler other than a response."""

import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from types import SimpleNamespace
from typing import Any, NamedTuple


class Nothing(Enum):
    """The client does not wait for a response, and gets none."""

    ANSWER = 0


NO_ANSWER = Nothing.ANSWER


class Later(NamedTuple):
    """The request has had its effect, so the next one of the connection may begin; the response follows.

    Responses leave in the order of their requests all the same.
    """

    finish: Callable[[], Awaitable[Any]]


def elements_in(answer: Any, enough: int) -> int:
    """How many elements a response has in its arrays, counted until there are enough.

    >>> elements_in(SimpleNamespace(topics=(SimpleNamespace(partitions=(0, 1, 2)), SimpleNamespace(partitions=()))), 99)
    5
    """
    if (known := getattr(answer, "elements", None)) is not None:
        return int(known)
    count, waiting = 0, [answer]
    while waiting and count < enough:
        for value in _values(waiting.pop()):
            if isinstance(value, tuple | list):
                count += len(value)
                waiting += value[:enough]
    return count


def _values(entity: Any) -> Iterable[Any]:
    if isinstance(entity, SimpleNamespace):
        return vars(entity).values()
    if dataclasses.is_dataclass(entity):
        return [getattr(entity, field.name) for field in dataclasses.fields(entity)]
    return ()
