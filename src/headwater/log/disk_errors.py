"""Errors of the disk, as callers of the log see them."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from headwater.errors import UnavailableError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def disk_errors_as_unavailable(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Wraps a method so that callers see an OSError of the disk as the cause of an UnavailableError."""

    @wraps(method)
    def wrapped(*args: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            return method(*args, **named)
        except OSError as error:
            raise UnavailableError(f"the disk failed: {error}") from error

    return wrapped
