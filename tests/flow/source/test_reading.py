from collections.abc import Iterator
from contextlib import closing

import pytest

from headwater.errors import OffsetOutOfRange, UnknownTopic
from headwater.flow.source.batch_plan.admission import Loss
from headwater.flow.source.reach import Reach
from headwater.flow.source.record_batches.files import Chunk
from headwater.flow.source.record_batches.reading import read_range
from headwater.flow.source.record_batches.records import decode_batches
from headwater.flow.source.splitting import Range
from headwater.node import Node
from headwater.testing import running_node
from tests.flow.source.writing import order, write


@pytest.fixture
def node() -> Iterator[Node]:
    with running_node() as node:
        node.log.create_topic("orders")
        write(node.kafka_address, "orders", {0: map(order, range(1000))})
        yield node


@pytest.fixture
def reach(node: Node) -> Iterator[Reach]:
    with closing(Reach(node.kafka_address, None, patience_seconds=0)) as reach:
        yield reach


def offsets_in(found: list[Chunk | Loss]) -> list[int]:
    return [
        offset
        for chunk in found
        if isinstance(chunk, Chunk)
        for offset in decode_batches(chunk.data, chunk.first, chunk.next_offset, headers=False).offsets.tolist()
    ]


@pytest.mark.parametrize("by_files", [True, False])
def test_a_range_is_the_same_from_files_and_over_the_network(node: Node, reach: Reach, by_files: bool) -> None:
    data = node.data if by_files else None
    found = list(read_range(Range("orders", 0, 123, 877), reach, data=data, account_losses=False))
    assert offsets_in(found) == list(range(123, 877))


def test_a_loss_is_a_loud_error(node: Node, reach: Reach) -> None:
    node.log.partition("orders", 0).delete_records(600)
    with pytest.raises(OffsetOutOfRange, match=r'Rows 100 to 599 were removed.*onLoss to "account"'):
        list(read_range(Range("orders", 0, 100, 900), reach, data=None, account_losses=False))


def test_a_loss_can_be_accounted(node: Node, reach: Reach) -> None:
    node.log.partition("orders", 0).delete_records(600)
    found = list(read_range(Range("orders", 0, 100, 900), reach, data=None, account_losses=True))
    assert found[0] == Loss(100, 600)
    assert offsets_in(found) == list(range(600, 900))


def test_a_range_that_is_lost_as_a_whole_ends_where_it_ends(node: Node, reach: Reach) -> None:
    node.log.partition("orders", 0).delete_records(600)
    found = list(read_range(Range("orders", 0, 100, 200), reach, data=None, account_losses=True))
    assert found == [Loss(100, 200)]


def test_a_log_that_ends_too_early_is_never_a_loss_to_account(node: Node, reach: Reach) -> None:
    with pytest.raises(OffsetOutOfRange, match="ends before it"):
        list(read_range(Range("orders", 0, 1500, 1600), reach, data=node.data, account_losses=True))


def test_a_topic_that_is_gone_is_said(reach: Reach) -> None:
    with pytest.raises(UnknownTopic):
        list(read_range(Range("nowhere", 0, 0, 10), reach, data=None, account_losses=True))
