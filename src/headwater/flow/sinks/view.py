"""Rows into a view, or into a table of anybody's database: the same thing, kept by a view store."""

from collections.abc import Sequence

import pyarrow as pa

from headwater.views.mark import Mark
from headwater.views.store import POSTGRES_SCHEMES, ViewStore, open_store

DEFAULT_SCHEMA = "public"


class ViewSink:
    """Upserts and deletes by key, or appends where there is no key; once, because the mark goes in with the rows."""

    exactly_once = True

    def __init__(self, store: ViewStore, view: str, *, shadow: bool = False) -> None:
        """With `shadow`, rows go to the table that a rebuild has begun; the store's `swap` makes it the view."""
        self.name = view
        self._store, self._shadow = store, shadow

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        if not self._shadow:
            self._store.prepare(self.name, schema, key)

    def committed(self, job: str) -> int | None:
        mark = self._store.mark(self.name, shadow=self._shadow)
        return mark.batch if mark is not None and mark.job == job and mark.batch >= 0 else None

    def owner(self) -> str | None:
        """The job that has written here; None if none has."""
        mark = self._store.mark(self.name, shadow=self._shadow)
        return None if mark is None else mark.job

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        return self._store.write(self.name, mark, rows, shadow=self._shadow)

    def close(self) -> None:
        self._store.close()


def table_sink(url: str, table: str) -> ViewSink:
    """A table in the database at `url`; in PostgreSQL it may name its schema, as in "reports.sales"."""
    schema, _, bare = table.rpartition(".") if url.startswith(POSTGRES_SCHEMES) else ("", "", table)
    return ViewSink(open_store(url, schema or DEFAULT_SCHEMA), bare)
