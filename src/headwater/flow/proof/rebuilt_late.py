"""Rows that are late while an output is rebuilt, and the batches in which it reads the log again.

What was late for its operators before no longer counts: the log is read again, in other batches, and other rows may be
late. Each attempt has a number of its own, which its late rows carry in the late topic as `rebuilt`, and the job keeps
for each operator from when on late rows count:

    <job>/rebuilt.json           {"counts": {"batch": 12, "attempt": "5f0c…"}}
    <job>/rebuilt/5f0c….json     the batches of the attempt, if results depend on them: their ends and watermarks
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.errors import FlowError
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.late.late_text import said_and_row, with_row
from headwater.flow.plan.planned_batches import offsets
from headwater.flow.plan.processing_time import RecordedBatch
from headwater.flow.sinks.sink import Sink
from headwater.views.mark import Mark

FILE, ATTEMPT, LATE_BEFORE = "rebuilt.json", "attempt.json", "late.json"


def attempt_of(shadow: JobFolder) -> str:
    """The number of an attempt, which lives as long as the folder that it builds in."""
    said = shadow.read(ATTEMPT)
    if said is None:
        said = {"number": uuid.uuid4().hex}
        shadow.write(ATTEMPT, said)
    return str(said["number"])


def note_rebuilt(
    folder: JobFolder, operators: Iterable[str], *, batch: int, attempt: str, before: Mapping[str, Any] | None = None
) -> None:
    """From now on late rows of these operators are those of the attempt, and those after the batch; of one that went on
    from what there was `before` (deploy/replaced.py) also those that counted for that, up to its batch."""
    known = folder.read(FILE) or {}
    notes: dict[str, Any] = {name: {"batch": batch, "attempt": attempt} for name in operators}
    if before is not None:
        for name, note in notes.items():
            note["before"] = {"batch": before["batch"], "note": before["notes"].get(name)}
    folder.write(FILE, {**known, **notes})


class RebuiltBatches(NamedTuple):
    """The batches of an attempt, which stand for those of the job up to one, and that one."""

    batches: list[RecordedBatch]
    until: int


def note_batches(folder: JobFolder, shadow: JobFolder) -> None:
    """Keep, in the job's folder, what the batches of an attempt were so far."""
    name = f"rebuilt/{attempt_of(shadow)}.json"
    known = (folder.read(name) or {"batches": []})["batches"]
    for batch in range(len(known), max(shadow.batches(), default=-1) + 1):
        record = shadow.finished(batch)
        if record is None:
            return  # begun by a version that did not keep them
        known.append({"end": record.end, "watermark_us": record.watermark_us})
    folder.write(name, {"batches": known})


def rebuilt_batches(folder: JobFolder, operators: Iterable[str]) -> RebuiltBatches | None:
    """Those that the operators of an output were built in; None if they never were. FlowError if they are not known."""
    known = folder.read(FILE) or {}
    found = {note["attempt"]: note["batch"] for name in operators if (note := known.get(name))}
    if not found:
        return None
    kept = folder.read(f"rebuilt/{next(iter(found))}.json") if len(found) == 1 else None
    if kept is None:
        raise FlowError(
            f"in which batches job {folder.path.name} rebuilt it is not known, and it depends on that",
            "Rebuild it with --rebuild: this version keeps its batches.",
        )
    batches = [
        RecordedBatch(number, offsets(one["end"]), None, one["watermark_us"])
        for number, one in enumerate(kept["batches"])
    ]
    return RebuiltBatches(batches, *found.values())


def counts_still(said: Mapping[str, Any], folder: JobFolder) -> bool:
    """Is a row of the late topic about what its operator now holds?"""
    return _counts(said, (folder.read(FILE) or {}).get(said["operator"]))


def _counts(said: Mapping[str, Any], note: Mapping[str, Any] | None) -> bool:
    attempt = said.get("rebuilt")
    if note is None:
        return attempt is None
    before = note.get("before")
    if before is not None and said["batch"] <= before["batch"] and _counts(said, before["note"]):
        return True
    return bool(said["batch"] > note["batch"] if attempt is None else attempt == note["attempt"])


def still_counts(folder: JobFolder) -> Column:
    """The same of rows in a frame, with operator, batch and rebuilt."""
    counts = _counting(None)
    for name, note in (folder.read(FILE) or {}).items():
        counts = f.when(f.col("operator") == name, _counting(note)).otherwise(counts)
    return counts


def _counting(note: Mapping[str, Any] | None) -> Column:
    if note is None:
        return f.col("rebuilt").isNull()
    since = f.col("rebuilt").isNull() & (f.col("batch") > note["batch"])
    own: Column = since | f.coalesce(f.col("rebuilt") == note["attempt"], f.lit(False))
    if before := note.get("before"):
        own = own | ((f.col("batch") <= before["batch"]) & _counting(before["note"]))
    return own


class AttemptSink:
    """The late topic, for an attempt that stands for all batches of the job up to one."""

    exactly_once = True

    def __init__(self, inner: Sink, attempt: str, batch: int) -> None:
        self.name = inner.name
        self._inner, self._attempt, self._batch = inner, attempt, batch

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        self._inner.prepare(schema, key)

    def committed(self, job: str) -> int | None:
        return self._inner.committed(job)

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        place = rows.schema.get_field_index("_value")
        values = [self._marked(value) for value in rows.column(place).to_pylist()]
        return self._inner.write(mark, rows.set_column(place, "_value", pa.array(values, pa.binary())))

    def _marked(self, value: bytes) -> bytes:
        said, row = said_and_row(value)
        return with_row({**said, "batch": self._batch, "rebuilt": self._attempt}, row)

    def close(self) -> None:
        self._inner.close()
