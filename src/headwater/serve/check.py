"""Finds damaged files of the HTTP port, for `headwater log check`. Reads files; changes nothing."""

from pathlib import Path

from headwater.log.storage import LocalStorage, problems_of
from headwater.serve.tokens import FILE


def problems(data: Path) -> list[str]:
    """One sentence for each damaged file; it names the file."""
    return problems_of(LocalStorage(data), FILE)
