import pytest

from headwater.errors import FencedMember, RebalanceUnderWay, UnknownMember
from headwater.log.groups.effects import Answer
from headwater.log.groups.member import Member, Protocol
from headwater.log.groups.roster import Roster


def member(name: str, instance_id: str | None = None) -> Member:
    return Member(name, instance_id, "", "", 10_000, 10_000, (Protocol("range", b"12345"),), 0)


@pytest.fixture
def roster() -> Roster:
    return Roster("g")


def test_the_first_leads_until_it_goes(roster: Roster) -> None:
    first, second = member("a"), member("b")
    roster.insert(first)
    roster.insert(second)
    assert roster.leader_id == "a"
    roster.remove(first, UnknownMember("gone"))
    assert roster.leader_id == "b"
    roster.remove(second, UnknownMember("gone"))
    assert roster.leader_id is None


def test_a_newer_request_overtakes_an_older_one(roster: Roster) -> None:
    one = member("a")
    roster.insert(one)
    roster.wait_for_join(one, 1)
    roster.wait_for_join(one, 2)
    (answer,) = roster.answers
    assert answer.ticket == 1
    assert isinstance(answer.outcome, RebalanceUnderWay)
    assert roster.joins_waiting == 1


def test_a_removed_member_learns_why(roster: Roster) -> None:
    one, reason = member("a"), UnknownMember("gone")
    roster.insert(one)
    roster.wait_for_sync(one, 1)
    roster.remove(one, reason)
    assert roster.answers == [Answer(1, reason)]
    assert roster.withdraw(1) is None


def test_a_withdrawn_ticket_is_not_answered(roster: Roster) -> None:
    one = member("a")
    roster.insert(one)
    roster.wait_for_join(one, 1)
    assert roster.withdraw(1) is one
    roster.remove(one, UnknownMember("gone"))
    assert roster.answers == []
    assert roster.joins_waiting == 0


def test_an_instance_belongs_to_one_member(roster: Roster) -> None:
    roster.insert(member("a", "red"))
    roster.insert(member("b"))
    assert roster.known("a", "red").id == "a"
    assert roster.known("a", None).id == "a"
    with pytest.raises(FencedMember):
        roster.known("b", "red")
    with pytest.raises(UnknownMember):
        roster.known("b", "green")
    with pytest.raises(UnknownMember):
        roster.known("c", None)


def test_bytes_are_those_of_the_members_there(roster: Roster) -> None:
    one = member("a")
    roster.insert(one)
    assert roster.bytes > 5
    roster.remove(one, UnknownMember("gone"))
    assert roster.bytes == 0
