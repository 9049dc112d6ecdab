"""What a handler may answer, beside a response."""

from collections.abc import Awaitable, Callable
from enum import Enum
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
