"""How much WAL the database may keep for a capture, and what happens at the limit. Pure."""

from enum import StrEnum

WARN_SHARE = 0.5
UNLIMITED_WARNING_BYTES = 4 * 1024**3
"""Without a limit there is still a word of warning."""


class AtLimit(StrEnum):
    """The action when the database keeps more WAL than the limit."""

    DROP_SLOT = "drop-slot"
    PAUSE_OTHERS = "pause-others"
    WARN = "warn"


class Verdict(StrEnum):
    FINE = "fine"
    WARN = "warn"
    PAUSE = "pause"
    DROP = "drop"


def verdict_on(retained: int, limit: int | None, at_limit: AtLimit, *, pausing: bool = False) -> Verdict:
    """Others that were paused stay so until it is half way back: `pausing`.

    >>> [verdict_on(bytes, 2**31, AtLimit.DROP_SLOT) for bytes in (2**30, 2**31)], verdict_on(2**33, None, AtLimit.WARN)
    ([<Verdict.WARN: 'warn'>, <Verdict.DROP: 'drop'>], <Verdict.WARN: 'warn'>)
    """
    threshold = UNLIMITED_WARNING_BYTES if limit is None else limit * WARN_SHARE
    if limit is not None and retained >= limit and at_limit is AtLimit.DROP_SLOT:
        return Verdict.DROP
    if limit is not None and retained >= (threshold if pausing else limit) and at_limit is AtLimit.PAUSE_OTHERS:
        return Verdict.PAUSE
    return Verdict.WARN if retained >= threshold else Verdict.FINE
