"""The checkpoint of a partition: recovery starts there instead of at the first segment.

`checkpoint`, a small file with a copy beside it (small_file.py):

    start_offset      first offset that readers may see
    recovery_offset   all below was synced, indexes included
    segment           base offset of the segment that was active then
    position          its size then
    producers         what the partition remembered of idempotent producers then
    cluster_id        of the log, and topic_id of the topic: whose folder this is, should the files that say so be lost
    manifest          version of the manifest (manifest.py) that was written before it; 0 before there was one
    transactions      version of the index of aborted transactions (transactions/aborted_index.py); 0 if there is none
    index_ends        the last entry of the offset index below recovery_offset, and that of the time index up to it:
                      recovery reads only what comes after, and an index that lost its end would look as sound; None if
                      they were not written down, or there was none

`durable`, 12 bytes written in place after each sync, itself not synced:

    0  int64   offset below which all was synced
    8  uint32  CRC-32C of those eight bytes

The second is only a witness: it survives a killed process exactly, and a power cut somewhat stale, but it never claims
what is not so. A broken batch below it is damage, to be quarantined; at or above it, it is the torn end of a write
that was never acknowledged, to be cut off.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from crc32c import crc32c

from headwater.errors import DamagedFile
from headwater.log.storage import File, Read, Storage, read_small_file, write_small_file

_WITNESS = struct.Struct(">qI")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Checkpoint:
    start_offset: int = 0
    recovery_offset: int = 0
    segment: int = 0
    position: int = 0
    producers: list[list[object]] = field(default_factory=list)
    cluster_id: str = ""
    topic_id: str = ""
    manifest: int = 0
    index_ends: list[list[int]] | None = None
    transactions: int = 0


def write_checkpoint(storage: Storage, directory: str, checkpoint: Checkpoint) -> None:
    write_small_file(storage, _path(directory), asdict(checkpoint))


def read_checkpoint(
    storage: Storage, directory: str, say: Say = lambda _: None, *, read: Read = read_small_file
) -> Checkpoint | None:
    """Returns the checkpoint, or None if it is missing or damaged.

    Without one, recovery reads every segment. `say` receives reports of damage.
    """
    try:
        found = read(storage, _path(directory), legacy=_legacy)
        known = {one.name for one in fields(Checkpoint)}
        checkpoint = Checkpoint(**{name: value for name, value in found.content.items() if name in known})
    except FileNotFoundError:
        return None
    except DamagedFile as error:
        say(f"{error.summary}; the partition is read again")
        return None
    except (TypeError, AttributeError):
        say(f"{_path(directory)} is not a checkpoint; the partition is read again")
        return None
    for problem in found.problems:
        say(problem)
    return checkpoint


def _path(directory: str) -> str:
    return f"{directory}/checkpoint"


def _legacy(data: bytes) -> Any:
    """Two lines: the checksum of the second, and the content."""
    crc, body = data.split(b"\n")[:2]
    if int(crc, 16) != crc32c(body):
        raise ValueError("its checksum does not fit")
    return json.loads(body)


class DurableWitness:
    def __init__(self, file: File) -> None:
        self._file = file

    @classmethod
    def open(cls, storage: Storage, directory: str) -> "DurableWitness":
        return cls(storage.open(f"{directory}/durable", create=True))

    def claim(self, offset: int) -> None:
        self._file.write_at(0, [_packed(offset)])

    def claimed(self) -> int:
        data = self._file.read_at(0, _WITNESS.size)
        if len(data) < _WITNESS.size or _packed(offset := _WITNESS.unpack(data)[0]) != data:
            return 0
        return int(offset)

    def close(self) -> None:
        self._file.close()


def _packed(offset: int) -> bytes:
    return _WITNESS.pack(offset, crc32c(struct.pack(">q", offset)))
