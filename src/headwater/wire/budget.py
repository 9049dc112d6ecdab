"""How much memory requests may take while they are being received and worked on, over all connections."""

from collections import deque
from collections.abc import Callable

ORDINARY_BYTES = 4 * 1024**2
"""A request up to this size is an ordinary one."""

ORDINARY_SHARE = 0.25
"""What of the budget only ordinary requests may use: so they continue when large ones are stuck."""


class Budget:
    """Bytes shared by all connections.

    Small beginnings are always granted, since every connection needs one; growth beyond them only while there is room.
    A part of the room is for ordinary requests alone. One lease at a time may grow past the limit: otherwise
    connections that each hold half a request could wait for each other for ever.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._large = 0  # what of it is held by requests that are more than ordinary
        self._overdrawn_by: Lease | None = None
        self._waiting: deque[Callable[[], bool]] = deque()

    @property
    def exhausted(self) -> bool:
        return self.used >= self.bytes_max

    def wanted(self) -> bool:
        """Does a request wait for others to give something back?"""
        return bool(self._waiting)

    def lease(self, size: int) -> "Lease":
        self.used += size
        return Lease(self, size)

    def when_free(self, retry: Callable[[], bool]) -> None:
        """Call `retry` whenever bytes were given back, in the order of asking, until it answers True."""
        self._waiting.append(retry)

    def _grant(self, lease: "Lease", more: int) -> bool:
        large = lease.size + more > ORDINARY_BYTES
        if not self._fits(more, large=large):
            if self._overdrawn_by not in (None, lease):
                return False
            self._overdrawn_by = lease
        self.used += more
        if large:
            self._large += more if lease.large else lease.size + more
            lease.large = True
        return True

    def _fits(self, more: int, *, large: bool) -> bool:
        reserve = self.bytes_max * ORDINARY_SHARE
        if large:
            return self.used + more <= self.bytes_max - reserve
        return self.used + more <= self.bytes_max or self.used - self._large + more <= reserve

    def _give_back(self, lease: "Lease", size: int) -> None:
        self.used -= size
        self._large -= size if lease.large else 0
        if self._overdrawn_by is lease:
            self._overdrawn_by = None
        # Those that may not grow yet do not keep others waiting that ask for less.
        waiting, self._waiting = self._waiting, deque()
        self._waiting.extend(retry for retry in waiting if not retry())


class Lease:
    """Bytes that one request holds."""

    __slots__ = ("_budget", "large", "size")

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget = budget
        self.size = size
        self.large = False

    def extend(self, more: int) -> bool:
        """Hold `more` bytes in addition; False if others must give some back first."""
        if not self._budget._grant(self, more):
            return False
        self.size += more
        return True

    def release(self) -> None:
        """Give everything back. May be called again."""
        size, self.size = self.size, 0
        if size:
            self._budget._give_back(self, size)
