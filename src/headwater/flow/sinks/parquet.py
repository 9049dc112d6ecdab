"""Rows into Parquet files, each batch once.

    <folder>/part-000000000012-1a2b3c4d.parquet      batch 12; the letters are of the job
    <folder>/country=DE/part-…                       where the rows are divided by a column
    <folder>/_headwater/mark.json                    whose folder this is, and its newest batch; other readers skip it
    <folder>/_headwater/mark.copy                    the same once more: it is a small file (small_file.py)

A file appears whole or not at all. Its name is made from job and batch: a batch that comes again before its mark was
written replaces its own files with equal ones.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import JobRefused
from headwater.flow.sinks.folders import Folder, Note, folder_at
from headwater.views.mark import Mark, position_to_json
from headwater.views.shape import Shape, evolved, shape_of

MARK = "_headwater/mark.json"
ROW = "_row"  # beside the columns that files are divided by; none of a user's begins with an underscore
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # as Hive and Spark name the folder of nulls


class ParquetSink:
    exactly_once = True

    def __init__(self, folder: Folder | str, *, name: str, by: Sequence[str] = (), compression: str = "zstd") -> None:
        """A folder by its path, or by any URL that fsspec can reach; `by` names columns that become folders."""
        self.name = name
        self._by, self._compression = tuple(by), compression
        self._files = folder_at(folder) if isinstance(folder, str) else folder
        self._note = Note(self._files, MARK)
        self._shape: Shape | None = None

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        missing = [column for column in self._by if column not in schema.names]
        if missing:
            raise JobRefused(f'"{self.name}" has no column "{missing[0]}" to divide its files by')
        if not set(schema.names) - set(self._by):
            raise JobRefused(
                f'"{self.name}" divides its files by all of its columns, and nothing is left to be in them',
                "Divide by fewer columns.",
            )
        wanted = shape_of(self.name, schema, ())
        stored = self._mark().get("shape")
        self._shape = evolved(self.name, Shape.from_json(stored), wanted) if stored else wanted

    def committed(self, job: str) -> int | None:
        mark = self._mark()
        return int(mark["batch"]) if mark.get("job") == job and mark.get("output", self.name) == self.name else None

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        stored = self._mark()
        if stored.get("job", mark.job) != mark.job:
            raise JobRefused(
                f"{self._files.url} is written by job {stored['job']}, not by {mark.job}: their files would mix",
                "Write to another folder, or stop the other job and move its files away.",
            )
        if stored.get("output", self.name) != self.name:
            raise JobRefused(
                f"{self._files.url} is written by output {stored['output']} of the same job, not by {self.name}: "
                "their files would mix",
                "Give one of them another folder.",
            )
        if mark.batch <= int(stored.get("batch", -1)):
            return False
        for folder, part in self._parts(rows):
            self._files.put(f"{folder}{file_name(mark)}", self._parquet(part))
        shape = (self._shape or shape_of(self.name, rows.schema, ())).to_json()
        position = json.loads(position_to_json(mark.position))
        content = {
            "job": mark.job, "output": self.name, "batch": mark.batch, "position": position, "shape": shape
        }  # fmt: skip
        self._note.write(content)
        return True

    def close(self) -> None:
        """Files are closed as soon as they are written."""

    def _mark(self) -> dict[str, str]:
        content = self._note.read()
        if content is not None and not (isinstance(content, dict) and {"job", "batch"} <= content.keys()):
            raise self._note.damaged("it is not what was written")
        return content or {}

    def _parts(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        if rows.num_rows == 0:
            return
        if not self._by:
            yield "", rows
            return
        numbered = rows.select(self._by).append_column(ROW, pa.array(range(rows.num_rows), pa.int64()))
        groups = numbered.group_by(list(self._by), use_threads=False).aggregate([(ROW, "list")])
        # By the folder's name: values that differ and have one name, as two kinds of NaN, must not be two files of it.
        places: dict[str, list[int]] = {}
        for values, own in zip(groups.select(self._by).to_pylist(), groups[f"{ROW}_list"].to_pylist(), strict=True):
            places.setdefault(_folder(values), []).extend(own)
        for folder, chosen in places.items():
            yield folder, rows.drop_columns(list(self._by)).take(pa.array(chosen))

    def _parquet(self, rows: pa.Table) -> bytes:
        target = io.BytesIO()
        pq.write_table(rows, target, compression=self._compression)
        return target.getvalue()


def file_name(mark: Mark) -> str:
    return f"part-{mark.batch:012}-{hashlib.sha256(mark.job.encode()).hexdigest()[:8]}.parquet"


def _folder(values: dict[str, object]) -> str:
    return "".join(f"{quote(column, safe='')}={_named(value)}/" for column, value in values.items())


def _named(value: object) -> str:
    if value is None:
        return NO_VALUE
    # A text that is called like the folder of nulls has another name for the same text.
    return quote(str(value), safe="") if value != NO_VALUE else NO_VALUE.replace("_", "%5F", 1)
