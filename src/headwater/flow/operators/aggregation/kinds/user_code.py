"""The four functions of a user's aggregate: how they are sent to tasks, compared, and called."""

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import CodeType
from typing import Any

from headwater.errors import FlowError

NAMES = ("create", "add", "merge", "finish")


@dataclass(frozen=True, repr=False)
class Code:
    """Sent with what it is made of and not by name: a task does not know the file that declares an app."""

    create: Callable[..., Any]
    add: Callable[..., Any]
    merge: Callable[..., Any]
    finish: Callable[..., Any]

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        return self.create, self.add, self.merge, self.finish

    def __reduce__(self) -> tuple[Any, ...]:
        from pyspark import cloudpickle

        with _by_value(cloudpickle, {getattr(one, "__module__", None) for one in self.functions}):
            return _loaded, (cloudpickle.dumps(self.functions),)  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        """The same for the same code: what is kept by other code is not its own."""
        said = repr([_meaning(getattr(one, "__code__", None) or repr(one)) for one in self.functions])
        return sha256(said.encode()).hexdigest()[:16]


def _loaded(data: bytes) -> Code:
    from pyspark import cloudpickle

    return Code(*cloudpickle.loads(data))


@contextmanager
def _by_value(pickler: Any, names: set[str | None]) -> Iterator[None]:
    modules = [sys.modules[name] for name in names if name in sys.modules and name != "__main__"]
    fresh = [one for one in modules if one.__name__ not in pickler.list_registry_pickle_by_value()]
    for module in fresh:
        pickler.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in fresh:
            pickler.unregister_pickle_by_value(module)


def _meaning(code: Any) -> Any:
    if not isinstance(code, CodeType):
        return repr(code)
    return code.co_code.hex(), code.co_names, [_meaning(one) for one in code.co_consts]


@contextmanager
def users_errors(function: str, column: str, place: str) -> Iterator[None]:
    """What goes wrong in a user's function, as one sentence with the line it happened in."""
    try:
        yield
    except FlowError:
        raise
    except Exception as error:
        raised = traceback.extract_tb(error.__traceback__)[-1]
        raise FlowError(
            f"{function} of column {column}, an aggregate declared at {place}, failed: "
            f"{type(error).__name__}: {error} ({Path(raised.filename).name}:{raised.lineno})",
            "Make it fit every row, or leave rows out with where(...).",
        ) from error
