"""How far every group has read: committed offsets, themselves a compacted topic."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from headwater.errors import (
    HeadwaterError,
    InvalidGroup,
    OffsetMetadataTooLarge,
    UnavailableError,
    UnknownPartition,
    UnknownTopic,
)
from headwater.log.groups.consumer.records import Kind, StateKey, StateValue
from headwater.log.groups.entry import Entry, EntryKey
from headwater.log.groups.journal import TOPIC, Journal, ensure_topic, partition_for
from headwater.log.groups.member import SavedGroup
from headwater.log.groups.records import STRING_BYTES_MAX, CommittedOffset, GroupKey, OffsetKey
from headwater.log.transactions.markers import Marker
from headwater.log.transactions.transaction import ProducerIdentity
from headwater.record import TopicPartition

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")

ALL_PARTITIONS = -1

__all__ = ["METADATA_BYTES_MAX", "CommittedOffset", "GroupOffsets", "check_group"]

METADATA_BYTES_MAX = 4096


@dataclass
class _Kept:
    """The committed offsets of one group. Times are elapsed times: moving the wall clock expires no offset."""

    idle_since_ms: int
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    committed_ms: dict[TopicPartition, int] = field(default_factory=dict)
    saved: SavedGroup | None = None
    state: dict[StateKey, StateValue] = field(default_factory=dict)
    """Of a group of the consumer protocol. A group speaks one of the two: what is saved later counts."""

    def save(self, entry: Entry) -> None:
        key, value = entry
        if isinstance(key, StateKey):
            self.state.pop(key, None)
            if value is not None and not isinstance(value, CommittedOffset | SavedGroup):
                self.state[key] = value
                self.saved = None
        else:
            self.saved = value if isinstance(value, SavedGroup) else None
            if self.saved is not None:
                self.state.clear()


def check_group(group: str) -> None:
    """InvalidGroup unless this can name a group.

    >>> check_group("orders-service")
    """
    if not group:
        raise InvalidGroup(group, "it is empty")
    if len(group.encode()) > STRING_BYTES_MAX:
        raise InvalidGroup(group, f"it is longer than {STRING_BYTES_MAX} bytes")


class GroupOffsets:
    """Committed offsets of all groups. Safe to use from many threads.

    An offset that was committed is never lost, and never lies beyond the log's end after a power cut: the
    records before it are made durable first. The newest commit counts, also if its offset is smaller.
    """

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._journals: dict[int, Journal] = {}
        self._doubts: dict[int, str] = {}
        """By partition: why offsets that were committed to it may be lost."""
        self._certain: set[EntryKey] = set()
        self._load()

    # Offsets

    def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit the offsets at which the group resumes; durable when this returns."""
        check_group(group)
        for failure in self.secure(offsets).values():
            raise failure
        self.write(self.commit_entries(group, offsets))

    def commit_entries(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> list[Entry]:
        """Returns the commit for `write`; the offsets must have been secured before."""
        now_ms = self._log.clock.now_ms()
        return [
            Entry(OffsetKey(group, *topic_partition), committed._replace(commit_ms=now_ms))
            for topic_partition, committed in offsets.items()
        ]

    def secure(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, HeadwaterError]:
        """Make durable what lies before each offset; answers those that must not be committed, and why.

        Without this a power cut could lose records whose offset is committed: the offset would lie beyond the
        end of the log, and clients would start over, or skip what is written there next.
        """
        refused: dict[TopicPartition, HeadwaterError] = {}
        for topic_partition, committed in offsets.items():
            size = len(committed.metadata.encode())
            try:
                if size > METADATA_BYTES_MAX:
                    raise OffsetMetadataTooLarge(size, limit=METADATA_BYTES_MAX)
                partition = self._log.partition(*topic_partition)
                partition.make_durable(min(committed.offset, partition.end_offset))
            except HeadwaterError as error:
                refused[topic_partition] = error
        return refused

    def fetch(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """All committed offsets of a group; empty if it has none.

        UnavailableError if a newer commit may stand in what is damaged: a group sent back to an older offset, or
        to none, would read records again or skip them unnoticed.
        """
        with self._lock:
            kept = self._kept.get(group)
            offsets = dict(kept.offsets) if kept else {}
        if self._doubts:
            self._raise_if_in_doubt(group, offsets)
        return offsets

    def _raise_if_in_doubt(self, group: str, offsets: Collection[TopicPartition]) -> None:
        why = self._doubts.get(ALL_PARTITIONS) or self._doubts.get(self.partition_of(group))
        if why and not (offsets and all(OffsetKey(group, *where) in self._certain for where in offsets)):
            failure = UnavailableError(f'committed offsets of group "{group}" cannot be trusted: {why}')
            failure.hint = f'Set the offsets it resumes at with "headwater group reset {group}".'
            raise failure

    def unstable(self, group: str) -> frozenset[TopicPartition]:
        """Partitions of which an open transaction is about to commit the group's offset."""
        if not self._journals:
            return frozenset()
        pending = self._journal(self.partition_of(group)).pending(group)
        return frozenset(TopicPartition(key.topic, key.partition) for key in pending if isinstance(key, OffsetKey))

    def groups(self) -> list[str]:
        """Every group of which anything is remembered, sorted."""
        with self._lock:
            return sorted(self._kept)

    def remembers(self, group: str) -> bool:
        """Is anything known of this group?"""
        with self._lock:
            return group in self._kept

    def delete(self, group: str, partitions: Collection[TopicPartition] | None = None) -> None:
        """Forget the group's offsets of these partitions; without partitions, everything about the group."""

        def decide(under_way: list[Entry]) -> list[Entry]:
            keys = self._keys(group, under_way)
            if partitions is not None:
                wanted = {OffsetKey(group, *topic_partition) for topic_partition in partitions}
                keys = [key for key in keys if key in wanted]
            return [Entry(key, None) for key in keys]

        if self._journals:
            self._journal(self.partition_of(group)).write(decide)

    def forget_topic(self, name: str) -> None:
        """Drop all groups' offsets of a topic that is being deleted, so that its successor does not inherit them.

        Never fails: what cannot be written down (the disk may be full) is forgotten here and now, and once more at the
        next start if there is no such topic then.
        """
        with self._lock:
            journals = list(self._journals.items())
        for number, journal in journals:
            try:
                journal.write(partial(self._forget_topic_in, number, name))
            except HeadwaterError as error:
                logger.warning("offsets of the deleted topic %s could not be removed: %s", name, error)
                self._apply(self._forget_topic_in(number, name, []))

    def expire(self, retention_ms: int, *, active: Collection[str]) -> None:
        """Forget what was committed longer ago than this by groups without members, and groups with nothing left.

        Only time during which this process ran counts. `active` are the groups that have members.
        """
        now_ms = self._log.clock.elapsed_ms()
        with self._lock:
            for group in active:
                if group in self._kept:
                    self._kept[group].idle_since_ms = now_ms
            idle = [group for group in self._kept if group not in active]
        for group in idle:
            self._expire_group(group, now_ms - retention_ms)

    # Groups

    def saved_groups(self) -> list[SavedGroup]:
        with self._lock:
            return [kept.saved for kept in self._kept.values() if kept.saved is not None]

    def saved_group(self, group: str) -> SavedGroup | None:
        with self._lock:
            kept = self._kept.get(group)
            return kept.saved if kept else None

    def consumer_groups(self) -> list[str]:
        """Groups of the consumer protocol that have members."""
        with self._lock:
            return [group for group, kept in self._kept.items() if any(key.kind is Kind.MEMBER for key in kept.state)]

    def consumer_state(self, group: str) -> dict[StateKey, StateValue]:
        """What is saved of a group of the consumer protocol; empty if it is none."""
        with self._lock:
            kept = self._kept.get(group)
            return dict(kept.state) if kept else {}

    # Writing

    def partition_of(self, group: str) -> int:
        """The partition of the offsets topic that holds this group; writes to one partition keep their order."""
        return partition_for(group, ensure_topic(self._log).partitions)

    def write(self, entries: Sequence[Entry]) -> None:
        """Durable and in effect when this returns; entries of one group take effect in their order."""
        shares: dict[int, list[Entry]] = {}
        for entry in entries:
            shares.setdefault(self.partition_of(entry.key.group), []).append(entry)
        for number, share in shares.items():
            self._journal(number).write(partial(self._still_possible, share))

    # In transactions

    def place_of(self, group: str) -> TopicPartition:
        """The partition that is part of a transaction which commits offsets of the group."""
        return TopicPartition(TOPIC, self.partition_of(group))

    def commit_pending(
        self, producer: ProducerIdentity, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Commit offsets when the producer's transaction commits. They must have been secured, and the transaction must
        be open: that is for the transactions' coordinator to see to."""
        entries = self.commit_entries(group, offsets)
        self._journal(self.partition_of(group)).write_pending(producer, partial(self._still_possible, entries))

    def append_marker(self, number: int, marker: Marker) -> Callable[[], None]:
        """End a transaction in a partition of the offsets topic. What is returned makes it durable and effective."""
        journal = self._journal(number)
        return partial(journal.settle, journal.append_marker(marker))

    def _still_possible(self, entries: list[Entry], _under_way: list[Entry]) -> list[Entry]:
        # A topic may have been deleted since its offsets were secured. Asked here, under the journal's lock, such an
        # offset is either left out or written before forget_topic looks for it.
        return [entry for entry in entries if not isinstance(entry.key, OffsetKey) or self._exists(entry.key)]

    def _exists(self, key: OffsetKey) -> bool:
        try:
            self._log.partition(key.topic, key.partition)
        except (UnknownTopic, UnknownPartition):
            return False
        return True

    def _journal(self, number: int) -> Journal:
        with self._lock:
            if number not in self._journals:
                self._journals[number] = Journal(self._log, number, self._apply)
            return self._journals[number]

    def _apply(self, entries: Sequence[Entry]) -> None:
        now_ms = self._log.clock.elapsed_ms()
        with self._lock:
            for key, value in entries:
                kept = self._kept.setdefault(key.group, _Kept(now_ms))
                if isinstance(key, OffsetKey):
                    topic_partition = TopicPartition(key.topic, key.partition)
                    kept.offsets.pop(topic_partition, None)
                    kept.committed_ms.pop(topic_partition, None)
                    if isinstance(value, CommittedOffset):
                        if self._doubts:
                            self._certain.add(key)
                        kept.offsets[topic_partition] = value
                        kept.committed_ms[topic_partition] = now_ms
                else:
                    kept.save(Entry(key, value))
                if kept.saved is None and not kept.offsets and not kept.state:
                    del self._kept[key.group]

    # Looking for what to forget

    def _keys(self, group: str, under_way: Sequence[Entry] = ()) -> list[EntryKey]:
        """Keys of everything remembered of a group, or about to be."""
        keys: dict[EntryKey, None] = {entry.key: None for entry in under_way if entry.key.group == group}
        with self._lock:
            kept = self._kept.get(group)
            if kept is not None:
                keys |= {OffsetKey(group, *topic_partition): None for topic_partition in kept.offsets}
                keys |= {GroupKey(group): None} if kept.saved is not None else {}
                keys |= dict.fromkeys(kept.state)
        return list(keys)

    def _forget_topic_in(self, number: int, topic: str, under_way: list[Entry]) -> list[Entry]:
        # What is forgotten must be forgotten in the partition that remembers it.
        groups = {entry.key.group for entry in under_way} | set(self.groups())
        keys = [key for group in sorted(groups) for key in self._keys(group, under_way)]
        return [
            Entry(key, None)
            for key in keys
            if isinstance(key, OffsetKey) and key.topic == topic and self.partition_of(key.group) == number
        ]

    def _expire_group(self, group: str, limit_ms: int) -> None:
        def decide(under_way: list[Entry]) -> list[Entry]:
            if any(entry.key.group == group for entry in under_way):
                return []
            with self._lock:
                kept = self._kept.get(group)
                if kept is None or kept.idle_since_ms > limit_ms:
                    return []
                old = [where for where, committed_ms in kept.committed_ms.items() if committed_ms <= limit_ms]
                entries = [Entry(OffsetKey(group, *where), None) for where in old]
                if len(old) == len(kept.offsets):
                    entries += [Entry(GroupKey(group), None)] if kept.saved is not None else []
                    entries += [Entry(key, None) for key in kept.state]
            return entries

        self._journal(self.partition_of(group)).write(decide)

    def _load(self) -> None:
        try:
            topic = self._log.topic(TOPIC)
        except UnknownTopic:
            return
        except UnavailableError as error:  # it is offline: commits and fetches answer with this error
            logger.error("committed offsets cannot be read: %s", error)
            self._doubts[ALL_PARTITIONS] = str(error)
            return
        for number in range(topic.partitions):
            journal = self._journal(number)
            journal.load()
            if journal.doubt:
                self._doubts[number] = journal.doubt
            self._certain |= journal.certain
        self._forget_missing_topics()

    def _forget_missing_topics(self) -> None:
        """A crash may have interrupted a topic's deletion after the topic was deleted and before its offsets were.

        A topic that is offline is not deleted: when its file is restored, its groups resume where they were.
        """
        with self._lock:
            read = {topic_partition.topic for kept in self._kept.values() for topic_partition in kept.offsets}
        there = {topic.name for topic in self._log.topics()} | self._log.offline_topics().keys()
        for name in sorted(read - there):
            self.forget_topic(name)
