"""Bytes from a socket, cut into requests.

Between two requests bytes are received into a scratch buffer that all connections share (nothing stays in it), and
whole small requests are copied out. The rest of a request that did not arrive whole is received straight into its own
buffer. That buffer grows with what really arrives, so a length that is only announced costs nothing.
"""

from typing import NamedTuple

from headwater.errors import ProtocolError
from headwater.wire.budget import Budget, Lease
from headwater.wire.protocol.headers import LENGTH_BYTES

FIRST_BYTES = 64 * 1024
"""Buffer for a request of which little has arrived."""

SECOND_BYTES = 4 * 1024**2
"""The next step: most requests fit, so they are copied once at most, and only their first piece."""

FRAME_BYTES_MIN = 10  # the shortest request header


def new_scratch() -> memoryview:
    return memoryview(bytearray(FIRST_BYTES))


class Frame(NamedTuple):
    """One whole request, without its length. `view` is writable; the lease ends with the last reference to it."""

    view: memoryview
    lease: Lease


class FrameAssembler:
    """Give `buffer()` to the socket, say `received(count)`, and take the frames that became whole.

    When `starved` is set no more may be received until `grow` has answered True: the budget is used up.
    """

    def __init__(self, scratch: memoryview, *, bytes_max: int, budget: Budget) -> None:
        self._scratch = scratch
        self.bytes_max = bytes_max
        """Of one request; smaller before a login."""
        self._budget = budget
        self._length = bytearray()  # of a request whose length has not wholly arrived
        self._body = bytearray()
        self._declared = 0  # 0: between two requests
        self._filled = 0
        self._lease: Lease | None = None
        self.starved = False

    @property
    def partial(self) -> bool:
        """Has some of a request arrived, but not all?"""
        return bool(self._declared or self._length)

    @property
    def held(self) -> int:
        """Bytes that the unfinished request keeps from others."""
        return 0 if self._lease is None else self._lease.size

    @property
    def filled(self) -> int:
        """Bytes of the unfinished request so far."""
        return self._filled

    def buffer(self) -> memoryview:
        return memoryview(self._body)[self._filled :] if self._declared else self._scratch

    def received(self, count: int) -> list[Frame]:
        """Account for `count` bytes in the last buffer. ProtocolError if a request says an impossible length."""
        if not self._declared:
            return self._scan(self._scratch[:count])
        self._filled += count
        if self._filled == self._declared:
            return [self._finish()]
        if self._filled == len(self._body):
            self.grow()
        return []

    def grow(self) -> bool:
        """Make room for more of the unfinished request; False, and starved, if the budget does not allow it now."""
        if self._lease is None:
            return True  # the connection went away while it waited
        size = min(self._declared, max(SECOND_BYTES, 2 * len(self._body)))
        self.starved = not self._lease.extend(size - len(self._body))
        if self.starved:
            return False
        body = bytearray(size)
        body[: self._filled] = self._body
        self._body = body
        return True

    def discard(self) -> None:
        """Forget the unfinished request."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        self._body, self._declared, self._filled = bytearray(), 0, 0
        self._length.clear()

    def _scan(self, view: memoryview) -> list[Frame]:
        frames: list[Frame] = []
        position, end = 0, len(view)
        while position < end:
            missing = LENGTH_BYTES - len(self._length)
            self._length += view[position : position + missing]
            position += missing
            if len(self._length) < LENGTH_BYTES:
                break
            declared = self._take_length()
            if not FRAME_BYTES_MIN <= declared <= self.bytes_max:
                for frame in frames:
                    frame.lease.release()
                raise ProtocolError(f"a request announces {declared} bytes; {self.bytes_max} are allowed")
            if declared <= end - position:
                body = bytearray(view[position : position + declared])
                frames.append(Frame(memoryview(body), self._budget.lease(declared)))
                position += declared
            else:
                self._begin(declared, view[position:])
                break
        return frames

    def _take_length(self) -> int:
        declared = int.from_bytes(self._length, "big", signed=True)
        self._length.clear()
        return declared

    def _begin(self, declared: int, start: memoryview) -> None:
        size = min(declared, FIRST_BYTES)
        self._body = bytearray(size)
        self._body[: len(start)] = start
        self._declared, self._filled = declared, len(start)
        self._lease = self._budget.lease(size)
        if self._filled == size:
            self.grow()

    def _finish(self) -> Frame:
        assert self._lease is not None
        frame = Frame(memoryview(self._body), self._lease)
        self._body, self._declared, self._filled, self._lease = bytearray(), 0, 0, None
        return frame
