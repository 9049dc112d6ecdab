"""The writers with a bug: python -m tests.crash.streams.careless_writers DATA HISTORY SEED BUG"""

import sys
import threading

from headwater.log.partition import Partition
from headwater.log.streams import partition_streams
from headwater.log.streams.condition import Append
from headwater.log.streams.partition_streams import PartitionStreams
from headwater.record import Record
from tests.crash.streams.writers import main


def versions_are_not_checked() -> None:
    vars(partition_streams)["meets"] = lambda expected, version: True


def requests_are_forgotten() -> None:
    PartitionStreams._first_of = lambda self, append, write: 0  # type: ignore[method-assign]


def another_append_may_come_between() -> None:
    Partition._check_condition = lambda self, at: None  # type: ignore[method-assign]
    records = PartitionStreams._records

    def slowly(self: PartitionStreams, append: Append) -> list[Record]:
        threading.Event().wait(0.002)  # between the check and the append
        return records(self, append)

    PartitionStreams._records = slowly  # type: ignore[method-assign]


BUGS = {
    one.__name__: one for one in (versions_are_not_checked, requests_are_forgotten, another_append_may_come_between)
}

if __name__ == "__main__":
    BUGS[sys.argv[4]]()
    main(*sys.argv[1:4])
