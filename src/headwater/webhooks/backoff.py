"""How long to wait before the next attempt. Pure."""

from random import Random

FIRST_SECONDS, MOST_SECONDS = 1.0, 300.0


def pause_seconds(attempt: int, random: Random, asked_seconds: float | None = None) -> float:
    """After so many attempts: twice as long each time, up to five minutes, and by chance anything from half of it on,
    so that many who wait for the same target do not all come back at once. Longer if the target asked for it.

    >>> all(0.5 <= pause_seconds(1, Random(n)) <= 1 and 150 <= pause_seconds(40, Random(n)) <= 300 for n in range(50))
    True
    >>> pause_seconds(1, Random(1), asked_seconds=90) >= 90
    True
    """
    longest = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(attempt - 1, 20))
    return max(longest * (0.5 + random.random() / 2), asked_seconds or 0.0)
