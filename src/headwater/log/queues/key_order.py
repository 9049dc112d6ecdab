"""Order per key: of each key only the oldest unfinished message may be delivered, and others go on. Pure."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator

from headwater.log.queues.ranges import Range
from headwater.log.queues.states import State


class KeyOrder:
    """Knows the keys of all unfinished messages that have been looked at. Messages without a key have no order."""

    def __init__(self) -> None:
        self._key_of: dict[int, bytes | None] = {}
        self._unfinished: dict[bytes, deque[int]] = {}
        self._ready: list[int] = []

    def __len__(self) -> int:
        return len(self._key_of)

    def __contains__(self, offset: int) -> bool:
        return offset in self._key_of

    def add(self, offset: int, key: bytes | None) -> None:
        """A message that waits, and is looked at for the first time: offsets come in their order."""
        self._key_of[offset] = key
        if key is not None:
            self._unfinished.setdefault(key, deque()).append(offset)
        if self._leads(offset):
            insort(self._ready, offset)

    def may_go(self, offset: int) -> bool:
        """Whether no older message of the same key is unfinished, and the message itself waits."""
        index = bisect_left(self._ready, offset)
        return index < len(self._ready) and self._ready[index] == offset

    def ready_from(self, offset: int) -> Iterator[int]:
        """Offsets that may go, in their order."""
        yield from self._ready[bisect_left(self._ready, offset) :]

    def note(self, row: Range) -> None:
        """Messages have moved to the state of this row."""
        known = range(row.first, row.last + 1)
        offsets = [one for one in known if one in self._key_of] if row.size < len(self._key_of) else [
            one for one in sorted(self._key_of) if row.first <= one <= row.last
        ]  # fmt: skip
        for offset in offsets:
            if row.state is State.AVAILABLE:
                if self._leads(offset) and not self.may_go(offset):
                    insort(self._ready, offset)
                continue
            if self.may_go(offset):
                del self._ready[bisect_left(self._ready, offset)]
            if row.state is not State.ACQUIRED:  # a failed message does not hold its key
                self._finish(offset)

    def _leads(self, offset: int) -> bool:
        key = self._key_of[offset]
        return key is None or self._unfinished[key][0] == offset

    def _finish(self, offset: int) -> None:
        key = self._key_of.pop(offset)
        if key is None:
            return
        waiting = self._unfinished[key]
        led = waiting[0] == offset
        waiting.remove(offset)
        if not waiting:
            del self._unfinished[key]
        elif led:
            insort(self._ready, waiting[0])
