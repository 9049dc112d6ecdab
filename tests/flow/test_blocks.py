"""Blocks: every row reaches its shard, in the order of the log, whatever the order of the blocks."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.exchange import blocks as exchange
from headwater.flow.exchange.blocks import INLINE, SHARD, Exchange, decoded, partitioned, received, result_blocks
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
    blocks = pa.Table.from_batches(
        [partitioned(rows, Exchange(shards), number) for number, rows in enumerate(batches) if rows.num_rows],
        exchange.BLOCKS,
    )
    places = list(range(blocks.num_rows))
    chance.shuffle(places)
    shuffled = blocks.take(pa.array(places, pa.int64()))
    rows = [row for batch in batches for row in batch.to_pylist()]
    for shard in range(shards):
        own = shuffled.filter(pc.equal(shuffled[SHARD], shard))
        (found,) = received(own.to_batches(), [[SCHEMA]])
        (given,) = found.inputs.get(shard, [None])
        assert ([] if given is None else given.to_pylist()) == [row for row in rows if row[HASH] % shards == shard]


def decode(blocks: list[bytes]) -> list[dict[str, object]]:
    values = pa.array(blocks, pa.binary())
    return [row for value in values for row in decoded(value, SCHEMA).to_pylist()]


def test_result_blocks_decode_to_the_rows_that_a_task_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BLOCK_ROWS", 3)
    batches = [batch_of(list(range(7)), 0), batch_of([], 0), batch_of([5], 7)]
    blocks = [block for batch in batches for block in result_blocks(batch, INLINE)]
    assert len(blocks) == 4, "three of the first batch, none of the second, one of the third"
    assert decode(blocks) == [row for batch in batches for row in batch.to_pylist()]


def test_blocks_of_large_rows_have_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = batch_of(list(range(10)), 0)
    monkeypatch.setattr(exchange, "BLOCK_BYTES", rows.nbytes // 4)
    blocks = list(result_blocks(rows, INLINE))
    assert len(blocks) == 5
    assert decode(blocks) == rows.to_pylist()


def test_large_blocks_lie_in_files_of_their_own_and_small_ones_do_not(tmp_path: Path) -> None:
    in_files = Exchange(2, str(tmp_path / "blocks"))
    in_files.clear()
    small, large = batch_of(list(range(10)), 0), batch_of(list(range(20_000)), 0)
    sliced = large.slice(5_000, 12_000)
    blocks = [in_files.encoded(rows) for rows in (small, large, sliced)]
    assert len(list((tmp_path / "blocks").iterdir())) == 2
    assert max(map(len, blocks)) < 1_000
    found = decode(blocks)
    in_files.remove()
    assert found == [*small.to_pylist(), *large.to_pylist(), *sliced.to_pylist()]
    assert not (tmp_path / "blocks").exists()


def test_what_an_earlier_attempt_left_is_removed_before_a_batch(tmp_path: Path) -> None:
    in_files = Exchange(2, str(tmp_path / "blocks"))
    in_files.clear()
    in_files.encoded(batch_of(list(range(20_000)), 0))
    in_files.clear()
    assert list((tmp_path / "blocks").iterdir()) == []


def test_rows_that_were_read_from_a_file_outlive_it(tmp_path: Path) -> None:
    in_files = Exchange(1, str(tmp_path / "blocks"))
    in_files.clear()
    rows = batch_of(list(range(20_000)), 0)
    block = in_files.encoded(rows)
    found = decoded(pa.scalar(block, pa.binary()), SCHEMA)
    in_files.remove()
    assert found.equals(rows)
