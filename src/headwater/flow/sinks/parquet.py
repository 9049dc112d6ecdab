"""Rows into Parquet files, each batch once.

    <folder>/part-000000000012-1a2b3c4d.parquet         batch 12; the letters are of the job
    <folder>/part-000000000012-1a2b3c4d-00003.parquet   rows of the same batch that task 3 wrote
    <folder>/country=DE/part-…                          where the rows are divided by a column
    <folder>/_headwater/stage/00003-5f0c….staged        what an attempt of task 3 has written; publishing renames it
    <folder>/_headwater/mark.json                       whose folder this is, and its newest batch
    <folder>/_headwater/mark.copy                       the same once more: it is a small file (small_file.py)
    <folder>/_headwater/mark-00000007.json              the same, of driver 7 of a job whose drivers are counted
    <folder>/_headwater/driver-00000007.json            that there is such a driver; its stage is stage-00000007

A file appears whole or not at all. Which tasks have rows may differ when a batch comes again. So the names of its files
are noted in the mark, as `unfinished`, before the first of them appears; a batch that comes again before its mark was
written replaces those that it has too, and removes the others.

Drivers of a job that is kept at a URL may overlap. Each writes its own mark, and the newest driver's counts. A driver
that begins first says that it is there, then reads the mark of the one before it. An older one first writes in its mark
what it is going to name, then looks whether there is a newer one, and stops. So one of the two sees the other: files
that the older one has named are removed, and its stage, without which it can name no more.
"""

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import JobRefused, JobTakenOver
from headwater.flow.sinks.folders import Folder, Note, absolute, folder_at
from headwater.flow.sinks.staged import CountOnly, Part, RunTasks, Stager, attempt_name, in_chunks, run_here
from headwater.small_file import copy_path
from headwater.views.mark import Epoch, Mark, position_to_json
from headwater.views.shape import Shape, evolved, shape_of

OWN = "_headwater"
MARK, STAGE = f"{OWN}/mark.json", f"{OWN}/stage"
NUMBERED = re.compile(r"(mark|stage|driver)-(\d{8})(?:\.json|\.copy)?")
ROW = "_row"  # beside the columns that files are divided by; none of a user's begins with an underscore
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # as Hive and Spark name the folder of nulls


class ParquetSink:
    exactly_once = True

    def __init__(self, folder: Folder | str, *, name: str, by: Sequence[str] = (), compression: str = "zstd") -> None:
        """A folder by its path, or by any URL that fsspec can reach; `by` names columns that become folders."""
        self.name = name
        self._by, self._compression = tuple(by), compression
        self._files = folder_at(folder) if isinstance(folder, str) else folder
        self._place = absolute(folder) if isinstance(folder, str) else folder
        self._note = Note(self._files, MARK)
        self._stage = STAGE
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
        if marks := self._numbers("mark"):
            self._note = Note(self._files, _numbered("mark", max(marks)))
        stored = self._mark().get("shape")
        self._shape = evolved(self.name, Shape.from_json(stored), wanted) if stored else wanted

    def fence(self, job: str, epoch: Epoch) -> None:
        if not epoch.number:
            return
        self._files.put(
            _numbered("driver", epoch.number),
            json.dumps({"job": job, "owner": epoch.owner, "since_ms": epoch.since_ms}).encode(),
        )
        self._refuse_older(job, epoch)
        older = [number for number in self._numbers("mark") if number < epoch.number]
        # A stage first: what has no name yet gets none any more, and what has one is in the mark.
        for stage in [STAGE, *(_numbered("stage", number) for number in self._numbers("stage"))]:
            self._empty(stage)
        before = Note(self._files, _numbered("mark", max(older)) if older else MARK).read() or {}
        self._note, self._stage = Note(self._files, _numbered("mark", epoch.number)), _numbered("stage", epoch.number)
        if before.get("job", job) == job and self._note.read() is None:
            for name in before.get("unfinished", ()):
                self._files.remove(name)
            if before:
                self._note.write({name: said for name, said in before.items() if name != "unfinished"})
        for number in older:
            self._files.remove(_numbered("mark", number))
            self._files.remove(copy_path(_numbered("mark", number)))

    def _refuse_older(self, job: str, epoch: Epoch) -> None:
        newest = max(self._numbers("driver"), default=0) if epoch.number else 0
        if newest > epoch.number:
            said = json.loads(self._files.get(_numbered("driver", newest)) or b"{}")
            named = job.split("/")[1] if "/" in job else job
            raise JobTakenOver(named, said.get("owner", f"driver {newest}"), said.get("since_ms", 0))

    def _numbers(self, kind: str) -> list[int]:
        found = map(NUMBERED.fullmatch, self._files.names(OWN))
        return sorted({int(one[2]) for one in found if one is not None and one[1] == kind})

    def _empty(self, stage: str) -> None:
        for name in self._files.names(stage):
            self._files.remove(f"{stage}/{name}")

    def committed(self, job: str) -> int | None:
        mark = self._mark()
        own = mark.get("job") == job and mark.get("output", self.name) == self.name
        return int(mark["batch"]) if own and int(mark["batch"]) >= 0 else None

    def stager(self, mark: Mark) -> Stager:
        if self._holds(self._mark(), mark):
            return CountOnly()
        self._empty(self._stage)
        return ParquetStager(self._place, self._by, self._compression, self._stage)

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        return self.publish(mark, (), rows)

    def publish(self, mark: Mark, parts: Sequence[Part], rows: pa.Table, run: RunTasks = run_here) -> bool:
        stored = self._mark()
        if self._holds(stored, mark):
            return False
        given = {f"{folder}{file_name(mark)}": part for folder, part in parts_of(rows, self._by)}
        staged = {
            f"{folder}{file_name(mark, part.task)}": name for part in parts for folder, name in part.content.items()
        }
        if mark.epoch.number:  # nothing gets its name but from a stage, which a newer driver empties
            for name, part in given.items():
                staged[name] = f"{self._stage}/{attempt_name(0)}.staged"
                self._files.put(staged[name], self._parquet(part))
            given = {}
        unfinished = [*given, *staged]
        for name in {file_name(mark), *stored.get("unfinished", ())}.difference(unfinished):
            self._files.remove(name)
        if staged or self._by:
            self._note.write({"batch": -1, **stored, **self._owner(mark), "unfinished": unfinished})
        self._refuse_older(mark.job, mark.epoch)
        for name, part in given.items():
            self._files.put(name, self._parquet(part))
        for name, own in staged.items():
            self._files.rename(own, name)
        shape = (self._shape or shape_of(self.name, rows.schema, ())).to_json()
        position = json.loads(position_to_json(mark.position))
        self._note.write({**self._owner(mark), "batch": mark.batch, "position": position, "shape": shape})
        return True

    def close(self) -> None:
        """Files are closed as soon as they are written."""

    def _owner(self, mark: Mark) -> dict[str, str]:
        return {"job": mark.job, "output": self.name}

    def _holds(self, stored: Mapping[str, Any], mark: Mark) -> bool:
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
        return mark.batch <= int(stored.get("batch", -1))

    def _mark(self) -> dict[str, Any]:
        content = self._note.read()
        if content is not None and not (isinstance(content, dict) and {"job", "batch"} <= content.keys()):
            raise self._note.damaged("it is not what was written")
        return content or {}

    def _parquet(self, rows: pa.Table) -> bytes:
        target = io.BytesIO()
        pq.write_table(rows, target, compression=self._compression)
        return target.getvalue()


@dataclass(frozen=True)
class ParquetStager:
    """Writes the rows of a task to a file that has no name in the folder yet; one for each folder in it that they
    belong to."""

    place: Folder | str
    by: tuple[str, ...]
    compression: str
    folder: str = STAGE

    def stage(self, task: int, batches: Iterable[pa.RecordBatch]) -> Part:
        files = folder_at(self.place) if isinstance(self.place, str) else self.place
        staged: dict[str, str] = {}
        writers: dict[str, pq.ParquetWriter] = {}
        count = 0
        with ExitStack() as opened:
            for rows in in_chunks(batches):
                count += rows.num_rows
                for folder, part in parts_of(rows, self.by):
                    if folder not in writers:
                        staged[folder] = f"{self.folder}/{attempt_name(task)}.staged"
                        file = opened.enter_context(files.writing(staged[folder]))
                        writer = pq.ParquetWriter(file, part.schema, compression=self.compression)
                        writers[folder] = opened.enter_context(writer)
                    writers[folder].write_table(part)
        return Part(task, count, staged)


def parts_of(rows: pa.Table, by: tuple[str, ...]) -> Iterator[tuple[str, pa.Table]]:
    """The folder of each row's file, and the rows that go there."""
    if rows.num_rows == 0:
        return
    if not by:
        yield "", rows
        return
    numbered = rows.select(by).append_column(ROW, pa.array(range(rows.num_rows), pa.int64()))
    groups = numbered.group_by(list(by), use_threads=False).aggregate([(ROW, "list")])
    # By the folder's name: values that differ and have one name, as two kinds of NaN, must not be two files of it.
    places: dict[str, list[int]] = {}
    for values, own in zip(groups.select(by).to_pylist(), groups[f"{ROW}_list"].to_pylist(), strict=True):
        places.setdefault(_folder(values), []).extend(own)
    for folder, chosen in places.items():
        yield folder, rows.drop_columns(list(by)).take(pa.array(chosen))


def _numbered(kind: str, number: int) -> str:
    return f"{OWN}/{kind}-{number:08}{'' if kind == 'stage' else '.json'}"


def file_name(mark: Mark, task: int | None = None) -> str:
    """Of rows that a task staged, or that none did."""
    whose = "" if task is None else f"-{task:05}"
    return f"part-{mark.batch:012}-{hashlib.sha256(mark.job.encode()).hexdigest()[:8]}{whose}.parquet"


def _folder(values: dict[str, object]) -> str:
    return "".join(f"{quote(column, safe='')}={_named(value)}/" for column, value in values.items())


def _named(value: object) -> str:
    if value is None:
        return NO_VALUE
    # A text that is called like the folder of nulls has another name for the same text.
    return quote(str(value), safe="") if value != NO_VALUE else NO_VALUE.replace("_", "%5F", 1)
