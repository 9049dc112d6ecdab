"""What a partition writes down so that it need not re-read itself.

`checkpoint`, replaced as a whole (write, sync, rename, sync directory):

    line 1   CRC-32C of line 2, eight hexadecimal digits
    line 2   JSON: start_offset      first offset that readers may see
                   recovery_offset   all below was synced, indexes included
                   segment           base offset of the segment that was active then
                   position          its size then
                   producers         what the partition remembered of idempotent producers then

`durable`, 12 bytes written in place after each sync, itself not synced:

    0  int64   offset below which all was synced
    8  uint32  CRC-32C of those eight bytes

The second is only a witness: it survives a killed process exactly, and a power cut somewhat stale, but it never claims
what is not so. A broken batch below it is damage, to be quarantined; at or above it, it is the torn end of a write
that was never acknowledged, to be cut off.
"""

import json
import struct
from dataclasses import asdict, dataclass, field

from crc32c import crc32c

from headwater.log.storage import File, Storage, read_whole, replace_durably

_WITNESS = struct.Struct(">qI")


@dataclass(frozen=True)
class Checkpoint:
    start_offset: int = 0
    recovery_offset: int = 0
    segment: int = 0
    position: int = 0
    producers: list[list[object]] = field(default_factory=list)


def write_checkpoint(storage: Storage, directory: str, checkpoint: Checkpoint) -> None:
    body = json.dumps(asdict(checkpoint), separators=(",", ":")).encode()
    replace_durably(storage, f"{directory}/checkpoint", b"%08x\n%s\n" % (crc32c(body), body))


def read_checkpoint(storage: Storage, directory: str) -> Checkpoint | None:
    """None if there is none, or none that can be believed: then everything is read again."""
    try:
        crc, body = read_whole(storage, f"{directory}/checkpoint").split(b"\n")[:2]
        if int(crc, 16) != crc32c(body):
            return None
        return Checkpoint(**json.loads(body))
    except (FileNotFoundError, ValueError, TypeError):
        return None


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
