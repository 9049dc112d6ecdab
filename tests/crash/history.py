"""What happened, as the clients saw it: one JSON line per event, kept away from the disk under test.

    {"kind": "invoke", "what": "send", "process": "producer-0", "id": 7, "partition": ["orders", 0], "value": "a-7"}
    {"kind": "ok", "what": "send", "process": "producer-0", "id": 7, "offset": 41}

A send that was invoked and has no other event is unknown: it may have happened or not, now or later. So has `info`.
`fail` is kept for what certainly never left the client.
"""

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.record import TopicPartition

FINAL = "final"
"""The consumer that reads everything from the start of each partition to its end, when all is over."""


@dataclass(frozen=True)
class Send:
    producer: str
    partition: TopicPartition
    value: str
    outcome: str = "info"
    offset: int = -1
    key: str | None = None


@dataclass(frozen=True)
class Poll:
    """Records in the order a consumer got them. Between two sessions it may have moved to another place."""

    consumer: str
    partition: TopicPartition
    records: tuple[tuple[int, str], ...]
    session: int = 0


@dataclass(frozen=True)
class Commit:
    group: str
    partition: TopicPartition
    offset: int
    outcome: str = "ok"


@dataclass(frozen=True)
class Fetched:
    """A committed offset that a group fetched, after the commits before it in the history."""

    group: str
    partition: TopicPartition
    offset: int


@dataclass
class History:
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    commits: list[Commit | Fetched] = field(default_factory=list)
    start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    """Where each partition began at the end: retention may have removed what lies before."""
    compacted: set[str] = field(default_factory=set)
    """Topics that keep only the newest record of each key."""


class HistoryFile:
    """Writes events as they happen; every line is with the operating system when the call returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()

    def note(self, kind: str, what: str, **facts: Any) -> None:
        line = json.dumps({"kind": kind, "what": what, **facts}) + "\n"
        with self._lock:
            self._file.write(line)

    def close(self) -> None:
        self._file.close()


def read_history(path: Path, *, compacted: Iterable[str] = ()) -> History:
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return history_of(events, compacted=compacted)


def history_of(events: Iterable[Mapping[str, Any]], *, compacted: Iterable[str] = ()) -> History:
    history = History(compacted=set(compacted))
    invoked: dict[tuple[str, int], Mapping[str, Any]] = {}
    ends: dict[tuple[str, int], Mapping[str, Any]] = {}
    for event in events:
        match event["what"]:
            case "send" if event["kind"] == "invoke":
                invoked[event["process"], event["id"]] = event
            case "send":
                ends[event["process"], event["id"]] = event
            case "poll":
                history.polls.append(_poll(event))
            case "commit":
                history.commits.append(Commit(event["group"], _partition(event), event["offset"], event["kind"]))
            case "fetched":
                history.commits.append(Fetched(event["group"], _partition(event), event["offset"]))
            case "start":
                history.start_offsets[_partition(event)] = event["offset"]
    history.sends = [_send(event, ends.get(identity)) for identity, event in invoked.items()]
    return history


def _send(event: Mapping[str, Any], end: Mapping[str, Any] | None) -> Send:
    outcome, offset = ("info", -1) if end is None else (end["kind"], end.get("offset", -1))
    return Send(event["process"], _partition(event), event["value"], outcome, offset, event.get("key"))


def _poll(event: Mapping[str, Any]) -> Poll:
    records = tuple((offset, value) for offset, value in event["records"])
    return Poll(event["process"], _partition(event), records, event.get("session", 0))


def _partition(event: Mapping[str, Any]) -> TopicPartition:
    topic, number = event["partition"]
    return TopicPartition(topic, number)
