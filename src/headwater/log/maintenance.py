"""The periodic work on every partition: roll, retire, compact, archive, checkpoint, look after sealed segments.

One failing partition does not keep the others from their turn; what went wrong is logged and tried again next time.
"""

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError, TopicOffline
from headwater.log.partition import Partition
from headwater.log.retention import SegmentInfo, deletable
from headwater.log.segment import Segment
from headwater.log.segment_watch import SegmentWatch
from headwater.log.transactions.state_log import TOPIC as TRANSACTIONS

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")


def look_after_transactions(log: "Log") -> None:
    """End those that take too long. While the topic that keeps their states is offline, which is reported as that of
    any topic, none can be ended, and all other upkeep continues."""
    if any(partition.topic == TRANSACTIONS for partition in log.partitions()):
        with suppress(TopicOffline):
            log.transactions.look_after()


class Maintenance:
    def __init__(self, log: "Log") -> None:
        self._log = log

    def run(self) -> None:
        try:
            look_after_transactions(self._log)
        except (HeadwaterError, OSError) as error:
            logger.warning("upkeep of transactions: %s", error)
        watch = SegmentWatch(self._log.storage, stopping=self._log.archive.stopping.is_set)
        for partition in self._log.partitions():
            if partition.closed or partition.offline:
                continue
            try:
                if watch.look_at_active(partition):
                    self._maintain(partition)
                    watch.run(partition)
            except (HeadwaterError, OSError) as error:
                if not partition.closed:
                    logger.warning("maintenance of %s: %s", partition.directory, error)
        # Last, and for all of them at once: it may take long, and knows how to share its time out.
        self._log.archive.run(self._log.partitions(), now_ms=self._log.trusted_now_ms())

    def _maintain(self, partition: Partition) -> None:
        self._retire(partition)  # first: on a full disk nothing else succeeds before it has made room
        partition.roll_if_outlived()
        partition.expire_producers()
        self._compact(partition)
        partition.checkpoint_if_possible()
        partition.release_sealed()

    def _retire(self, partition: Partition) -> None:
        if self._log.trusted_time.deletion_held(elapsed_ms=self._log.clock.elapsed_ms()):
            return
        now_ms = self._log.trusted_now_ms()
        self._retire_sealed(partition, now_ms)
        settings = partition.settings
        active = info(partition.segments[-1])
        if settings.deleted and active.bytes and 0 <= settings.retention_ms < now_ms - active.last_append_ms:
            partition.roll()  # even the newest record is too old: it can only go once it is sealed
            self._retire_sealed(partition, now_ms)

    def _retire_sealed(self, partition: Partition, now_ms: int) -> None:
        segments = partition.segments
        infos = [info(segment) for segment in segments]
        count = deletable(infos[:-1], infos[-1], partition.settings, now_ms=now_ms)
        # What is in an open transaction is not there for readers of committed records yet: it cannot be too old.
        while count and segments[count].base_offset > partition.last_stable_offset:
            count -= 1
        if count:
            partition.retire(segments[count].base_offset)

    def _compact(self, partition: Partition) -> None:
        if not partition.settings.compacted or len(partition.segments) < 2:
            return
        # Loaded on first use: compiling takes a while, and many logs never compact.
        from headwater.log.compactor import Compactor

        stopping = self._log.archive.stopping.is_set
        compactor = Compactor(self._log.storage, partition, self._log.settings, stopping=stopping)
        compactor.run(now_ms=self._log.trusted_now_ms())


def info(segment: Segment) -> SegmentInfo:
    return SegmentInfo(segment.base_offset, segment.last_append_ms, segment.size)
