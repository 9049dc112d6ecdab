"""Snapshots: a shortcut to the state of an aggregate, never the truth.

A snapshot says at which version, and after which event, a state was what it says, and which code made it. It is used if
the code that would fold the events now is the same, its hash fits, and the stream still has that event at that version;
otherwise all events are folded, and the answer is the same. Nothing is lost with the topic of snapshots.
"""

import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from headwater.events.codec import to_json
from headwater.events.folding import Loaded
from headwater.events.storage import EventStorage
from headwater.log.streams.condition import Append, StreamWrite
from headwater.log.streams.event import NewEvent

SNAPSHOT = "Snapshot"
TOPIC_ENDING = "-snapshots"
CONFIGS = {"cleanup.policy": "compact"}
"""Only the newest of a stream is read."""


@dataclass(frozen=True)
class Snapshot:
    version: int
    event_id: str
    """Of the event that brought the stream to this version."""
    fingerprint: str
    state: dict[str, Any]

    def hash(self) -> str:
        content = to_json([self.version, self.event_id, self.fingerprint, self.state])
        return blake2b(content, digest_size=16).hexdigest()


class Snapshots:
    def __init__(self, storage: EventStorage) -> None:
        self._storage = storage

    def save(self, stream: str, loaded: Loaded) -> None:
        """Not where a tentative event may still be taken out: the state without it could not be made from this."""
        if loaded.state.unconfirmed:
            return
        definition = loaded.definition
        snapshot = Snapshot(
            loaded.state.version, loaded.last_id, definition.fingerprint, definition.state(loaded.state)
        )
        data = to_json({**vars(snapshot), "hash": snapshot.hash()})
        self._storage.append(Append((StreamWrite(stream, [NewEvent(SNAPSHOT, data)]),)))

    def newest(self, stream: str, fingerprint: str) -> Snapshot | None:
        """None if there is none that this code made and that is what was written."""
        for event in self._storage.read(stream, backwards=True):
            try:
                said = json.loads(event.data)
                written = said.pop("hash")
                snapshot = Snapshot(**said)
            except (ValueError, KeyError, TypeError, AttributeError):
                return None
            return snapshot if written == snapshot.hash() and snapshot.fingerprint == fingerprint else None
        return None
