"""The periodic work on every partition: roll, retire, compact, archive, checkpoint.

One failing partition does not keep the others from their turn; what went wrong is logged and tried again next time.
"""

import logging
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.log.partition import Partition
from headwater.log.retention import SegmentInfo, deletable
from headwater.log.segment import Segment

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")


class Maintenance:
    def __init__(self, log: "Log") -> None:
        self._log = log

    def run(self) -> None:
        for partition in self._log.partitions():
            if partition.closed or partition.offline:
                continue
            try:
                self._maintain(partition)
            except (HeadwaterError, OSError) as error:
                if not partition.closed:
                    logger.warning("maintenance of %s: %s", partition.directory, error)

    def _maintain(self, partition: Partition) -> None:
        partition.roll_if_outlived()
        partition.expire_producers()
        self._retire(partition)
        partition.checkpoint_if_possible()
        partition.release_sealed()

    def _retire(self, partition: Partition) -> None:
        if self._log.trusted_time.deletion_held(elapsed_ms=self._log.clock.elapsed_ms()):
            return
        now_ms = self._log.trusted_now_ms()
        settings = partition.settings
        active = info(partition.segments[-1])
        if settings.deleted and active.bytes and 0 <= settings.retention_ms < now_ms - active.last_append_ms:
            partition.roll()  # even the newest record is too old: it can only go once it is sealed
        sealed = [info(segment) for segment in partition.segments[:-1]]
        count = deletable(sealed, info(partition.segments[-1]), settings, now_ms=now_ms)
        if count:
            partition.delete_oldest(count)


def info(segment: Segment) -> SegmentInfo:
    return SegmentInfo(segment.base_offset, segment.last_append_ms, segment.size)
