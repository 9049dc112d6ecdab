"""Which batches a reader of committed records sees. Pure.

A broker gives out what aborted transactions wrote, and says which they were: producer and first offset. Each ends with
a control record whose key is two int16: a version, and what it says, 0 for an abort.
"""

from collections.abc import Sequence

from headwater.flow.kafka.messages import Aborted
from headwater.log.batch_format import CONTROL_FLAG, TRANSACTIONAL_FLAG, decode_batch
from headwater.log.batch_table import (
    ATTRIBUTES,
    LAST_OFFSET,
    POSITION,
    PRODUCER_ID,
    SIZE,
    BatchTable,
)

CONTROL_BYTES_MAX = 64 * 1024
ABORT = b"\0\0"


def without_aborted(data: memoryview, table: BatchTable, aborted: Sequence[Aborted]) -> memoryview:
    """The batches without those of aborted transactions; markers are left out too."""
    waiting = sorted(aborted, key=lambda one: one.first_offset)
    failed: set[int] = set()
    kept = []
    wanted = table.rows[:, (POSITION, SIZE, LAST_OFFSET, ATTRIBUTES, PRODUCER_ID)]
    for position, size, last_offset, attributes, producer in wanted.tolist():
        while waiting and waiting[0].first_offset <= last_offset:
            failed.add(waiting.pop(0).producer_id)
        batch = data[position : position + size]
        if attributes & CONTROL_FLAG:
            if producer in failed and _is_abort(batch):
                failed.remove(producer)
        elif not (attributes & TRANSACTIONAL_FLAG and producer in failed):
            kept.append(batch)
    return memoryview(b"".join(kept))


def _is_abort(batch: memoryview) -> bool:
    key = decode_batch(batch, bytes_max=CONTROL_BYTES_MAX)[0].key
    return key is not None and key[2:4] == ABORT
