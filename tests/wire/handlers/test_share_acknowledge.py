import pytest

from headwater.record import Record
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer
from tests.wire.share_requests import ACCEPT, GAP, RENEW, Member, acquired, one

VERSIONS = versions_of("share_acknowledge")


@pytest.fixture
def member(caller: Caller, group_server: RunningServer) -> Member:
    """It holds four messages."""
    group_server.log.queues.ensure("g", {"share.auto.offset.reset": "earliest"})
    group_server.log.append("orders", [Record(b"v")] * 4, partition=0)
    member = Member(caller, group_server)
    member.fetch()
    return member


@pytest.mark.parametrize("version", VERSIONS)
def test_acknowledged_messages_are_done_durably(version: int, member: Member, group_server: RunningServer) -> None:
    answer = member.acknowledge((0, 2, ACCEPT, GAP, ACCEPT), version=version)
    assert (answer.error_code, one(answer).error_code) == (0, 0)
    found = group_server.log.queues.get("g").describe()[0]
    assert (found.start, found.totals.acknowledged, found.depth) == (3, 2, 1)


def test_locks_are_renewed_where_the_request_says_so(member: Member) -> None:
    assert one(member.acknowledge((0, 3, RENEW))).error_code.name == "invalid_request"
    answer = member.acknowledge((0, 3, RENEW), is_renew_ack=True)
    assert (one(answer).error_code, answer.acquisition_lock_timeout.total_seconds()) == (0, 30)


def test_only_a_fetch_begins_a_session(member: Member) -> None:
    assert member.acknowledge(epoch=0).error_code.name == "invalid_share_session_epoch"
    assert member.acknowledge(epoch=9).error_code.name == "invalid_share_session_epoch"


def test_the_last_one_gives_back_the_rest(member: Member, caller: Caller, group_server: RunningServer) -> None:
    assert member.acknowledge((0, 1, ACCEPT), epoch=-1).error_code == 0
    assert acquired(Member(caller, group_server, "other").fetch()) == [(2, 3, 2)]
    assert member.acknowledge((2, 2, ACCEPT), epoch=2).error_code.name == "share_session_not_found"
