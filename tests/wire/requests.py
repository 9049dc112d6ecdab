"""Produce and Fetch requests in one line each."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.index import load_request_schema


def _parts(request_type: Any, field: str) -> Any:
    """The type of the elements of an array field."""
    annotation = request_type.__dataclass_fields__[field].type
    return annotation.__args__[0]


def produce(
    topic: str | UUID, *batches: bytes | None, version: int = 9, acks: int = -1, timeout_ms: int = 5000,
    first_partition: int = 0, transactional_id: str | None = None,
) -> Any:  # fmt: skip
    """One batch for each partition, from `first_partition` on."""
    request_type: Any = load_request_schema(0, version)
    topic_type = _parts(request_type, "topic_data")
    partition_type = _parts(topic_type, "partition_data")
    partitions = tuple(partition_type(index=first_partition + n, records=records) for n, records in enumerate(batches))
    named = {"topic_id": topic} if isinstance(topic, UUID) else {"name": topic}
    return request_type(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=(topic_type(**named, partition_data=partitions),),
    )


def fetch(
    topic: str | UUID | None, offsets: dict[int, int] | None = None, *, version: int = 12, wait_ms: int = 0,
    bytes_min: int = 1, bytes_max: int = 1 << 30, partition_bytes_max: int = 1 << 20,
    session: tuple[int, int] = (0, -1), forget: dict[str, tuple[int, ...]] | None = None, **more: Any,
) -> Any:  # fmt: skip
    """Fetch from these partitions and offsets."""
    request_type: Any = load_request_schema(1, version)
    topic_type = _parts(request_type, "topics")
    partition_type = _parts(topic_type, "partitions")
    known = partition_type.__dataclass_fields__
    epoch = {"current_leader_epoch": more.pop("leader_epoch", -1)}
    epoch = epoch if "current_leader_epoch" in known else {}
    partitions = tuple(
        partition_type(partition=number, fetch_offset=offset, partition_max_bytes=partition_bytes_max, **epoch)
        for number, offset in (offsets or {0: 0}).items()
    )
    named = {"topic_id": topic} if isinstance(topic, UUID) else {"topic": topic}
    fields: dict[str, Any] = {
        "max_wait": timedelta(milliseconds=wait_ms),
        "min_bytes": bytes_min,
        "max_bytes": bytes_max,
        "isolation_level": more.pop("isolation_level", 0),
        "topics": () if topic is None else (topic_type(**named, partitions=partitions),),
    }
    if version >= 7:
        forgotten_type = _parts(request_type, "forgotten_topics_data")
        fields["session_id"], fields["session_epoch"] = session
        fields["forgotten_topics_data"] = tuple(
            forgotten_type(topic=name, partitions=numbers) for name, numbers in (forget or {}).items()
        )
    if version < 15:
        fields["replica_id"] = -1
    return request_type(**{**fields, **more})
