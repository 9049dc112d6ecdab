"""Names of columns in the texts of a SELECT (pure)."""

import re
from collections.abc import Sequence
from typing import Any

RENAMED = re.compile(r"\s*(?P<what>`(?:[^`]|``)+`|[^\W\d]\w*)\s+as\s+(?P<name>`(?:[^`]|``)+`|[^\W\d]\w*)\s*", re.I)


def renamed_key(key: tuple[str, ...], columns: Sequence[Any]) -> tuple[str, ...]:
    """A key after a choice of columns that may give its columns other names; one that is kept as it is keeps its name.

    >>> renamed_key(("id", "day"), ("id as user_id", "day", "day as again"))
    ('user_id', 'day')
    """
    kept = {unquoted(one.strip()) for one in columns if isinstance(one, str)}
    found = [RENAMED.fullmatch(one) for one in columns if isinstance(one, str)]
    names: dict[str, str] = {}
    for one in filter(None, found):
        names.setdefault(unquoted(one["what"]), unquoted(one["name"]))
    return tuple(name if name in kept or "*" in kept else names.get(name, name) for name in key)


def unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") and name.endswith("`") else name
