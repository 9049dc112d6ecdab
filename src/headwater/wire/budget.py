"""How much memory requests may take while they are being received and worked on, over all connections."""

from collections import deque
from collections.abc import Callable


class Budget:
    """Bytes shared by all connections.

    Small beginnings are always granted, since every connection needs one; growth beyond them only while there is room.
    One lease at a time may grow past the limit: otherwise connections that each hold half a request could wait for
    each other for ever.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._overdrawn_by: Lease | None = None
        self._waiting: deque[Callable[[], bool]] = deque()

    @property
    def exhausted(self) -> bool:
        return self.used >= self.bytes_max

    def lease(self, size: int) -> "Lease":
        self.used += size
        return Lease(self, size)

    def when_free(self, retry: Callable[[], bool]) -> None:
        """Call `retry` whenever bytes were given back, in the order of asking, until it answers True."""
        self._waiting.append(retry)

    def _grant(self, lease: "Lease", more: int) -> bool:
        if self.used + more > self.bytes_max:
            if self._overdrawn_by not in (None, lease):
                return False
            self._overdrawn_by = lease
        self.used += more
        return True

    def _give_back(self, lease: "Lease", size: int) -> None:
        self.used -= size
        if self._overdrawn_by is lease:
            self._overdrawn_by = None
        while self._waiting and self._waiting[0]():
            self._waiting.popleft()


class Lease:
    """Bytes that one request holds."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget = budget
        self.size = size

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
