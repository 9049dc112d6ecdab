"""Blocks: every row reaches its shard, in the order of the log, whatever the order of the blocks."""

from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.exchange import blocks as exchange
from headwater.flow.exchange.blocks import DATA, SHARD, PartitionTask, ResultTask, decode_results, rows_in_order
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
    blocks = pa.Table.from_batches(PartitionTask(SCHEMA, shards)(iter(batches)), exchange.BLOCKS)
    places = list(range(blocks.num_rows))
    chance.shuffle(places)
    shuffled = blocks.take(pa.array(places, pa.int64()))
    rows = [row for batch in batches for row in batch.to_pylist()]
    for shard in range(shards):
        own = shuffled.filter(pc.equal(shuffled[SHARD], shard))
        found = [row for batch in rows_in_order(iter(own.to_batches()), SCHEMA) for row in batch.to_pylist()]
        assert found == [row for row in rows if row[HASH] % shards == shard]


def test_result_blocks_decode_to_the_rows_that_a_task_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BLOCK_ROWS", 3)
    batches = [batch_of(list(range(7)), 0), batch_of([], 0), batch_of([5], 7)]

    def task(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from given

    wanted = pa.schema([SCHEMA.field("name"), SCHEMA.field("number")])
    results = pa.Table.from_batches(ResultTask(task, wanted)(iter(batches)))
    assert results.column_names == [DATA]
    assert results.num_rows == 4, "three of the first batch, none of the second, one of the third"
    assert decode_results(results, wanted) == pa.Table.from_batches(batches).select(["name", "number"])


def test_no_result_blocks_decode_to_a_table_of_no_rows() -> None:
    assert decode_results(exchange.RESULTS.empty_table(), SCHEMA) == SCHEMA.empty_table()


def test_blocks_of_large_rows_have_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = batch_of(list(range(10)), 0)
    monkeypatch.setattr(exchange, "BLOCK_BYTES", rows.nbytes // 4)
    blocks = list(ResultTask(lambda given: given, rows.schema)(iter([rows])))
    assert len(blocks) == 5
    assert decode_results(pa.Table.from_batches(blocks), rows.schema).to_pylist() == rows.to_pylist()
