"""May this batch be stored in this topic, and in which compression? Pure."""

from headwater.errors import BatchTooLarge, InvalidRecord, InvalidTimestamp, TopicFull
from headwater.log.batch_format import HEADER_BYTES, BatchHeader, Buffer, read_header, recompressed, without_key
from headwater.log.compression import check_unpacked_size
from headwater.log.topic_settings import TopicSettings
from headwater.record import TopicPartition

RATIO_MAX = 1100
"""How many times its size a batch may unpack to. What gzip reaches at most (1,032) is allowed; zstd can do far more."""


def admitted(
    topic: str,
    batch: bytearray | memoryview,
    header: BatchHeader,
    settings: TopicSettings,
    *,
    now_ms: int,
    decompressed_bytes_max: int,
    keyed: bool = False,
) -> tuple[bytearray | memoryview, BatchHeader]:
    """The batch as the topic stores it; the errors of check_admission, also for what it becomes."""
    check_admission(
        topic, batch, header, settings, now_ms=now_ms, decompressed_bytes_max=decompressed_bytes_max, keyed=keyed
    )
    if settings.codec is None or settings.codec == header.codec:
        return batch, header
    packed = recompressed(batch, settings.codec, level=settings.compression_level, bytes_max=decompressed_bytes_max)
    if len(packed) > settings.max_message_bytes:
        raise BatchTooLarge(topic, len(packed), limit=settings.max_message_bytes)
    return packed, read_header(packed)


def check_admission(
    topic: str,
    batch: Buffer,
    header: BatchHeader,
    settings: TopicSettings,
    *,
    now_ms: int,
    decompressed_bytes_max: int,
    keyed: bool = False,
) -> None:
    """BatchTooLarge, InvalidRecord or InvalidTimestamp says why not."""
    if len(batch) > settings.max_message_bytes:
        raise BatchTooLarge(topic, len(batch), limit=settings.max_message_bytes)
    if header.control:
        raise InvalidRecord("markers of transactions are written by the log, not by clients")
    if header.transactional and header.producer_id < 0:
        raise InvalidRecord("a batch in a transaction needs a producer id")
    if not settings.append_time:
        _check_timestamp(topic, header.max_timestamp, settings, now_ms)
    if header.codec:
        _check_unpacked_size(topic, batch, header, settings, decompressed_bytes_max)
    if settings.compacted and not keyed:
        _check_keys(topic, batch, decompressed_bytes_max)


def check_room(where: TopicPartition, settings: TopicSettings, *, size_bytes: int, batch_bytes: int) -> None:
    """TopicFull if this many bytes more are too many; a topic that drops the oldest always has room."""
    limit = settings.retention_bytes
    if settings.headwater_full_policy == "drop-oldest" or limit < 0 or size_bytes + batch_bytes <= limit:
        return
    # What is larger than the whole topic may be would wait for ever.
    blocking = settings.headwater_full_policy == "block" and batch_bytes <= limit
    raise TopicFull(*where, limit=limit, blocking=blocking)


def _check_timestamp(topic: str, timestamp_ms: int, settings: TopicSettings, now_ms: int) -> None:
    if timestamp_ms - now_ms > settings.message_timestamp_after_max_ms:
        raise InvalidTimestamp(topic, timestamp_ms, "it lies too far in the future")
    if timestamp_ms >= 0 and now_ms - timestamp_ms > settings.message_timestamp_before_max_ms:
        raise InvalidTimestamp(topic, timestamp_ms, "it lies too far in the past")


def _check_unpacked_size(
    topic: str, batch: Buffer, header: BatchHeader, settings: TopicSettings, readable_bytes_max: int
) -> None:
    """What would be taken as it is may also come packed; beyond that, both the size and the ratio are bounded."""
    packed = memoryview(batch)[HEADER_BYTES:]
    most = settings.max_decompressed_message_bytes, "max.decompressed.message.bytes"
    by_ratio = RATIO_MAX * len(packed), "max.message.bytes"
    as_it_is = settings.max_message_bytes, "max.message.bytes"
    limit, setting = min((readable_bytes_max, "the node's decompressed_bytes_max"), max(as_it_is, min(most, by_ratio)))
    try:
        check_unpacked_size(header.codec, packed, bytes_max=limit)
    except InvalidRecord:
        raise BatchTooLarge(topic, len(batch), limit=limit, setting=setting, said="unpacks to more") from None


def _check_keys(topic: str, batch: Buffer, bytes_max: int) -> None:
    # Only here the records of an incoming batch are inspected: compaction would silently drop one without a key.
    if without_key(batch, bytes_max=bytes_max):
        raise InvalidRecord(f'topic "{topic}" is compacted, so every record needs a key')
