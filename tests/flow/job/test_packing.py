"""Rows in pieces: all come where they belong, in the order of the source, whatever the order of the pieces."""

from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.job import packing
from headwater.flow.job.packing import PACKED, SHARD, DealingTask, PackingTask, dealt_rows, opened
from headwater.flow.state.manifest import HASH

SCHEMA = pa.schema([(HASH, pa.int64()), ("name", pa.string()), ("number", pa.int64())])

hashes = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)


def batch_of(values: list[int], first: int) -> pa.RecordBatch:
    names = [None if value % 3 == 0 else f"n{value}" for value in values]
    columns = [values, names, list(range(first, first + len(values)))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@given(contents=st.lists(hashes, max_size=4), shards=st.sampled_from([1, 2, 8]), chance=st.randoms())
def test_each_shard_gets_its_rows_in_the_order_in_which_they_came(
    contents: list[list[int]], shards: int, chance: Random
) -> None:
    batches = [batch_of(content, 100 * place) for place, content in enumerate(contents)]
    pieces = pa.Table.from_batches(DealingTask(SCHEMA, shards)(iter(batches)), packing.PIECES)
    places = list(range(pieces.num_rows))
    chance.shuffle(places)
    shuffled = pieces.take(pa.array(places, pa.int64()))
    rows = [row for batch in batches for row in batch.to_pylist()]
    for shard in range(shards):
        own = shuffled.filter(pc.equal(shuffled[SHARD], shard))
        found = [row for batch in dealt_rows(iter(own.to_batches()), SCHEMA) for row in batch.to_pylist()]
        assert found == [row for row in rows if row[HASH] % shards == shard]


def test_what_a_task_packs_for_the_driver_is_opened_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "ROWS_A_PIECE", 3)
    batches = [batch_of(list(range(7)), 0), batch_of([], 0), batch_of([5], 7)]

    def task(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from given

    wanted = pa.schema([SCHEMA.field("name"), SCHEMA.field("number")])
    results = pa.Table.from_batches(PackingTask(task, wanted)(iter(batches)))
    assert results.column_names == [PACKED]
    assert results.num_rows == 4, "three of the first batch, none of the second, one of the third"
    assert opened(results, wanted) == pa.Table.from_batches(batches).select(["name", "number"])


def test_nothing_packed_is_a_table_of_no_rows() -> None:
    assert opened(packing.RESULTS.empty_table(), SCHEMA) == SCHEMA.empty_table()


def test_large_rows_are_packed_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = batch_of(list(range(10)), 0)
    monkeypatch.setattr(packing, "BYTES_A_PIECE", rows.nbytes // 4)
    pieces = list(PackingTask(lambda given: given, rows.schema)(iter([rows])))
    assert len(pieces) == 5
    assert opened(pa.Table.from_batches(pieces), rows.schema).to_pylist() == rows.to_pylist()
