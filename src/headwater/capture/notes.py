"""The notes of a capture beside its records: kept in the log itself, in one compacted topic for all captures.

Key `<capture>/<what>`, value JSON. A note is written after the records it speaks of are durable, so that what it says
is never ahead of them.
"""

import json
from collections.abc import Mapping

from headwater.capture.appender import Appender
from headwater.record import Record

TOPIC = "__headwater_captures"
CONFIGS = {"cleanup.policy": "compact", "retention.ms": "-1", "retention.bytes": "-1"}

Note = Mapping[str, object]


class Notes:
    def __init__(self, appender: Appender, capture: str) -> None:
        self.capture = capture
        self._appender, self._prefix = appender, f"{capture}/".encode()
        self._appender.ensure_topic(TOPIC, partitions=1, configs=CONFIGS)
        self._notes: dict[str, Note] = {}
        first, _ = appender.bounds(TOPIC, 0)
        for record in appender.read(TOPIC, 0, first):
            if record.key is not None and record.key.startswith(self._prefix):
                self._take(record.key[len(self._prefix) :].decode(), record.value)

    def _take(self, what: str, value: bytes | None) -> None:
        if value is None:
            self._notes.pop(what, None)
        else:
            self._notes[what] = json.loads(value)

    def get(self, what: str) -> Note | None:
        return self._notes.get(what)

    def all(self) -> dict[str, Note]:
        return dict(self._notes)

    def write(self, notes: Mapping[str, Note | None]) -> None:
        """Durable when this returns; None forgets one."""
        records = []
        for what, note in notes.items():
            value = None if note is None else json.dumps(note, ensure_ascii=False).encode()
            records.append(Record(value, self._prefix + what.encode(), timestamp_ms=-1))
            self._take(what, value)
        if records:
            self._appender.append(TOPIC, 0, records)
            self._appender.sync()

    def forget(self) -> None:
        """Deletes all notes: the capture is removed."""
        self.write(dict.fromkeys(list(self._notes)))
