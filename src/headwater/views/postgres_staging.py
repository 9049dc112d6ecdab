"""Rows for a view in PostgreSQL that several processes copy, each into a table of its own, before they are published.

    _headwater_stage_<view>_<attempt>         rows as they will be in the view; <view> is a digest of its name
    _headwater_stage_<view>_<attempt>_gone    keys of rows that are deleted, with their JSON text as `_key`

The tables are not logged: a server that crashes empties them. So their rows are counted when they are published.
"""

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from headwater.clock import SystemClock
from headwater.views.changes import changes_in
from headwater.views.shape import Column, Shape

if TYPE_CHECKING:
    from headwater.views.postgres import PostgresStore

PREFIX, GONE, KEY_TEXT = "_headwater_stage_", "_gone", "_key"


class StagedTable(NamedTuple):
    """What one process has copied. `name` is a table without its schema."""

    name: str
    present: int
    gone: int
    nulls: Sequence[str] = ()
    """Columns of the key that are null in some of those that are gone."""


def prefix_of(table: str) -> str:
    """How all tables begin that are staged for one."""
    return f"{PREFIX}{hashlib.sha256(table.encode()).hexdigest()[:10]}_"


@dataclass(frozen=True)
class PostgresStaging:
    """Where and how rows of a view are staged; it can be sent to other processes."""

    url: str
    schema: str
    table: str
    shape: str

    def stage(self, chunks: Iterable[pa.Table]) -> StagedTable:
        """Copy rows into a table of their own. Rows of a view with a key are taken together, others chunk by chunk."""
        from headwater.views.postgres import PostgresStore  # which knows of this module

        store = PostgresStore(self.url, self.schema, read_only=False, clock=SystemClock())
        try:
            shape = Shape.from_json(self.shape)
            name = f"{prefix_of(self.table)}{uuid.uuid4().hex}"
            with store.staging_transaction():
                return _copied(store, shape, name, _together(chunks) if shape.key or shape.one_row else chunks)
        finally:
            store.close()


def _together(chunks: Iterable[pa.Table]) -> list[pa.Table]:
    found = list(chunks)
    return [pa.concat_tables(found)] if found else []


def _copied(store: "PostgresStore", shape: Shape, name: str, chunks: Iterable[pa.Table]) -> StagedTable:
    store.create_staged(name, shape.columns)
    present = gone = 0
    nulls: list[str] = []
    for chunk in chunks:
        changes = changes_in(shape, chunk, store.encode)
        if changes.present.num_rows:
            store.copy_staged(name, changes.present)
            present += changes.present.num_rows
        if len(changes.deleted_keys):
            store.create_staged(name + GONE, [*shape.key_columns, Column(KEY_TEXT, pa.string())])
            keys = {one: changes.deleted[one] for one in shape.key} | {KEY_TEXT: changes.deleted_keys}
            store.copy_staged(name + GONE, pa.table(keys))
            gone = len(changes.deleted_keys)
            nulls = [one for one in shape.key if changes.deleted[one].null_count]
    return StagedTable(name, present, gone, nulls)
