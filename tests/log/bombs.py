"""Batches that are small as they are sent and large once they are unpacked."""

from random import Random

from headwater.log.batch_format import encode_batch
from headwater.log.compression import CODECS
from headwater.record import Record

PACKED = CODECS[1:]


def bomb(
    size: int, codec: str, *, records: int = 1, timestamp_ms: int = 1_000, key: bytes | None = None, noise: int = 4096
) -> bytearray:
    """A sound batch of so many bytes of content, of which `noise` cannot be packed."""
    values = [bytes(size // records) for _ in range(records)]
    values[0] = (Random(size).randbytes(noise) + values[0])[: size // records]
    return encode_batch([Record(value, key, timestamp_ms=timestamp_ms) for value in values], compression=codec)
