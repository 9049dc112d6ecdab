"""Debezium beside our capture, on the same database: its events, and which differences are meant.

The list INTENDED is what docs/decisions/0032 tells; a difference that is not on it is a failure.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import patience

PATIENCE_SECONDS = 90
ROOT = Path(__file__).parents[3]
Event = dict[str, Any]


class Debezium:
    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self._path, self._process = folder / "events.jsonl", process

    def events(self) -> list[Event]:
        if not self._path.exists():
            return []
        whole, _, _ = self._path.read_text(encoding="utf-8").rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def until(self, enough: Callable[[list[Event]], bool]) -> list[Event]:
        deadline = patience() + PATIENCE_SECONDS
        while not enough(events := self.events()):
            assert self._process.poll() is None, "Debezium has ended; see debezium.log"
            assert patience() < deadline, f"Debezium did not come so far; it told {len(events)} events"
            time.sleep(0.1)
        return events


@contextmanager
def running_debezium(port: int, database: str, tables: Sequence[str], folder: Path) -> Iterator[Debezium]:
    folder.mkdir()
    command = [sys.executable, "-m", "tests.capture.postgres.debezium_process", "127.0.0.1", str(port), database,
               ",".join(tables), str(folder)]  # fmt: skip
    with (folder / "debezium.log").open("wb") as log:
        # The engine chooses its own options for the JVM, and those of our tests contradict them.
        own = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
        # It writes a log of its own where it is started.
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env={**own, "PYTHONPATH": str(ROOT)})
        try:
            yield Debezium(folder, process)
        finally:
            process.kill()
            process.wait()


# -- what differs on purpose: where, ours and theirs are made the same -------------------------------------------------


def _other_names(event: Event) -> None:
    """`source.version` is ours, and the times when an event passed are those of each."""
    del event["source"]["version"]
    for unit in ("ts_ms", "ts_us", "ts_ns"):
        del event[unit]


def _sequence(event: Event) -> None:
    """`source.sequence` begins with the event's own commit, not with the one before it: it orders events by itself."""
    event["source"]["sequence"] = json.loads(event["source"]["sequence"])[1]


def _no_origin(event: Event) -> None:
    """`source.origin` is not told."""
    event["source"].pop("origin", None)
    event["source"].pop("origin_lsn", None)


def _copied(event: Event) -> None:
    """A row of a copy says `incremental`, and stands where the copy has read it: its place, time and transaction are
    those of the mark in the log."""
    if event["op"] == "r":
        for field in ("snapshot", "lsn", "sequence", "txId", "ts_ms", "ts_us", "ts_ns"):
            event["source"].pop(field, None)


def _unknown_before(event: Event) -> None:
    """`before` has only the columns that the database told; Debezium has null in the others, which they need not be."""
    if event["before"] is not None:
        event["before"] = {name: value for name, value in event["before"].items() if value is not None}


def _transaction(event: Event) -> None:
    """The id of a transaction is the same in all of its events; Debezium's changes with each."""
    if event["transaction"] is not None:
        event["transaction"]["id"] = event["transaction"]["id"].partition(":")[0]


def _no_zone(event: Event) -> None:
    """What has no zone in the database has none here; Debezium says that it is in UTC."""
    for name in ("a_date", "a_time", "a_timestamp"):
        if name in (event["after"] or {}):
            event["after"][name] = event["after"][name].removesuffix("Z")


INTENDED = (_other_names, _sequence, _no_origin, _copied, _unknown_before, _transaction, _no_zone)


def alike(event: Event) -> Event:
    """The event without the intended differences."""
    copy: Event = json.loads(json.dumps(event))
    if copy["value"] is not None and "source" in copy["value"]:
        for remove in INTENDED:
            remove(copy["value"])
    return copy


def differing(place: str, ours: object, theirs: object) -> list[str]:
    """Fields that differ, each with its path."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        names = [*ours, *(name for name in theirs if name not in ours)]
        missing = "not there"
        return [
            found
            for name in names
            for found in differing(f"{place}.{name}", ours.get(name, missing), theirs.get(name, missing))
        ]
    return [] if ours == theirs else [f"{place}: we say {ours!r}, Debezium {theirs!r}"]
