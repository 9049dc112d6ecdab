"""How much WAL the database may keep for a capture, and what happens at the limit. Pure."""

from enum import StrEnum

WARN_SHARE = 0.5
UNLIMITED_WARNING_BYTES = 4 * 1024**3
"""Without a limit there is still a word of warning."""


class AtLimit(StrEnum):
    """What to do when the database keeps more than it may."""

    DROP_SLOT = "drop-slot"
    WARN = "warn"


class Verdict(StrEnum):
    FINE = "fine"
    WARN = "warn"
    DROP = "drop"


def judge(retained: int, limit: int | None, at_limit: AtLimit) -> Verdict:
    """
    >>> judge(2**30, 2**31, AtLimit.DROP_SLOT), judge(2**31, 2**31, AtLimit.DROP_SLOT), judge(2**33, None, AtLimit.WARN)
    (<Verdict.WARN: 'warn'>, <Verdict.DROP: 'drop'>, <Verdict.WARN: 'warn'>)
    """
    if limit is not None and retained >= limit and at_limit is AtLimit.DROP_SLOT:
        return Verdict.DROP
    threshold = UNLIMITED_WARNING_BYTES if limit is None else limit * WARN_SHARE
    return Verdict.WARN if retained >= threshold else Verdict.FINE
