from collections.abc import Callable
from typing import Any

import pytest

from headwater.log.batch_format import read_header
from headwater.record import Record
from tests.wire.group_requests import Caller, versions_of
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer
from tests.wire.share_requests import ACCEPT, REJECT, RELEASE, Member, acquired, one

VERSIONS = versions_of("share_fetch")
MakeMember = Callable[..., Member]


@pytest.fixture
def make_member(caller: Caller, group_server: RunningServer) -> MakeMember:
    """With six messages, in batches of two, from the first of which on its group delivers."""
    group_server.log.queues.ensure("g", {"share.auto.offset.reset": "earliest"})
    for _ in range(3):
        group_server.log.append("orders", [Record(b"v"), Record(b"v")], partition=0)
    return lambda name="m", caller=caller: Member(caller, group_server, name)


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_come_with_their_batches_and_counts(version: int, make_member: MakeMember) -> None:
    answer = make_member().fetch(version=version)
    partition = one(answer)
    assert (answer.error_code, partition.error_code, partition.acknowledge_error_code) == (0, 0, 0)
    assert acquired(answer) == [(0, 5, 1)]
    assert read_header(partition.records).base_offset == 0
    assert answer.acquisition_lock_timeout.total_seconds() == 30


@pytest.mark.parametrize("version", VERSIONS)
def test_acknowledgements_of_all_kinds_travel_with_the_next_fetch(version: int, make_member: MakeMember) -> None:
    member = make_member()
    member.fetch(version=version)
    answer = member.fetch(version=version, batches=[(0, 2, ACCEPT, RELEASE, REJECT), (3, 4, ACCEPT)])
    assert one(answer).acknowledge_error_code == 0
    assert acquired(answer) == [(1, 1, 2)]


def test_a_batch_that_was_begun_is_taken_whole_unless_the_client_is_strict(make_member: MakeMember) -> None:
    assert acquired(make_member("a").fetch(max_records=3)) == [(0, 3, 1)]
    assert acquired(make_member("b").fetch(max_records=1, share_acquire_mode=1)) == [(4, 4, 1)]


def test_what_another_holds_cannot_be_acknowledged(make_member: MakeMember) -> None:
    make_member("a").fetch()
    other = make_member("b")
    other.fetch()
    assert one(other.fetch(batches=[(0, 0, ACCEPT)])).acknowledge_error_code == 121


@pytest.mark.parametrize(
    "batches", [[(1, 0, ACCEPT)], [(0, 0, 9)], [(0, 2, ACCEPT, ACCEPT)], [(2, 3, ACCEPT), (0, 1, ACCEPT)], [(0, 0, 4)]]
)
def test_acknowledgements_that_make_no_sense_are_refused(batches: Any, make_member: MakeMember) -> None:
    member = make_member()
    member.fetch()
    assert one(member.fetch(batches=batches)).acknowledge_error_code == 42


def test_sessions_are_counted(make_member: MakeMember) -> None:
    member = make_member()
    assert member.fetch(epoch=1).error_code.name == "share_session_not_found"
    assert member.fetch(batches=[(0, 0, ACCEPT)]).error_code.name == "invalid_request"
    member.fetch(epoch=0)
    assert member.fetch(epoch=7).error_code.name == "invalid_share_session_epoch"


def test_the_last_fetch_gives_back_what_was_not_acknowledged(make_member: MakeMember) -> None:
    member, other = make_member("a"), make_member("b")
    member.fetch()
    assert acquired(member.fetch(epoch=-1, batches=[(0, 3, ACCEPT)])) == []
    assert acquired(other.fetch()) == [(4, 5, 2)]


def test_messages_of_a_connection_that_ended_go_to_others(group_server: RunningServer, make_member: MakeMember) -> None:
    with RawClient(group_server.host, group_server.port) as client:
        assert acquired(make_member("a", Caller(client)).fetch()) == [(0, 5, 1)]
    other, found = make_member("b"), list[Any]()
    while not found:
        found = acquired(other.fetch())
    assert found == [(0, 5, 2)]


def test_an_unknown_topic_is_named_by_its_id(make_member: MakeMember) -> None:
    member = make_member()
    nowhere = [{"topic_id": member.topic_id.__class__(int=7), "partitions": [{"partition_index": 0,
               "acknowledgement_batches": []}]}]  # fmt: skip
    assert one(member.fetch(topics=nowhere)).error_code.name == "unknown_topic_id"


def test_a_batch_comes_once_however_many_of_its_messages_wait_for_their_time(
    caller: Caller, group_server: RunningServer
) -> None:
    configs = {"share.auto.offset.reset": "earliest", "headwater.queue.headers": "true"}
    group_server.log.queues.ensure("g", configs)
    later = (("headwater.deliver.at", b"9" * 15),)
    group_server.log.append("orders", [Record(b"late", headers=later), *[Record(b"v")] * 3], partition=0)
    answer = Member(caller, group_server).fetch(max_records=2)
    assert acquired(answer) == [(1, 2, 1)]
    records = one(answer).records
    assert len(records) == read_header(records).size
