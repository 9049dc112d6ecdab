"""The file that an index of streams is read from at an opening, so that only what came since is read from the log.

`streams.index`, in the folder of the partition:

    0   8 bytes  "hwstream"
    8   uint32   CRC-32C of all that follows
    12  uint32   bytes of the JSON that follows
    16  JSON     {"topic": id of the topic, "end": all records below are in it, "batch": CRC of the batch that ends
                  there, "counts": {"streams": names, ...}, "columns": {"streams": bytes, ...}}
        columns  one after the other

Columns of names (streams, types, tags): for each name its length and how many numbers it has, int32 each; then the
names. Columns of numbers: int64. A file that is damaged, of another topic, or that the log's batches belie is not
believed, and the index is made from the log.
"""

import json
import struct
from array import array
from collections.abc import Iterable

import numpy as np
from crc32c import crc32c

from headwater.log.storage import Storage, read_whole, replace_durably
from headwater.log.streams.index import StreamIndex, Versions

NAME = "streams.index"
MAGIC = b"hwstream"
_HEAD = struct.Struct("<8sII")
DIGEST_BYTES = 16


class Snapshot:
    """The bytes of an index as it was; made while nobody changes it, written whenever there is time."""

    def __init__(self, index: StreamIndex, *, topic_id: str, batch_crc: int) -> None:
        counts = {"streams": len(index.streams), "types": len(index.types), "tags": len(index.tags)}
        columns = {
            "streams": _names([(name, len(index.streams[name].offsets)) for name in index.streams]),
            "versions": b"".join(one.versions.tobytes() for one in index.streams.values()),
            "offsets": b"".join(one.offsets.tobytes() for one in index.streams.values()),
        }
        for kind, arrays in (("types", index.types), ("tags", index.tags)):
            columns[kind] = _names([(name.encode(), len(arrays[name])) for name in arrays])
            columns[f"{kind}-offsets"] = b"".join(one.tobytes() for one in arrays.values())
        columns["requests"] = b"".join(index.requests)
        columns["requests-offsets"] = array("q", index.requests.values()).tobytes()
        said = {
            "topic": topic_id, "end": index.end, "batch": batch_crc,
            "counts": counts,
            "columns": {name: len(data) for name, data in columns.items()},
        }  # fmt: skip
        head = json.dumps(said).encode()
        body = head + b"".join(columns.values())
        self.data = _HEAD.pack(MAGIC, crc32c(body, crc32c(struct.pack("<I", len(head)))), len(head)) + body

    def write(self, storage: Storage, directory: str) -> None:
        # A name of its own: two that have an index of the same partition may save it at the same time.
        fresh = f"{directory}/{NAME}-{id(self):x}.new"
        replace_durably(storage, f"{directory}/{NAME}", self.data, fresh=fresh)


def read_index(storage: Storage, directory: str, *, topic_id: str) -> tuple[StreamIndex, int] | None:
    """The index and the CRC of the batch that ends where it does; None if there is no file that can be believed."""
    try:
        data = read_whole(storage, f"{directory}/{NAME}")
        magic, checksum, length = _HEAD.unpack_from(data)
        body = data[_HEAD.size :]
        if magic != MAGIC or checksum != crc32c(body, crc32c(struct.pack("<I", length))):
            return None
        said = json.loads(body[:length])
    except (OSError, struct.error, ValueError):
        return None
    if said["topic"] != topic_id:
        return None
    columns, position = {}, length
    for name, size in said["columns"].items():
        columns[name] = body[position : position + size]
        position += size
    return _index(said["end"], said["counts"], columns), said["batch"]


def _index(end: int, counts: dict[str, int], columns: dict[str, bytes]) -> StreamIndex:
    index = StreamIndex()
    index.end = end
    rows = _named(columns["streams"], counts["streams"])
    versions, offsets = _numbers(columns["versions"]), _numbers(columns["offsets"])
    index.streams = {
        name: Versions(mine, theirs)
        for (name, mine), (_, theirs) in zip(_cut(rows, versions), _cut(rows, offsets), strict=True)
    }
    for kind, arrays in (("types", index.types), ("tags", index.tags)):
        cut = _cut(_named(columns[kind], counts[kind]), _numbers(columns[f"{kind}-offsets"]))
        arrays.update((name.decode(), one) for name, one in cut)
    found = _numbers(columns["requests-offsets"])
    index.requests = {
        columns["requests"][row * DIGEST_BYTES : (row + 1) * DIGEST_BYTES]: offset for row, offset in enumerate(found)
    }
    return index


def _names(rows: Iterable[tuple[bytes, int]]) -> bytes:
    listed = list(rows)
    lengths = np.array([(len(name), count) for name, count in listed], dtype="<i4")
    return lengths.tobytes() + b"".join(name for name, _ in listed)


def _named(data: bytes, count: int) -> list[tuple[bytes, int]]:
    lengths = np.frombuffer(data, dtype="<i4", count=2 * count).tolist()
    rows, position = [], 8 * count
    for row in range(count):
        length, numbers = lengths[2 * row], lengths[2 * row + 1]
        rows.append((data[position : position + length], numbers))
        position += length
    return rows


def _cut(rows: Iterable[tuple[bytes, int]], numbers: "array[int]") -> list[tuple[bytes, "array[int]"]]:
    cut, position = [], 0
    for name, count in rows:
        cut.append((name, numbers[position : position + count]))
        position += count
    return cut


def _numbers(data: bytes) -> "array[int]":
    numbers = array("q")
    numbers.frombytes(data)
    return numbers
