"""Confluent's wire format: what stands before a value that was written with a schema from a registry.

0  uint8    0
1  uint32   id of the schema, big-endian
5  ...      the value; of Protobuf first the place of the message in its file:
            varint  how many numbers follow, then so many varints; all zigzag. 0 stands for the one number 0.
            [1, 0]: the first message inside the second of the file
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEAD_BYTES = 5
INDEXES_MAX = 64
PLACES = np.array([1 << 24, 1 << 16, 1 << 8, 1], dtype=np.int64)

Ids = npt.NDArray[np.int64]


class Framed(NamedTuple):
    ids: Ids
    """-1 where there is no frame; null values have none."""
    bodies: pa.BinaryArray
    """What follows the frame; null where there is none."""


def unframe(values: pa.BinaryArray) -> Framed:
    """All frames of a column, without a loop over its rows."""
    count = len(values)
    bounds = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + count + 1]
    starts, lengths = bounds[:-1].astype(np.int64), np.diff(bounds).astype(np.int64)
    data = np.frombuffer(values.buffers()[2] or b"", dtype=np.uint8)
    framed = lengths >= HEAD_BYTES
    if values.null_count:
        framed &= values.is_valid().to_numpy(zero_copy_only=False)
    heads = data[starts[framed][:, None] + np.arange(HEAD_BYTES)]
    framed[framed] = heads[:, 0] == 0
    ids = np.full(count, -1, dtype=np.int64)
    ids[framed] = heads[heads[:, 0] == 0, 1:].astype(np.int64) @ PLACES
    return Framed(ids, _bodies(data, starts, lengths, framed))


def _bodies(data: npt.NDArray[np.uint8], starts: Ids, lengths: Ids, framed: npt.NDArray[np.bool_]) -> pa.BinaryArray:
    """What is behind the frames, copied together. (Arrow's binary_slice fails on values shorter than the slice.)"""
    dropped = np.where(framed, HEAD_BYTES, lengths)
    edges = np.zeros(len(data) + 1, dtype=np.int32)
    np.add.at(edges, starts, 1)
    np.add.at(edges, starts + dropped, -1)
    first, end = (int(starts[0]), int(starts[-1] + lengths[-1])) if len(starts) else (0, 0)
    kept = data[first:end][np.cumsum(edges)[first:end] == 0]
    offsets = np.concatenate(([0], np.cumsum(lengths - dropped))).astype(np.int32)
    valid = pa.py_buffer(np.packbits(framed, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(starts), [valid, pa.py_buffer(offsets), pa.py_buffer(kept)])


def message_indexes(body: bytes) -> tuple[tuple[int, ...], int]:
    """The place of a Protobuf message in its file, and where the message begins. ValueError if it is none."""
    count, place = _varint(body, 0)
    if count == 0:
        return (0,), place
    if not 0 < count <= INDEXES_MAX:
        raise ValueError(f"{count} is no number of message indexes")
    found = []
    for _ in range(count):
        number, place = _varint(body, place)
        found.append(number)
    return tuple(found), place


def _varint(body: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(body) or shift > 28:
            raise ValueError("the message indexes end too early")
        byte = body[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place
        shift += 7
