"""How functions are compiled, and how compiled code stays fresh."""

from functools import cache
from pathlib import Path
from typing import Any

from numba import njit


def compiled(function: Any) -> Any:
    """Compiled when first called, and kept on disk for the next process until the function's own file changes."""
    return njit(cache=True, nogil=True)(function)


def stamp_of(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Changes with every change of a module in the folder."""
    facts = ((file.name, file.stat()) for file in sorted(folder.glob("*.py")))
    return tuple((name, status.st_mtime_ns, status.st_size) for name, status in facts)


_stamp_at_start = cache(stamp_of)


def compiled_in(folder: Path, function: Any) -> Any:
    """As `compiled`, but kept until any module of the folder changes: for functions that lie in several of its files.

    numba takes its compiled code for fresh while the function's own file is unchanged, but what the function calls lies
    in other files too: a fixed inner function would go unnoticed.
    """
    dispatcher: Any = njit(cache=True, nogil=True, error_model="numpy")(function)
    dispatcher._cache._cache_file._source_stamp = _stamp_at_start(folder)
    return dispatcher


_INSIDE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}


def inner(function: Any) -> Any:
    """For what only compiled code calls: without a door for Python, and put in place, because arrays that are handed
    over are counted at every call, which costs as much as the work."""
    return njit(nogil=True, error_model="numpy", **_INSIDE)(function)
