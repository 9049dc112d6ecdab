"""How functions are compiled here: when first called, and kept on disk for the next process."""

from pathlib import Path
from typing import Any

from numba import njit

from headwater.log.compiling import compiled_in
from headwater.log.compiling import inner as hot

__all__ = ["compiled", "hot", "inlined", "inner"]


def compiled(function: Any) -> Any:
    """For what Python calls; `hot` is for what the innermost loops call."""
    return compiled_in(Path(__file__).parent, function)


def inner(function: Any) -> Any:
    """For what only compiled code calls: without a door for Python, which takes a third of the compiler's time."""
    without: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(nogil=True, error_model="numpy", **without)(function)


def inlined(function: Any) -> Any:
    """For one-liners that are called with constants: the compiler would make a version for each constant."""
    return njit(inline="always")(function)
