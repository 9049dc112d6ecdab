"""Reads a history and names every promise that was broken (pure).

    lost-write             an acknowledged send that was not read, although later offsets were read
    unseen                 an acknowledged send that was not read, even at the end
    vanished               a record that was read and that was missing at the end
    duplicate              one value at two offsets
    inconsistent-offsets   two values at one offset
    failed-read            a value was read whose send certainly failed
    nonmonotonic-send      a later send of one producer got an earlier offset
    nonmonotonic-poll      a consumer was given an earlier offset after a later one
    poll-skip              a consumer was led past a record that others know
    commit-went-back       a group got an offset older than one it had committed

What retention removed (offsets before the start of the partition) and what compaction may remove (records with a newer
one of the same key) is not missed. Values are unique, so a value names its send.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from headwater.record import TopicPartition
from tests.crash.history import FINAL, Commit, History, Poll


class Anomaly(NamedTuple):
    kind: str
    partition: TopicPartition
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} in {self.partition.topic}/{self.partition.partition}: {self.detail}"


def check(history: History) -> list[Anomaly]:
    known = _Known(history)
    return [
        *_missing(history, known),
        *_vanished(history, known),
        *_duplicates(history, known),
        *_inconsistent(known),
        *_failed_reads(history, known),
        *_sends_out_of_order(history),
        *_polls_out_of_order(history),
        *_skips(history, known),
        *_commits_going_back(history),
    ]


class _Known:
    """Everything that was claimed to be at some offset, by acknowledgements and by reads."""

    def __init__(self, history: History) -> None:
        self.values_at: dict[TopicPartition, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.read: dict[TopicPartition, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.read_at_end: dict[TopicPartition, set[str]] = defaultdict(set)
        self.highest_read: dict[TopicPartition, int] = defaultdict(lambda: -1)
        for poll in history.polls:
            self._add_poll(poll)
        for send in history.sends:
            if send.outcome == "ok":
                self.values_at[send.partition][send.offset].add(send.value)
        self._key_of = {send.value: send.key for send in history.sends}
        self._start = history.start_offsets
        self._compacted = history.compacted
        self._newest = self._newest_of_each_key()

    def _add_poll(self, poll: Poll) -> None:
        for offset, value in poll.records:
            self.values_at[poll.partition][offset].add(value)
            self.read[poll.partition][value].add(offset)
            self.highest_read[poll.partition] = max(self.highest_read[poll.partition], offset)
            if poll.consumer == FINAL:
                self.read_at_end[poll.partition].add(value)

    def _newest_of_each_key(self) -> dict[tuple[TopicPartition, str | None], int]:
        newest: dict[tuple[TopicPartition, str | None], int] = {}
        for partition, offsets in self.values_at.items():
            for offset, values in offsets.items():
                for value in values:
                    identity = partition, self._key_of.get(value)
                    newest[identity] = max(newest.get(identity, -1), offset)
        return newest

    def must_be_there(self, partition: TopicPartition, offset: int, value: str) -> bool:
        if offset < self._start.get(partition, 0):
            return False
        if partition.topic not in self._compacted:
            return True
        return self._newest[partition, self._key_of.get(value)] == offset


def _missing(history: History, known: _Known) -> Iterator[Anomaly]:
    for send in history.sends:
        if send.outcome != "ok" or send.value in known.read[send.partition]:
            continue
        if known.must_be_there(send.partition, send.offset, send.value):
            kind = "lost-write" if send.offset <= known.highest_read[send.partition] else "unseen"
            yield Anomaly(kind, send.partition, f"{send.value!r} was acknowledged at {send.offset} and never read")


def _vanished(history: History, known: _Known) -> Iterator[Anomaly]:
    if not any(poll.consumer == FINAL for poll in history.polls):
        return
    for partition, values in known.read.items():
        for value, offsets in values.items():
            if value not in known.read_at_end[partition] and known.must_be_there(partition, max(offsets), value):
                yield Anomaly("vanished", partition, f"{value!r} was read at {max(offsets)} and is missing")


def _duplicates(history: History, known: _Known) -> Iterator[Anomaly]:
    acknowledged = {(send.partition, send.value): send.offset for send in history.sends if send.outcome == "ok"}
    for partition, values in known.read.items():
        for value, offsets in values.items():
            offsets_seen = offsets | ({acknowledged[partition, value]} if (partition, value) in acknowledged else set())
            if len(offsets_seen) > 1:
                yield Anomaly("duplicate", partition, f"{value!r} is at {sorted(offsets_seen)}")


def _inconsistent(known: _Known) -> Iterator[Anomaly]:
    for partition, offsets in known.values_at.items():
        for offset, values in offsets.items():
            if len(values) > 1:
                yield Anomaly("inconsistent-offsets", partition, f"offset {offset} holds {sorted(values)}")


def _failed_reads(history: History, known: _Known) -> Iterator[Anomaly]:
    for send in history.sends:
        if send.outcome == "fail" and send.value in known.read[send.partition]:
            yield Anomaly("failed-read", send.partition, f"{send.value!r} was read, though its send failed")


def _sends_out_of_order(history: History) -> Iterator[Anomaly]:
    last: dict[tuple[str, TopicPartition], tuple[int, str]] = {}
    for send in history.sends:
        if send.outcome != "ok":
            continue
        before, value = last.get((send.producer, send.partition), (-1, ""))
        if send.offset <= before:
            detail = f"{send.producer} got {send.offset} for {send.value!r} after {before} for {value!r}"
            yield Anomaly("nonmonotonic-send", send.partition, detail)
        last[send.producer, send.partition] = send.offset, send.value


def _steps(history: History) -> Iterator[tuple[Poll, int, int]]:
    """Each pair of offsets that a consumer was given one after the other in a session."""
    last: dict[tuple[str, TopicPartition, int], int] = {}
    for poll in history.polls:
        session = poll.consumer, poll.partition, poll.session
        for offset, _ in poll.records:
            if session in last:
                yield poll, last[session], offset
            last[session] = offset


def _polls_out_of_order(history: History) -> Iterator[Anomaly]:
    for poll, before, offset in _steps(history):
        if offset <= before:
            yield Anomaly("nonmonotonic-poll", poll.partition, f"{poll.consumer} got {offset} after {before}")


def _skips(history: History, known: _Known) -> Iterator[Anomaly]:
    offsets = {partition: sorted(values) for partition, values in known.values_at.items()}
    for poll, before, offset in _steps(history):
        offsets_seen = offsets[poll.partition]
        for skipped in offsets_seen[bisect_right(offsets_seen, before) : bisect_left(offsets_seen, offset)]:
            values = known.values_at[poll.partition][skipped]
            if any(known.must_be_there(poll.partition, skipped, value) for value in values):
                detail = f"{poll.consumer} went from {before} to {offset} past {sorted(values)} at {skipped}"
                yield Anomaly("poll-skip", poll.partition, detail)


def _commits_going_back(history: History) -> Iterator[Anomaly]:
    floor: dict[tuple[str, TopicPartition], int] = {}
    for event in history.commits:
        identity = event.group, event.partition
        if isinstance(event, Commit):
            if event.outcome == "ok":
                floor[identity] = event.offset
        elif event.offset < floor.get(identity, -1):
            detail = f"{event.group} committed {floor[identity]} and got {event.offset}"
            yield Anomaly("commit-went-back", event.partition, detail)
