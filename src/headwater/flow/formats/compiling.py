"""How functions are compiled here: when first called, and kept on disk for the next process."""

from pathlib import Path
from typing import Any

from numba import njit

_INSIDE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def stamp_of(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Changes with every change of a module in the folder."""
    facts = ((file.name, file.stat()) for file in sorted(folder.glob("*.py")))
    return tuple((name, status.st_mtime_ns, status.st_size) for name, status in facts)


_STAMP = stamp_of(Path(__file__).parent)


def compiled(function: Any) -> Any:
    """For what Python calls."""
    dispatcher: Any = njit(cache=True, nogil=True, error_model="numpy")(function)
    # numba takes its compiled code for fresh while the function's own file is unchanged, but what the function calls
    # lies in other files too: without this, a mended inner function would go unnoticed.
    dispatcher._cache._cache_file._source_stamp = _STAMP
    return dispatcher


def inner(function: Any) -> Any:
    """For what only compiled code calls: without a door for Python, which takes a third of the compiler's time."""
    return njit(nogil=True, error_model="numpy", **_INSIDE)(function)


def hot(function: Any) -> Any:
    """For what the innermost loops call: put in place, where the call would cost as much as the work."""
    return njit(nogil=True, error_model="numpy", forceinline=True, **_INSIDE)(function)


def inlined(function: Any) -> Any:
    """For one-liners that are called with constants: the compiler would make a version for each constant."""
    return njit(inline="always")(function)
