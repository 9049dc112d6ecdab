"""Records that are no rows: a producer's promise that nothing more comes from before a time. Pure.

A record without a value and with the header `headwater-no-more-before`, whose value is a time in milliseconds since
1970 as decimal digits. Its key, if it has one, names the producer, as text; without one it speaks for the whole
partition.
Any Kafka client can send it.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.source.poison import Poison
from headwater.flow.source.times.clock_rules import ClockRules
from headwater.flow.source.times.event_time import shown, span
from headwater.log.record_columns import Int64Array

HEADER = "headwater-no-more-before"
DIGITS_MAX = 15


class Promise(NamedTuple):
    row: int
    producer: str | None
    no_more_before_us: int


class Punctuation(NamedTuple):
    promises: list[Promise]
    broken: Poison
    """Such records that say nothing that can be believed."""


def find_punctuation(
    values: pa.BinaryArray, keys: pa.BinaryArray, headers: pa.ListArray, timestamps_ms: Int64Array, rules: ClockRules
) -> Punctuation:
    """Those among records of which some have no value."""
    owners = pc.list_parent_indices(headers).to_numpy()
    fields = headers.flatten()
    named = np.asarray(pc.equal(fields.field("key"), HEADER)) & np.asarray(values.is_null())[owners]
    promises, rows, reasons = [], [], []
    found, first = np.unique(owners[named], return_index=True)
    # One by one: there are few, or they would promise nothing.
    for row, place in zip(found.tolist(), np.flatnonzero(named)[first].tolist(), strict=True):
        said = _time_us(fields.field("value")[place].as_py())
        record_us = int(timestamps_ms[row]) * 1000
        if said is None:
            rows.append(row)
            reasons.append(f"header {HEADER} is no number of milliseconds since 1970")
        elif rules.ahead_us is not None and record_us > 0 and said > record_us + rules.ahead_us:
            rows.append(row)
            far, most = span(said - record_us), span(rules.ahead_us)
            reasons.append(f"header {HEADER}: {shown(said)} lies {far} after its record; at most {most} is believed")
        else:
            promises.append(Promise(row, _text(keys[row].as_py()), said))
    return Punctuation(promises, Poison(np.array(rows, dtype=np.int64), reasons))


def _time_us(value: bytes | None) -> int | None:
    if value is None or len(value) > DIGITS_MAX or not value.isdigit():
        return None
    return int(value) * 1000


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode(errors="replace")
