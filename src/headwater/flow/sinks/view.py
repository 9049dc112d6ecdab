"""Rows into a view, or into a table of anybody's database: the same thing, kept by a view store."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from headwater.views.mark import Mark
from headwater.views.store import POSTGRES_SCHEMES, ViewStore, open_store

DEFAULT_SCHEMA = "public"
OUTPUT = "#"  # no job has it in its name


class ViewSink:
    """Upserts and deletes by key, or appends where there is no key; once, because the mark goes in with the rows."""

    exactly_once = True

    def __init__(self, store: ViewStore, view: str, *, shadow: bool = False) -> None:
        """With `shadow`, rows go to the table that a rebuild has begun; the store's `swap` makes it the view."""
        self.name = self._view = view
        self._store, self._shadow = store, shadow

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        if not self._shadow:
            self._store.prepare(self._view, schema, key)

    def committed(self, job: str) -> int | None:
        mark = self._store.mark(self._view, shadow=self._shadow)
        return mark.batch if mark is not None and mark.job == job and mark.batch >= 0 else None

    def owner(self) -> str | None:
        """The job that has written here; None if none has."""
        mark = self._store.mark(self._view, shadow=self._shadow)
        return None if mark is None else mark.job

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        return self._store.write(self._view, mark, rows, shadow=self._shadow)

    def close(self) -> None:
        self._store.close()


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

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        return super().write(replace(mark, job=self._writer(mark.job)), rows)

    def _writer(self, job: str) -> str:
        return f"{job}{OUTPUT}{self.name}"


def table_sink(url: str, table: str, *, name: str) -> TableSink:
    """A table in the database at `url`; in PostgreSQL it may name its schema, as in "reports.sales"."""
    schema, _, bare = table.rpartition(".") if url.startswith(POSTGRES_SCHEMES) else ("", "", table)
    return TableSink(open_store(url, schema or DEFAULT_SCHEMA), bare, name=name)
