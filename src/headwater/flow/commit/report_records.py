"""What a job says about itself, as records: rows that did not decode, late rows, and its accounts."""

import base64
import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.commit.job_folder import BatchRecord
from headwater.flow.plan.timestamps import times_json
from headwater.flow.source.staging import Staged

SHOWN_BYTES_MAX, KEY_BYTES_MAX = 8 * 1024**2, 1024**2
"""In JSON a byte may become six, and a request has room for 100 MiB."""


def poisoned_records(staged: list[Staged]) -> pa.Table:
    """Rows that did not decode: why, where they lie in the log, and what they were."""
    tables = [one.poisoned for one in staged if len(one.poisoned)]
    if not tables:
        return records([], [], [])
    rows = pa.concat_tables(tables)
    values = [
        json.dumps(
            {
                "reason": row["reason"], "topic": row["topic"], "partition": row["partition"], "offset": row["offset"],
                **_shown("key", row["key"]), **_shown("value", row["value"]),
            }, ensure_ascii=False,
        ).encode()
        for row in rows.to_pylist()
    ]  # fmt: skip
    times = pc.divide(rows["timestamp"].cast(pa.int64()), 1000)
    keys = [None if key is None else key[:KEY_BYTES_MAX] for key in rows["key"].to_pylist()]
    return records(keys, values, times.to_pylist())


def _shown(name: str, content: bytes | None) -> dict[str, str | int | None]:
    """As text where it is text, so that a person can read it; else so that no byte is lost. Of what is larger than a
    topic could take, with all that JSON adds, the beginning: the whole lies in the log, where the record says."""
    if content is not None and len(content) > SHOWN_BYTES_MAX:
        return {**_shown(name, content[:SHOWN_BYTES_MAX]), f"{name}_bytes": len(content)}
    try:
        return {name: None if content is None else content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content or b"").decode()}


def account_records(job: str, record: BatchRecord, time_ms: int) -> pa.Table:
    """One record for each output of the batch."""
    keys, values, times = [], [], times_json(record)
    for name, account in record.accounts.items():
        keys.append(json.dumps({"job": job, "output": name}).encode())
        said = {"job": job, "output": name, "batch": record.batch, "end": record.end, **account.to_json(), **times}
        if record.processed_us is not None:
            said["processed_us"] = record.processed_us
        values.append(json.dumps(said).encode())
    return records(keys, values, [time_ms] * len(keys))


def records(keys: Sequence[bytes | None], values: Sequence[bytes], times_ms: Sequence[int]) -> pa.Table:
    columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(times_ms, pa.int64())]
    return pa.Table.from_arrays(columns, names=["_key", "_value", "_timestamp_ms"])


NO_RECORDS = records([], [], [])
