"""How the loops of this folder are compiled: when first called, and kept on disk for the next process."""

from pathlib import Path
from typing import Any

from headwater.log.compiling import compiled_in, inner

__all__ = ["compiled", "inner"]


def compiled(function: Any) -> Any:
    """For what Python calls; `inner` is for what only compiled code calls."""
    return compiled_in(Path(__file__).parent, function)
