"""How often a job that failed is started again, and after which pauses. Plain data."""

from dataclasses import dataclass

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.duration import duration_us

BACKOFF = "1 second"
BACKOFF_MAX = "1 minute"
RETRIES_ONCE = 2
"""With --once the user waits for the end: so often, unless the app or the command says otherwise."""


@dataclass(frozen=True)
class Retries:
    limit: int | None = None
    """Attempts after a failure, until a batch succeeds again; None: without end."""
    first_ms: int = 1_000
    longest_ms: int = 60_000

    def pause_ms(self, failures: int) -> int:
        """The pause after so many failures in a row: twice as long each time, up to the longest.

        >>> [Retries().pause_ms(failures) for failures in (1, 2, 3, 7, 5000)]
        [1000, 2000, 4000, 60000, 60000]
        """
        return min(self.longest_ms, self.first_ms << min(failures - 1, 32))

    def exhausted(self, failures: int) -> bool:
        """
        >>> Retries(limit=2).exhausted(2), Retries(limit=2).exhausted(3), Retries().exhausted(10**6)
        (False, True, False)
        """
        return self.limit is not None and failures > self.limit


def declared_retries(limit: int | None, backoff: str, backoff_max: str) -> Retries:
    """As an app declares it; InvalidDeclaration if it makes no sense.

    >>> declared_retries(5, "200 milliseconds", "10 seconds")
    Retries(limit=5, first_ms=200, longest_ms=10000)
    """
    if limit is not None and limit < 0:
        raise InvalidDeclaration(f"retries={limit} is less than none", "Use 0 for none, None for no limit.")
    first_ms, longest_ms = (max(1, duration_us(text) // 1000) for text in (backoff, backoff_max))
    return Retries(limit, first_ms, max(first_ms, longest_ms))
