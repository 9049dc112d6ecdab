"""Rows into a view, or into a table of anybody's database: the same thing, kept by a view store."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.flow.sinks.staged import CountOnly, Part, RunTasks, Stager, in_chunks, run_here
from headwater.views.mark import Epoch, Mark
from headwater.views.postgres_staging import PostgresStaging, StagedTable
from headwater.views.store import POSTGRES_SCHEMES, StagingStore, ViewStore, open_store

DEFAULT_SCHEMA = "public"
OUTPUT = "#"  # no job has it in its name


class ViewSink:
    """Upserts and deletes by key, or appends where there is no key; once, because the mark goes in with the rows."""

    exactly_once = True

    def __init__(self, store: ViewStore, view: str, *, shadow: bool = False) -> None:
        """With `shadow`, rows go to the table that a rebuild has begun; the store's `swap` makes it the view."""
        self.name = self._view = view
        self.store, self._shadow = store, shadow

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        if not self._shadow:
            self.store.prepare(self._view, schema, key)

    def committed(self, job: str) -> int | None:
        mark = self.store.mark(self._view, shadow=self._shadow)
        return mark.batch if mark is not None and mark.job == job and mark.batch >= 0 else None

    def fence(self, job: str, epoch: Epoch) -> None:
        self.store.fence(self._written(Mark(job, -1)).job, epoch)

    def owner(self) -> str | None:
        """The job that has written here; None if none has."""
        mark = self.store.mark(self._view, shadow=self._shadow)
        return None if mark is None else mark.job

    def stager(self, mark: Mark) -> Stager | None:
        """None for SQLite, in which one process writes at a time."""
        if not isinstance(self.store, StagingStore):
            return None
        staging = self.store.staging(self._view, self._written(mark), shadow=self._shadow)
        return CountOnly() if staging is None else ViewStager(staging)

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        return self.publish(mark, (), rows)

    def publish(self, mark: Mark, parts: Sequence[Part], rows: pa.Table, run: RunTasks = run_here) -> bool:
        staged = [StagedTable(**part.content) for part in parts if part.content]
        return self.store.write(self._view, self._written(mark), rows, shadow=self._shadow, staged=staged)

    def _written(self, mark: Mark) -> Mark:
        """The mark as it lies in the store."""
        return mark

    def close(self) -> None:
        self.store.close()


class SwappingViewSink(ViewSink):
    """A view that was rebuilt up to a batch, and is replaced in one step with the next: readers have seen that one
    already, of the code before."""

    def __init__(self, store: ViewStore, view: str) -> None:
        super().__init__(store, view, shadow=True)

    def publish(self, mark: Mark, parts: Sequence[Part], rows: pa.Table, run: RunTasks = run_here) -> bool:
        written = super().publish(mark, parts, rows, run)
        if self._shadow:
            self.store.swap(self._view, mark)
            self._shadow = False
        return written


def view_sink(store: ViewStore, view: str, job: str) -> ViewSink:
    built = store.mark(view, shadow=True)
    return SwappingViewSink(store, view) if built is not None and built.job == job else ViewSink(store, view)


@dataclass(frozen=True)
class ViewStager:
    """Copies the rows of a task into a table of their own."""

    staging: PostgresStaging

    def stage(self, task: int, batches: Iterable[pa.RecordBatch]) -> Part:
        rows = 0

        def counted() -> Iterator[pa.Table]:
            nonlocal rows
            for chunk in in_chunks(batches):
                rows += chunk.num_rows
                yield chunk

        staged = self.staging.stage(counted())
        return Part(task, rows, staged._asdict())


class TableSink(ViewSink):
    """A table that an output of any name may write to. Its mark is of job and output: two outputs of one job would
    take each other's batches for their own."""

    def __init__(self, store: ViewStore, table: str, *, name: str) -> None:
        super().__init__(store, table)
        self.name = name

    def committed(self, job: str) -> int | None:
        return super().committed(self._writer(job))

    def owner(self) -> str | None:
        writer = super().owner()
        return None if writer is None else writer.partition(OUTPUT)[0]

    def _written(self, mark: Mark) -> Mark:
        return replace(mark, job=self._writer(mark.job))

    def _writer(self, job: str) -> str:
        return f"{job}{OUTPUT}{self.name}"


def table_sink(url: str, table: str, *, name: str) -> TableSink:
    """A table in the database at `url`; in PostgreSQL it may name its schema, as in "reports.sales"."""
    schema, _, bare = table.rpartition(".") if url.startswith(POSTGRES_SCHEMES) else ("", "", table)
    return TableSink(open_store(url, schema or DEFAULT_SCHEMA), bare, name=name)
