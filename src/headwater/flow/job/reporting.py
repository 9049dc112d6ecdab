"""What a job says about itself, as records: rows that did not decode, rows that were too late, and its accounts."""

import base64
import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.job.folder import BatchRecord
from headwater.flow.job.time_told import times_told
from headwater.flow.source.staging import Staged


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
    return records(rows["key"].to_pylist(), values, times.to_pylist())


def _shown(name: str, content: bytes | None) -> dict[str, str | None]:
    """As text where it is text, so that a person can read it; else so that no byte is lost."""
    try:
        return {name: None if content is None else content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content or b"").decode()}


def account_records(job: str, record: BatchRecord, time_ms: int) -> pa.Table:
    """One record for each output of the batch."""
    keys, values, times = [], [], times_told(record)
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
