"""Millions of rows into topics, as columns."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.kafka.client import Client
from headwater.flow.kafka.encoding import encode_records
from headwater.record import TopicPartition

Advance = Callable[[int], None]
Numbers = npt.NDArray[np.int64]
CHUNK = 50_000


def text(numbers: Any) -> pa.Array:
    return pa.array(np.asarray(numbers)).cast(pa.string())


def joined(*pieces: Any) -> pa.Array:
    """Texts and columns of texts put together, row by row, as bytes."""
    return pc.binary_join_element_wise(*pieces, "").cast(pa.binary())


def instants(times_ms: Numbers) -> pa.Array:
    return pa.array(np.datetime_as_string(times_ms.astype("datetime64[ms]"), unit="ms", timezone="UTC"))


def produce(
    client: Client, place: TopicPartition, keys: pa.Array | None, values: pa.Array, times_ms: Numbers, fed: Advance
) -> None:
    for first in range(0, len(values), CHUNK):
        part = slice(first, first + CHUNK)
        own = None if keys is None else keys[part]
        client.produce({place: encode_records(own, values[part], times_ms[part])})
        fed(len(values[part]))


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """In milliseconds."""
    return {f"p{one}": round(float(np.percentile(seconds, one)) * 1000, 3) for one in (50, 99)}
