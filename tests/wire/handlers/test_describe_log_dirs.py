from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema

from headwater.log.storage import LocalStorage
from headwater.record import Record
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer, running_server


def describe(topics: dict[str, tuple[int, ...]] | None = None, *, version: int = 4) -> Any:
    request_type: Any = load_request_schema(35, version)
    topic_type = request_type.__dataclass_fields__["topics"].type.__args__[0].__args__[0]
    if topics is None:
        return request_type(topics=None)
    return request_type(topics=tuple(topic_type(topic=name, partitions=numbers) for name, numbers in topics.items()))


@pytest.mark.parametrize("version", range(1, 6))
def test_sizes_are_reported_in_every_version(server: RunningServer, client: RawClient, version: int) -> None:
    server.log.create_topic("orders", partitions=2)
    server.log.append("orders", Record(b"x" * 1000), partition=1)
    (found,) = client.call(describe(version=version)).results
    (topic,) = [topic for topic in found.topics if topic.name == "orders"]
    sizes = {part.partition_index: part.partition_size for part in topic.partitions}
    assert sizes == {0: 0, 1: server.log.partition("orders", 1).size_bytes}


def test_only_what_is_asked_for_and_exists_is_reported(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("orders", partitions=2)
    (found,) = client.call(describe({"orders": (1, 9), "nowhere": (0,)})).results
    listed = {topic.name: [part.partition_index for part in topic.partitions] for topic in found.topics}
    assert listed == {"orders": [1], "nowhere": []}


def test_a_log_in_memory_has_no_disk(client: RawClient) -> None:
    (found,) = client.call(describe()).results
    assert (found.total_bytes, found.usable_bytes) == (-1, -1)


def test_room_on_the_disk_is_reported(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    with (
        running_server(storage=storage, path=str(tmp_path)) as server,
        RawClient(server.host, server.port) as client,
    ):
        (found,) = client.call(describe()).results
        assert 0 < found.usable_bytes <= found.total_bytes
        assert found.log_dir == str(tmp_path)
