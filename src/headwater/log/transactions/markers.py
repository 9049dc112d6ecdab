"""Control batches: the markers that end a transaction in a partition. Pure.

A batch (batch_format.py) with the flags "transactional" and "control", the producer's id and epoch, no sequence, and
one record. Big-endian:

    key    int16 0 (version),  int16 0 abort, 1 commit
    value  int16 0 (version),  int32 epoch of the coordinator

Readers never see them as records. Their offsets are gaps in what is read.
"""

import struct
from typing import NamedTuple

from headwater.errors import CorruptBatch, InvalidRecord
from headwater.log.batch_format import (
    CONTROL_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    decode_batch,
    encode_batch,
    flagged,
)
from headwater.log.transactions.transaction import ProducerIdentity
from headwater.record import Record

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
COORDINATOR_EPOCH = 0
BYTES_MAX = 64 * 1024


class Marker(NamedTuple):
    producer: ProducerIdentity
    commit: bool


def marker_batch(marker: Marker, *, now_ms: int, coordinator_epoch: int = COORDINATOR_EPOCH) -> bytearray:
    key, value = _KEY.pack(0, marker.commit), _VALUE.pack(0, coordinator_epoch)
    batch = encode_batch(
        [Record(value, key, timestamp_ms=now_ms)], producer_id=marker.producer.id, producer_epoch=marker.producer.epoch
    )
    return flagged(batch, TRANSACTIONAL_FLAG | CONTROL_FLAG)


def read_marker(header: BatchHeader, batch: Buffer) -> Marker | None:
    """The marker in a control batch; None if it is a control batch of another kind, or none that can be read.

    >>> from headwater.log.batch_format import read_header
    >>> batch = marker_batch(Marker(ProducerIdentity(7, 1), commit=True), now_ms=0)
    >>> read_marker(read_header(batch), batch)
    Marker(producer=ProducerIdentity(id=7, epoch=1), commit=True)
    """
    try:
        key = decode_batch(batch, bytes_max=BYTES_MAX)[0].key or b""
        version, kind = _KEY.unpack_from(key)
    except (CorruptBatch, InvalidRecord, IndexError, struct.error):
        return None
    if version < 0 or kind not in (0, 1):
        return None
    return Marker(ProducerIdentity(header.producer_id, header.producer_epoch), bool(kind))
