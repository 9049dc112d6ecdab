"""The events that subscribers receive. Each is encoded once for all subscribers. Pure.

    snapshot   all rows as they are: forget what you hold; `more` says that the rest follows
    changes    rows that changed and keys that went, of one write; `more` as above
    records    records of a topic
    end        nothing more comes on this connection, and why

A client can resume only after an event with an id: one with `more` is complete only with the events that follow.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

PARTS_MAX = 500
"""Rows or changes in one event."""


class Event:
    def __init__(self, kind: str, data: Any, id: str = "") -> None:
        self.kind, self.id = kind, id
        self._data = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    @cached_property
    def sse(self) -> bytes:
        """As a browser's EventSource reads it. JSON has no line breaks in it, so that the data is one line."""
        id = f"id: {self.id}\n" if self.id else ""
        return f"event: {self.kind}\n{id}data: {self._data}\n\n".encode("utf-8", "replace")

    @cached_property
    def message(self) -> str:
        """As one message of a WebSocket."""
        return f'{{"event":"{self.kind}","id":{json.dumps(self.id)},"data":{self._data}}}'

    @property
    def size(self) -> int:
        return len(self._data)


HEARTBEAT = b": still here\n\n"


def in_parts(kind: str, name: str, things: Sequence[Any], id: str) -> Iterator[Event]:
    """Events that together are one step; only the last has the id.

    >>> [(event.id, event.message) for event in in_parts("changes", "changes", [], "0-7")]
    [('0-7', '{"event":"changes","id":"0-7","data":{"more":false,"begin":true,"changes":[]}}')]
    """
    last = max(0, (len(things) - 1) // PARTS_MAX)
    for number in range(last + 1):
        part = list(things[number * PARTS_MAX : (number + 1) * PARTS_MAX])
        data = {"more": number < last, "begin": number == 0, name: part}
        yield Event(kind, data, id if number == last else "")


def end(reason: str, message: str) -> Event:
    return Event("end", {"reason": reason, "message": message})
