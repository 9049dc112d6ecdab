"""Words of a view's rows into an index: each batch once, because the mark is committed with the documents.

The index is made from the view wherever it cannot follow it: when it is new, when other columns are to be searched,
when the view was rebuilt, when it was not kept for some batches. So it holds all rows, whenever it was asked for.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from headwater.errors import JobRefused, UnknownView
from headwater.views.changes import changes_in
from headwater.views.full_text import FullTextIndex, IndexMark
from headwater.views.json_text import json_text
from headwater.views.mark import Mark
from headwater.views.query import Query
from headwater.views.shape import Shape, shape_of
from headwater.views.store import ViewStore


class SearchSink:
    exactly_once = True

    def __init__(
        self, folder: Path, view: str, columns: Sequence[str], store: ViewStore | None = None,
        index: FullTextIndex | None = None,
    ) -> None:  # fmt: skip
        """`store` has the view that it is made from, where it has to be."""
        self.name = f"{view}.search"
        self._folder, self._view, self._columns, self._store = folder, view, tuple(columns), store
        self._index = index or FullTextIndex(folder, columns)
        self._shape: Shape | None = None
        self._generation = 0

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        for column in self._columns:
            if column not in schema.names or not pa.types.is_string(schema.field(column).type):
                texts = [one.name for one in schema if pa.types.is_string(one.type)]
                raise JobRefused(
                    f'view "{self._view}" has no column "{column}" of text to search in',
                    f"Those it has are {', '.join(texts) or 'none'}.",
                )
        self._shape = shape_of(self.name, schema, key)
        mark = self._index.mark()
        if mark is not None and mark.columns != self._columns:
            self._forget()
            mark = None
        self._fill(mark)

    def _fill(self, mark: IndexMark | None) -> None:
        """All rows of the view, if the index is not of this view at the very batch that it holds: what came between
        would be missed."""
        try:
            found = None if self._store is None else self._store.snapshot(self._view)
            if found is None:
                return
            with found as snapshot:
                stored = snapshot.mark
                self._generation = stored.generation
                if stored.job is None:  # nothing was written to it, so what is indexed is of another
                    self._forget()
                    return
                if mark == self._mark(stored.job, stored.batch):
                    return
                rows = pa.Table.from_pylist(snapshot.select(Query()), schema=self._plain_schema(snapshot.shape))
        except UnknownView:
            return
        self._index.write(self._mark(stored.job, stored.batch), self._documents(rows), reset=True)

    def _forget(self) -> None:
        self._index.close()
        if self._folder.exists():
            shutil.rmtree(self._folder)

    def committed(self, job: str) -> int | None:
        mark = self._index.mark()
        return mark.batch if mark is not None and mark.job == job else None

    def write(self, mark: Mark, rows: pa.Table) -> bool:
        stored = self._index.mark()
        if stored is not None and stored.job != mark.job:
            raise JobRefused(
                f"the index in {self._folder} is written by job {stored.job}, not by {mark.job}",
                "Remove the folder, and the index is rebuilt from the view.",
            )
        if stored is not None and mark.batch <= stored.batch:
            return False
        shape = self._shape or shape_of(self.name, rows.schema, ())
        changes = changes_in(shape, rows, lambda column, values: values)
        deleted = changes.deleted_keys.to_pylist()
        self._index.write(self._mark(mark.job, mark.batch), self._documents(changes.present), deleted)
        return True

    def close(self) -> None:
        self._index.close()
        if self._store is not None:
            self._store.close()

    def _mark(self, job: str, batch: int) -> IndexMark:
        return IndexMark(job, batch, self._columns, self._generation)

    def _documents(self, rows: pa.Table) -> Iterator[tuple[str, Mapping[str, str]]]:
        assert self._shape is not None
        keys = rows.select(list(self._shape.key)).cast(pa.schema(list(self._shape.key_type)))
        texts = rows.select(list(self._columns)).to_pylist()
        yield from zip(json_text(keys.to_struct_array().combine_chunks()).to_pylist(), texts, strict=True)

    def _plain_schema(self, shape: Shape) -> pa.Schema:
        return pa.schema([pa.field(column.name, column.type) for column in shape.columns])
