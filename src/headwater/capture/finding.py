"""A finding of `headwater capture check` about a source."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing that was looked at. Without `fine`, a capture cannot run; a `note` is good to know."""

    fine: bool
    said: str
    statement: str = ""
    note: bool = False
