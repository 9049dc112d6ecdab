"""Two tables as sets of rows (pure): what is in both, and what is in the one and not in the other.

    intersect        rows that are in both              all: as often as in the one that has fewer
    except           rows of the left alone             all: as often as the left has more of them

Rows are the same if all their columns are; here nulls are the same as each other. Of each row it is kept how often each
side has it. With `all` a row that is there several times is so in the result too, and its copies are numbered.

    state    the row │ how often the left has it │ how often the right has it
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import FlowError
from headwater.flow.operators.changes import merge_changes
from headwater.flow.operators.tables.step import TableStep
from headwater.flow.operators.windows.grouping import grouped
from headwater.flow.state.manifest import DELETED, HASH, StateSchema
from headwater.flow.state.runs.equality import Integers
from headwater.flow.state.shard import ShardState

INTERSECT, EXCEPT = WAYS = ("intersect", "except")
COUNT = "_count"
"""How often a row is there more than before."""
COUNTS = ("_of_left", "_of_right")
ROWS = "rows"


@dataclass(frozen=True)
class SetOperation:
    """`rows` are the columns of both; `copy` is the name of the number of a copy, empty if each row is there once."""

    rows: pa.Schema
    how: str
    copy: str = ""

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        counts = pa.schema([pa.field(name, pa.int64()) for name in COUNTS])
        return {ROWS: StateSchema(pa.schema([pa.field(one.name, one.type) for one in self.rows]), counts)}

    @property
    def columns(self) -> pa.Schema:
        own = [pa.field(one.name, one.type) for one in self.rows]
        return pa.schema([*own, *([pa.field(self.copy, pa.int64())] if self.copy else [])])

    def times(self, left: Integers, right: Integers) -> Integers:
        """How often the result has a row."""
        if self.copy:
            return np.minimum(left, right) if self.how == INTERSECT else np.maximum(left - right, 0)
        there = (right > 0) if self.how == INTERSECT else (right == 0)
        return ((left > 0) & there).astype(np.int64)


def counted_schema(rows: pa.Schema) -> pa.Schema:
    """Of what shards are given."""
    return pa.schema([pa.field(HASH, pa.int64()), *rows, pa.field(COUNT, pa.int64())])


def set_step(
    work: SetOperation, state: ShardState, given: tuple[pa.RecordBatch | None, pa.RecordBatch | None]
) -> TableStep:
    """`given` are rows of the left and of the right, and how much oftener each is there than before."""
    sides = [
        pa.RecordBatch.from_pylist([], counted_schema(work.rows)) if rows is None else rows.select([*given_names(work)])
        for rows in given
    ]
    rows = pa.concat_batches(sides)
    own = rows.select(work.rows.names)
    hashes, counts = rows.column(HASH).to_numpy(), rows.column(COUNT).to_numpy()
    order, firsts = grouped([hashes], own)
    begins = np.flatnonzero(firsts)
    more = [
        np.add.reduceat(np.where(of_side, counts, 0)[order], begins) if len(begins) else np.empty(0, np.int64)
        for of_side in (np.arange(len(hashes)) < sides[0].num_rows, np.arange(len(hashes)) >= sides[0].num_rows)
    ]
    heads = order[begins]
    keys, hashes = own.take(pa.array(heads)), hashes[heads]
    found = state.lookup(hashes, keys)
    before = [np.asarray(found.values.column(name).fill_null(0).to_numpy(), np.int64) for name in COUNTS]
    after = [was + change for was, change in zip(before, more, strict=True)]
    if any((one < 0).any() for one in after):
        raise FlowError(
            "a set operation loses a row that it never had", "This is a bug in headwater; please report it."
        )
    gone = (after[0] == 0) & (after[1] == 0)
    changed = (more[0] != 0) | (more[1] != 0)
    columns = {HASH: hashes, COUNTS[0]: after[0], COUNTS[1]: after[1], DELETED: gone}
    written = pa.RecordBatch.from_arrays(
        [*map(pa.array, columns.values()), *keys.columns], names=[*columns, *keys.schema.names]
    )
    run = state.write(written.filter(pa.array(changed)), existed=found.mask[changed])
    return TableStep(_changes(work, keys, work.times(*before), work.times(*after)), {ROWS: run})


def given_names(work: SetOperation) -> list[str]:
    return list(counted_schema(work.rows).names)


def _changes(work: SetOperation, keys: pa.RecordBatch, before: Integers, after: Integers) -> pa.RecordBatch:
    """Copies that are no longer, or that are now: the last of a row come and go."""
    lowest, highest = np.minimum(before, after), np.maximum(before, after)
    lengths = highest - lowest
    of = np.repeat(np.arange(len(lengths)), lengths)
    number = np.arange(len(of)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + lowest[of] + 1
    own = keys.take(pa.array(of))
    columns = [*own.columns, *([pa.array(number)] if work.copy else [])]
    emitted = pa.RecordBatch.from_arrays(columns, schema=work.columns)
    nothing = emitted.select([])
    return merge_changes(emitted, (after < before)[of], nothing, (after > before)[of], nothing)
