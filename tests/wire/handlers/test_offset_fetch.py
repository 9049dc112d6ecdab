from typing import Any

import pytest

from headwater.log.groups.offsets import CommittedOffset
from headwater.record import TopicPartition
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer

ONE_GROUP = [version for version in versions_of("offset_fetch") if version < 8]
NAMED = [version for version in versions_of("offset_fetch") if version < 10]


@pytest.fixture
def committed(group_server: RunningServer) -> None:
    group_server.log.group_offsets.commit("g", {TopicPartition("orders", 1): CommittedOffset(7, 2, "half way")})


def rows(topics: Any) -> list[tuple[str, int, int, str, str]]:
    return [
        (topic.name, one.partition_index, one.committed_offset, one.metadata, one.error_code.name)
        for topic in topics
        for one in topic.partitions
    ]


def fetched(caller: Caller, version: int, topics: Any) -> Any:
    """The topics of group g, and its error."""
    if version < 8:
        return caller.ask("offset_fetch", version, group_id="g", topics=topics)
    asked = [{"group_id": "g", "topics": topics}]
    return caller.ask("offset_fetch", version, groups=asked, require_stable=True).groups[0]


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("version", NAMED)
def test_what_was_committed_and_what_was_not(version: int, caller: Caller) -> None:
    answer = fetched(caller, version, [{"name": "orders", "partition_indexes": [0, 1]}])
    assert rows(answer.topics) == [("orders", 0, -1, "", "none"), ("orders", 1, 7, "half way", "none")]
    assert getattr(answer, "error_code", 0) == 0


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("version", NAMED[1:])
def test_all_there_is(version: int, caller: Caller) -> None:
    assert rows(fetched(caller, version, None).topics) == [("orders", 1, 7, "half way", "none")]


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("version", [5, 6, 7, 8, 9])
def test_the_leader_epoch_is_kept(version: int, caller: Caller) -> None:
    assert fetched(caller, version, None).topics[0].partitions[0].committed_leader_epoch == 2


@pytest.mark.usefixtures("committed")
def test_topics_by_their_ids(caller: Caller, group_server: RunningServer) -> None:
    topic_id = group_server.log.topic("orders").id
    (topic,) = fetched(caller, 10, [{"topic_id": topic_id, "partition_indexes": [1]}]).topics
    assert (topic.topic_id, topic.partitions[0].committed_offset) == (topic_id, 7)
    assert fetched(caller, 10, None).topics[0].topic_id == topic_id


def test_an_id_that_no_topic_has_is_unknown(caller: Caller, group_server: RunningServer) -> None:
    topic_id = group_server.log.create_topic("gone").id
    group_server.log.delete_topic("gone")
    (topic,) = fetched(caller, 10, [{"topic_id": topic_id, "partition_indexes": [0]}]).topics
    assert topic.partitions[0].error_code.name == "unknown_topic_id"


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("version", [8, 9])
def test_several_groups_at_once(version: int, caller: Caller) -> None:
    asked = [{"group_id": "g", "topics": None}, {"group_id": "h", "topics": None}]
    groups = caller.ask("offset_fetch", version, groups=asked).groups
    assert [(group.group_id, len(group.topics), group.error_code) for group in groups] == [("g", 1, 0), ("h", 0, 0)]
