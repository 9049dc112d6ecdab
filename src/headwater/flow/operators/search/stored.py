"""The stored queries of a version of state, with the index that serves them: kept by the process between batches.

Everything here follows from the rows of the state, so a process that has nothing of it makes it again. All shards are
read: each task holds all queries, and looks at the documents of its shard alone.
"""

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple

import pyarrow as pa

from headwater.flow.operators.joins.events import Shard
from headwater.flow.operators.search.fields import Fields
from headwater.flow.operators.search.index import QueryIndex
from headwater.flow.state.runs.equality import Integers
from headwater.flow.state.shard import StateHandle, empty_rows

KEPT = 4
"""Operators whose index a process keeps."""
GARBAGE_MIN = 10_000
"""An index is rebuilt when it has more queries than twice those that are stored, and this."""


class Stored(NamedTuple):
    rows: pa.RecordBatch
    slots: Integers


class Indexed:
    """One operator's index. It is not to be used without its lock."""

    def __init__(self, fields: Fields, default: str, query: str) -> None:
        self.lock = Lock()
        self._made = fields, default
        self._query = query
        self.index = QueryIndex(fields, default)
        self._version: object = None
        self._stored: Stored | None = None

    def stored(self, shard: Shard, part: str) -> Stored:
        """All queries of the version that a batch begins with."""
        handle = shard.handles[part]
        version = [[run.name for run in runs] for runs in handle.runs]
        if self._stored is None or self._version != version:
            rows = _scanned(shard, part)
            if self.index.size > 2 * rows.num_rows + GARBAGE_MIN:
                self.index = QueryIndex(*self._made)
            self._stored, self._version = Stored(rows, self.slots(rows)), version
        return self._stored

    def slots(self, rows: pa.RecordBatch) -> Integers:
        return self.index.slots(rows.column(self._query))


def _scanned(shard: Shard, part: str) -> pa.RecordBatch:
    handle: StateHandle = shard.handles[part]
    found = [empty_rows(handle.schema.rows, 0)]
    for number in range(handle.shards):
        found += Shard(shard.handles, number, shard.opened).rows(part).scan()
    return pa.concat_batches(found)


_KNOWN: "OrderedDict[tuple[str, str], Indexed]" = OrderedDict()
_LOCK = Lock()


def indexed(handles: Mapping[str, StateHandle], part: str, fields: Fields, default: str, query: str) -> Indexed:
    """The index of an operator, by where its state lies and what it is asked for."""
    key = handles[part].url, repr((fields, default, query))
    with _LOCK:
        found = _KNOWN.pop(key, None) or Indexed(fields, default, query)
        _KNOWN[key] = found
        while len(_KNOWN) > KEPT:
            _KNOWN.popitem(last=False)
    return found
