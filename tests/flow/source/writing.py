"""Topics with known content."""

import json
from collections.abc import Iterable, Mapping
from contextlib import closing

import numpy as np
import pyarrow as pa

from headwater.flow.kafka.client import Client
from headwater.flow.kafka.encoding import encode_records
from headwater.record import TopicPartition

FIRST_MS = 1_700_000_000_000


def order(number: int) -> bytes:
    return json.dumps({"id": number, "name": f"order {number}", "at": f"2026-01-01T00:00:{number % 60:02}Z"}).encode()


def write(
    address: str, topic: str, values: Mapping[int, Iterable[bytes | None]], *, batch_bytes: int = 20_000,
    first_ms: int = FIRST_MS, keys: list[bytes] | None = None,
) -> None:  # fmt: skip
    """Append values to partitions; records are a millisecond apart."""
    with closing(Client(address)) as client:
        producer = client.init_producer_id()
        for partition, own in values.items():
            column = pa.array(list(own), pa.binary())
            batches = encode_records(
                None if keys is None else pa.array(keys, pa.binary()),
                column,
                first_ms + np.arange(len(column)),
                producer_id=producer.producer_id,
                epoch=producer.epoch,
                base_sequence=0,
                batch_bytes=batch_bytes,
            )
            client.produce({TopicPartition(topic, partition): batches})
