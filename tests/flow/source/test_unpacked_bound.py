"""The bound on what a batch unpacks to is one setting: Produce and flows obey the node's."""

from pathlib import Path

import pytest

from headwater.errors import BatchTooLarge
from headwater.flow.source.options import parse_options
from headwater.flow.source.ranges import read_ranges
from headwater.flow.source.reach import unpacked_bytes_max
from headwater.flow.source.record_batches.records import UNPACKED_BYTES_MAX
from headwater.flow.source.splitting import Range
from headwater.settings import LogSettings, NodeSettings
from headwater.testing import running_node
from tests.log.bombs import bomb

BOUND = 100_000


def settings(bound: int) -> NodeSettings:
    return NodeSettings(log=LogSettings(decompressed_bytes_max=bound))


def offsets_read(data: Path) -> list[int]:
    options = parse_options({"data": str(data), "topic": "orders", "poisoned": "drop"})
    read = read_ranges(options, [Range("orders", 0, 0, 2)])
    return [offset for _, columns in read for offset in columns["offset"].to_pylist()]


def test_a_batch_beyond_the_nodes_bound_is_refused_and_one_that_is_stored_is_poisoned_by_flows(tmp_path: Path) -> None:
    with running_node(tmp_path, settings(4 * BOUND)) as node:
        node.log.create_topic("orders", partitions=1)
        for size in (2 * BOUND, BOUND // 2):
            node.log.partition("orders", 0).append(bomb(size, "zstd"), durable=True)
        with pytest.raises(BatchTooLarge, match="decompressed_bytes_max"):
            node.log.partition("orders", 0).append(bomb(5 * BOUND, "zstd"), durable=True)
        assert offsets_read(tmp_path) == [0, 1]
    with running_node(tmp_path, settings(BOUND)):
        assert offsets_read(tmp_path) == [1], "the bound was lowered: nothing reads the first one any more"


def test_without_a_node_that_says_otherwise_the_bound_is_the_usual_one(tmp_path: Path) -> None:
    assert unpacked_bytes_max(None) == UNPACKED_BYTES_MAX
    assert unpacked_bytes_max(tmp_path) == UNPACKED_BYTES_MAX
