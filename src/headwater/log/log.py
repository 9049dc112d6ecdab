"""The log: topics, their partitions, and one process that owns them all.

data/
├── .lock                         held by the owning process
├── identity.json                 cluster id, format, next producer id, the time as last known (identity.py)
├── clean-stop                    present only between a clean stop and the next start
├── topics/orders.json            which topics exist (topic.py)
├── archive/                      sealed segments of topics with remote.storage.enable, unless settings say otherwise
└── orders-0/                     one folder a partition, laid out as Kafka's
    ├── 00000000000000000000.log  .index  .timeindex
    ├── checkpoint  durable       how far it is safe (checkpoint.py)
    ├── manifest.json             which segments it owns (manifest.py)
    ├── quarantine.json           damage that was found (quarantine.py)
    └── archive.json              which of its segments are in the archive (archive_manifest.py)
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from headwater.clock import Clock, SystemClock
from headwater.errors import (
    DamagedFile,
    DataDirectoryLocked,
    HeadwaterError,
    InvalidPartitions,
    InvalidSetting,
    LogClosed,
    TopicExists,
    TopicOffline,
    UnavailableError,
    UnknownPartition,
    UnknownTopic,
    UsageError,
)
from headwater.log.appended import Owner
from headwater.log.archive import Archive
from headwater.log.disk_errors import disk_errors_as_unavailable
from headwater.log.identity import (
    IDENTITY,
    Identity,
    boot_id,
    holds_data,
    read_identity,
    restored_identity,
    write_identity,
)
from headwater.log.maintenance import Maintenance
from headwater.log.partition import Partition
from headwater.log.partitioner import choose_partitions
from headwater.log.reader import Follower, read_records
from headwater.log.storage import LocalStorage, Storage, read_whole, replace_durably
from headwater.log.storage.watched import WatchedStorage
from headwater.log.topic import (
    DIRECTORY,
    FoundTopic,
    Topic,
    check_name,
    deletion_marked,
    load_topics,
    mark_deletion,
    mark_deletion_of_remains,
    partition_directory,
    raise_if_partition_lost,
    remains_of,
    remove_mark,
    remove_partitions,
    save_topic,
)
from headwater.log.topic_settings import TopicSettings
from headwater.log.trusted_time import TrustedTime
from headwater.log.writer import append_records
from headwater.record import Position, Record, TopicPartition
from headwater.settings import LogSettings, milliseconds

if TYPE_CHECKING:
    from headwater.log.groups.offsets import GroupOffsets
    from headwater.log.queues.consumer import QueueConsumer
    from headwater.log.queues.opening import QueueArguments
    from headwater.log.queues.queues import Queues
    from headwater.log.transactions.coordinator import Transactions
    from headwater.log.transactions.in_process import OpenTransaction

logger = logging.getLogger("headwater.log")

PARTITIONS_MAX = 10_000
PRODUCER_ID_BLOCK = 1_000
PRODUCER_ID_MARGIN = 1_000_000  # over which a restored identity steps; there are 2**63 ids
CLEAN_STOP = "clean-stop"
TRANSACTIONS_TOPIC = "__transaction_state"


class Log:
    """A durable, partitioned log in one directory. Safe to use from many threads; one process at a time.

    >>> from headwater.log.storage import MemoryStorage
    >>> with Log.open("orders-data", storage=MemoryStorage()) as log:
    ...     topic = log.create_topic("orders")
    ...     position = log.append("orders", Record(b"two apples", key=b"ada"))
    ...     [record.value for record in log.read("orders")]
    [b'two apples']
    """

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        settings: LogSettings | None = None,
        storage: Storage | None = None,
        clock: Clock | None = None,
    ) -> "Log":
        """Open or create the log in a directory. DataDirectoryLocked if another process has it."""
        return cls(path, settings or LogSettings(), storage or LocalStorage(path), clock or SystemClock())

    def __init__(self, path: str | Path, settings: LogSettings, storage: Storage, clock: Clock) -> None:
        self.path, self.settings, self.clock = Path(path), settings, clock
        self.storage: Storage = WatchedStorage(storage, self._sync_failed)
        self._defaults = dict(settings.topic_defaults)
        TopicSettings.from_configs(self._defaults)
        self._lock = threading.RLock()
        self._closed = False
        self._topics: dict[str, Topic] = {}
        self._ordered: tuple[tuple[Topic, ...], list[Topic]] = ((), [])
        self._offline_topics: dict[str, str] = {}
        self.problems: list[str] = []  # damage that the start found and made good
        self._identity_restored = False
        self._half_deleted: dict[str, Topic] = {}  # deletion was begun, and met an error
        self._names_by_id: dict[uuid.UUID, str] = {}  # as last looked up
        self._partitions: dict[TopicPartition, Partition] = {}
        self._group_offsets: GroupOffsets | None = None
        self._transactions: Transactions | None = None
        self._queues: Queues | None = None
        self._doubt: str | None = None
        # A disk that is simulated must see the same calls in the same order every time, so nothing runs beside.
        self._pool = ThreadPoolExecutor(1, "headwater-log") if isinstance(storage, LocalStorage) else None
        self._take_lock()
        try:
            self._open()
        except BaseException:
            storage.close()
            raise

    def _take_lock(self) -> None:
        self.storage.make_directory("")
        try:
            self.storage.lock(".lock")
        except BlockingIOError:
            owner = read_whole(self.storage, ".lock").decode(errors="replace").strip()
            raise DataDirectoryLocked(str(self.path), f"process {owner or 'unknown'}") from None

    def _open(self) -> None:
        self._load_identity()
        self.clean_start = self.storage.exists(CLEAN_STOP)
        self.storage.make_directory(DIRECTORY)
        if self.clean_start:
            self.storage.delete(CLEAN_STOP)
        self.storage.sync_directory("")
        # A killed process may have left a name that is seen and not yet durable; what follows relies on it.
        self.storage.sync_directory(DIRECTORY)
        url = self.settings.archive_url
        self.archive = Archive(self.storage, url, cluster_id=self.cluster_id, clock=self.clock)
        for found in load_topics(self.storage, self._defaults, repair=True):
            self._open_topic(found)
        for topic in list(self._half_deleted.values()):
            self._finish_deletion_if_possible(topic)
        self._settle_identity()
        self._maintenance = Maintenance(self)
        if TRANSACTIONS_TOPIC in self._topics:
            self.transactions.finish_decided()

    def _open_topic(self, found: FoundTopic) -> None:
        """One that cannot be opened is offline, and the others are not concerned."""
        for problem in found.problems:
            self._note_problem(problem)
        if found.topic is None:
            self._take_topic_offline(found.name, found.damage)
        elif found.deleting:
            self._half_deleted[found.name] = found.topic
        else:
            try:
                self._open_partitions(found.topic)
                self._topics[found.name] = found.topic
            except (DamagedFile, OSError) as error:
                self._take_topic_offline(found.name, error.summary if isinstance(error, DamagedFile) else str(error))

    def _take_topic_offline(self, name: str, why: str) -> None:
        for key in [key for key in self._partitions if key.topic == name]:
            self._partitions.pop(key).close(checkpoint=False)
        self._offline_topics[name] = why
        logger.error('topic "%s" is offline: %s', name, why)

    def _finish_deletion_if_possible(self, topic: Topic) -> None:
        try:
            self._finish_deletion(topic)
        except (HeadwaterError, OSError) as error:
            logger.error('the deletion of topic "%s" could not be finished: %s', topic.name, error)

    def _note_problem(self, sentence: str) -> None:
        self.problems.append(sentence)
        logger.warning("%s", sentence)

    def _load_identity(self) -> None:
        identity = read_identity(self.storage, self._note_problem)
        fresh = identity is None and not holds_data(self.storage)
        if identity is None:
            self._identity_restored = not fresh
            identity = Identity.fresh() if fresh else restored_identity(self.storage)
        self.cluster_id = identity.cluster_id
        self._next_producer_id = self._reserved_producer_ids = identity.producer_ids
        now_ms, elapsed_ms = self.clock.now_ms(), self.clock.elapsed_ms()
        self.trusted_time = TrustedTime(now_ms=now_ms, elapsed_ms=elapsed_ms, boot_id=boot_id(), last=identity.moment)
        if fresh:
            self._save_identity()

    def _settle_identity(self) -> None:
        """Give out no producer id that a partition has seen: its new owner's records would be taken for retries."""
        seen = max((partition.largest_producer_id for partition in self._partitions.values()), default=-1)
        if self._identity_restored:
            self._note_problem(f"{IDENTITY} was lost; it was made again from the checkpoints of the partitions")
        elif seen >= self._reserved_producer_ids:
            self._note_problem(f"{IDENTITY} is older than the partitions: producer {seen} is known to them")
        else:
            return
        # Others may have an id and have sent nothing yet; how many is not known any more.
        self._next_producer_id = max(seen + 1, self._reserved_producer_ids) + PRODUCER_ID_MARGIN
        self._reserved_producer_ids = self._next_producer_id
        self._save_identity()

    def _save_identity(self) -> None:
        moment = self.trusted_time.moment(wall_ms=self.clock.now_ms(), elapsed_ms=self.clock.elapsed_ms())
        write_identity(self.storage, Identity(self.cluster_id, self._reserved_producer_ids, moment))

    def trusted_now_ms(self) -> int:
        return self.trusted_time.now_ms(wall_ms=self.clock.now_ms(), elapsed_ms=self.clock.elapsed_ms())

    # -- topics ------------------------------------------------------------------------------------------------------

    @disk_errors_as_unavailable
    def create_topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Topic:
        """Make a topic; it exists for good when this returns."""
        topic = self.planned_topic(name, partitions=partitions, configs=configs)
        with self._lock:
            self._raise_if_closed()
            self._raise_if_in_doubt()
            if name in self._topics:
                raise TopicExists(name)
            self._raise_if_topic_offline(name)
            if name in self._half_deleted:
                self._finish_deletion(self._half_deleted[name])  # or the new topic would begin with the old records
            save_topic(self.storage, topic)
            self._open_partitions(topic)
            self._topics[name] = topic
            return topic

    def planned_topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Topic:
        """The topic that create_topic would make, after all the same checks."""
        check_name(name)
        if name in self._topics:
            raise TopicExists(name)
        self._raise_if_topic_offline(name)
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise InvalidPartitions(name, partitions, f"choose between 1 and {PARTITIONS_MAX}")
        configs = dict(configs or {})
        return Topic(name, uuid.uuid4(), partitions, configs, self._settings(configs))

    @disk_errors_as_unavailable
    def delete_topic(self, name: str) -> None:
        """Remove a topic and all its records; also one that is offline."""
        with self._lock:
            self._raise_if_closed()
            if name in self._offline_topics:
                topic = remains_of(self.storage, name, self._defaults)
                mark_deletion_of_remains(self.storage, topic)
                del self._offline_topics[name]
            else:
                topic = self.topic(name)
                self._mark_deletion(topic)
                del self._topics[name]
                for number in range(topic.partitions):
                    self._partitions.pop(TopicPartition(name, number)).close(checkpoint=False)
            self._finish_deletion(topic)
            self._raise_if_in_doubt()  # it is deleted, but a power cut may bring its name back

    def _mark_deletion(self, topic: Topic) -> None:
        try:
            mark_deletion(self.storage, topic)
        except OSError:
            # If the mark is there nevertheless, the next start deletes the topic: it must take no more writes.
            if not deletion_marked(self.storage, topic):
                raise

    def _finish_deletion(self, topic: Topic) -> None:
        """The mark goes last: whatever a crash or an error cuts off is done later, before the name is used again."""
        self._half_deleted[topic.name] = topic
        self.archive.give_up(topic)
        remove_partitions(self.storage, topic)  # early: on a full disk, what follows needs the space
        if not topic.internal:
            self.group_offsets.forget_topic(topic.name)
            self.queues.forget_topic(topic.name)
        remove_mark(self.storage, topic)
        del self._half_deleted[topic.name]

    @disk_errors_as_unavailable
    def alter_topic(self, name: str, configs: Mapping[str, str | None]) -> Topic:
        """Change the named settings; None brings one back to its default."""
        with self._lock:
            self._raise_if_closed()
            old = self.topic(name)
            merged = {**old.configs, **configs}
            changed = {key: value for key, value in merged.items() if value is not None}
            TopicSettings.from_configs({key: value or "" for key, value in configs.items() if value is not None})
            topic = replace(old, configs=changed, settings=self._settings(changed))
            partitions = [self._partitions[TopicPartition(name, number)] for number in range(topic.partitions)]
            if topic.settings.compacted and not all(partition.archive.empty for partition in partitions):
                policy = ",".join(sorted(topic.settings.cleanup_policy))
                raise InvalidSetting("cleanup.policy", policy, "some of its segments are in the archive")
            save_topic(self.storage, topic)
            self._topics[name] = topic
            for partition in partitions:
                partition.change_settings(topic.settings)
            return topic

    @disk_errors_as_unavailable
    def add_partitions(self, name: str, total: int) -> Topic:
        """Grow a topic to `total` partitions. Keys may go to other partitions from here on, as in Kafka."""
        with self._lock:
            self._raise_if_closed()
            self._raise_if_in_doubt()
            old = self.topic(name)
            if not old.partitions < total <= PARTITIONS_MAX:
                raise InvalidPartitions(name, total, f"it has {old.partitions}, and can only grow to {PARTITIONS_MAX}")
            topic = old.with_partitions(total)
            save_topic(self.storage, topic)
            self._open_partitions(topic)
            self._topics[name] = topic
            return topic

    def topic(self, name: str) -> Topic:
        try:
            return self._topics[name]
        except KeyError:
            self._raise_if_topic_offline(name)
            raise UnknownTopic(name) from None

    def offline_topics(self) -> Mapping[str, str]:
        """Topics that could not be opened, and why. They are in no other list."""
        return dict(self._offline_topics)

    def _raise_if_topic_offline(self, name: str) -> None:
        if name in self._offline_topics:
            raise TopicOffline(name, self._offline_topics[name])

    def topic_by_id(self, id: uuid.UUID) -> Topic:
        # Every fetch of a newer client comes this way, once for each partition it reads.
        known = self._topics.get(self._names_by_id.get(id, ""))
        if known is not None and known.id == id:
            return known
        for topic in list(self._topics.values()):
            if topic.id == id:
                self._names_by_id[id] = topic.name
                return topic
        raise UnknownTopic(str(id))

    @property
    def topic_count(self) -> int:
        return len(self._topics)

    def topics(self) -> list[Topic]:
        """By name. The order is kept for as long as no topic changes: who has thousands is asked for them often."""
        now = tuple(self._topics.values())
        if self._ordered[0] != now:
            self._ordered = now, sorted(now, key=lambda topic: topic.name)
        return list(self._ordered[1])

    def partition(self, topic: str, partition: int) -> Partition:
        found = self._partitions.get(TopicPartition(topic, partition))
        if found is None:
            raise UnknownPartition(topic, partition, count=self.topic(topic).partitions)
        return found

    def partitions(self) -> list[Partition]:
        return list(self._partitions.values())

    def _settings(self, configs: Mapping[str, str]) -> TopicSettings:
        settings = TopicSettings.from_configs({**self._defaults, **configs})
        if "remote.storage.enable" in configs and settings.remote_storage_enable and settings.compacted:
            raise InvalidSetting("remote.storage.enable", "true", "a compacted topic cannot be archived")
        return settings

    def _open_partitions(self, topic: Topic) -> None:
        """Make or open the folders of partitions that are not open yet."""
        for number in range(topic.partitions):
            key = TopicPartition(topic.name, number)
            if key in self._partitions:
                continue
            raise_if_partition_lost(self.storage, topic, number)
            self.storage.make_directory(partition_directory(*key))
            self._partitions[key] = Partition(
                self.storage, key,
                topic_settings=topic.settings, log_settings=self.settings, owner=Owner(self.cluster_id, str(topic.id)),
                archive=self.archive.of_partition(topic, number), clock=self.clock, background=self._run,
            )  # fmt: skip
        self.storage.sync_directory("")

    def _note_made(self) -> None:
        """That new partitions were made, each with a checkpoint: one that is missing later is missed."""
        for name, topic in list(self._topics.items()):
            with self._lock:
                if topic.made == topic.partitions or self._topics.get(name) is not topic:
                    continue
                if not any(self._partitions[TopicPartition(name, one)].offline for one in range(topic.partitions)):
                    made = replace(topic, made=topic.partitions)
                    save_topic(self.storage, made)
                    self._topics[name] = made

    def _run(self, work: Callable[[], None]) -> None:
        if self._pool is None:
            work()
        else:
            self._pool.submit(work)

    # -- records -----------------------------------------------------------------------------------------------------

    def append(
        self,
        topic: str,
        records: Record | Iterable[Record],
        *,
        partition: int | None = None,
        compression: str = "none",
        durable: bool = True,
    ) -> Position:
        """Store records; returns the position of the last one. With `durable` they survive a power cut.

        Without a partition, a record's key decides, by the same hash as Kafka's clients; records without a key stay
        together in one partition, another one each call.
        """
        self._raise_if_closed()
        rows = [records] if isinstance(records, Record) else list(records)
        if not rows:
            raise UsageError("append needs at least one record")
        groups = {partition: rows} if partition is not None else choose_partitions(rows, self.topic(topic).partitions)
        last = None
        for number, group in groups.items():
            position = append_records(
                self.partition(topic, number), group,
                compression=compression, durable=durable, now_ms=self.clock.now_ms(),
            )  # fmt: skip
            last = position if group[-1] is rows[-1] else last
        assert last is not None
        return last

    def read(
        self,
        topic: str,
        partition: int = 0,
        *,
        offset: int | None = None,
        time_ms: int | None = None,
        limit: int | None = None,
    ) -> Iterator[Record]:
        """Records from an offset or a time (or the start) up to the end as it is now."""
        found = self.partition(topic, partition)
        bytes_max = self.settings.decompressed_bytes_max
        return read_records(found, offset=offset, time_ms=time_ms, limit=limit, decompressed_bytes_max=bytes_max)

    def follow(
        self,
        topic: str,
        partition: int = 0,
        *,
        offset: int | None = None,
        time_ms: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[Record]:
        """Like read, but waits for more at the end; stops after `timeout` seconds without a new record."""
        follower = Follower(self.partition(topic, partition), self.settings.decompressed_bytes_max)
        return follower.records(offset=offset, time_ms=time_ms, timeout=timeout)

    @property
    @disk_errors_as_unavailable
    def group_offsets(self) -> "GroupOffsets":
        """Committed offsets of consumer groups."""
        with self._lock:
            if self._group_offsets is None:
                from headwater.log.groups.offsets import GroupOffsets

                self._group_offsets = GroupOffsets(self)
            return self._group_offsets

    @property
    @disk_errors_as_unavailable
    def transactions(self) -> "Transactions":
        """The coordinator of transactions."""
        with self._lock:
            if self._transactions is None:
                from headwater.log.transactions.coordinator import Transactions

                self._transactions = Transactions(self)
            return self._transactions

    def transaction(
        self, transactional_id: str, *, timeout: timedelta = timedelta(minutes=1)
    ) -> "AbstractContextManager[OpenTransaction]":
        """Append to any number of topics, and commit a group's offsets: all when the block ends, nothing if it raises,
        takes longer than `timeout`, or another block under the same id begins: its end then raises ProducerFenced."""
        from headwater.log.transactions.in_process import run_transaction

        self._raise_if_closed()
        return run_transaction(self, transactional_id, timeout_ms=milliseconds(timeout))

    @property
    @disk_errors_as_unavailable
    def queues(self) -> "Queues":
        with self._lock:
            if self._queues is None:
                from headwater.log.queues.queues import Queues

                self._queues = Queues(self)
            return self._queues

    def queue(self, name: str, topics: Sequence[str] = (), **said: "Unpack[QueueArguments]") -> "QueueConsumer":
        """A consumer of a queue, for a `with` block; see headwater.log.queues.opening."""
        return self.queues.open(name, topics, **said)

    @disk_errors_as_unavailable
    def next_producer_id(self) -> int:
        """An id that no producer has had before, also across crashes: ids are reserved in durable blocks."""
        with self._lock:
            self._raise_if_closed()
            if self._next_producer_id >= self._reserved_producer_ids:
                self._reserved_producer_ids += PRODUCER_ID_BLOCK
                self._save_identity()
            self._next_producer_id += 1
            return self._next_producer_id - 1

    # -- upkeep ------------------------------------------------------------------------------------------------------

    @disk_errors_as_unavailable
    def maintain(self) -> None:
        """One pass of retention, compaction, archiving, checkpoints and time-outs of transactions."""
        self._raise_if_closed()
        self._maintenance.run()
        if not self._closed:
            self._note_made()
        with self._lock:
            if not self._closed:
                self._save_identity()

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise LogClosed

    def _sync_failed(self, folder: str, error: OSError) -> None:
        """Names new in this folder may be lost, whatever later syncs say: promise nothing that depends on one."""
        owners = [partition for partition in self._partitions.values() if partition.directory == folder]
        for partition in owners:
            partition.take_offline(f"its folder could not be synced: {error}")
        if not owners:
            self._doubt = str(error)

    def _raise_if_in_doubt(self) -> None:
        if self._doubt is not None:
            raise UnavailableError(f"a folder could not be synced ({self._doubt}); restart before making anything new")

    @disk_errors_as_unavailable
    def close(self) -> None:
        """Stop cleanly: everything is synced, and the next opening reads nothing again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.archive.stop()
        if self._pool is not None:
            self._pool.shutdown()
        for partition in self._partitions.values():
            partition.close()
        try:
            self._note_made()
            if not any(partition.offline for partition in self._partitions.values()):
                self._save_identity()
                replace_durably(self.storage, CLEAN_STOP, b"")
        except OSError as error:
            logger.warning("the log could not be stopped cleanly; the next start reads more: %s", error)
        finally:
            self.storage.close()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
