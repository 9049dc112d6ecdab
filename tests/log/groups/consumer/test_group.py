"""One group of the consumer protocol, step by step."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from headwater import errors
from headwater.log.groups.consumer import classic
from headwater.log.groups.consumer.assignors import PartitionId, Partitions, TopicInfo
from headwater.log.groups.consumer.heartbeat import Heartbeat
from headwater.log.groups.consumer.states import NEXT_STATE, Event, GroupState, MemberState
from headwater.log.groups.member import Claim, Limits
from tests.log.groups.consumer.clients import (
    ORDERS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicConsumer,
    Consumer,
    Coordinator,
)

ALL = frozenset(PartitionId(ORDERS.id, number) for number in range(6))


@pytest.fixture
def here() -> Coordinator:
    return Coordinator()


def joining(member_id: str = "a", **more: object) -> Heartbeat:
    said = Heartbeat(member_id, 0, rebalance_timeout_ms=REBALANCE_MS, topics=("orders",), owned=frozenset())
    return said._replace(**more)  # type: ignore[arg-type]


def numbers(partitions: Partitions | None) -> list[int]:
    return sorted(one.number for one in partitions or ())


def settled(*clients: Consumer | ClassicConsumer) -> None:
    for _ in range(4):
        for client in clients:
            client.beat()


def test_the_table_has_every_state_and_event() -> None:
    assert set(NEXT_STATE) == {(state, event) for state in MemberState for event in Event}
    assert set(NEXT_STATE.values()) == set(MemberState)


def test_the_first_member_gets_everything_at_once(here: Coordinator) -> None:
    answer = Consumer(here, "a").beat()
    assert (answer.epoch, answer.assignment) == (1, ALL)
    assert here.group.state is GroupState.STABLE


def test_what_has_not_changed_is_not_said_again(here: Coordinator) -> None:
    client = Consumer(here, "a")
    client.beat()
    assert client.beat().assignment is None


def test_a_partition_is_given_only_after_it_was_given_up(here: Coordinator) -> None:
    first, second = Consumer(here, "a"), Consumer(here, "b")
    first.beat()
    assert second.beat().assignment == frozenset()
    first.beat_slowly()  # asked to give three up
    first.beat_slowly()  # it still owns them
    assert second.beat().assignment is None
    assert here.group.state is GroupState.RECONCILING
    first.beat()  # it has given them up
    assert numbers(second.beat().assignment) == [3, 4, 5]
    assert state_of(here) is GroupState.STABLE


def state_of(here: Coordinator) -> GroupState:
    return here.group.state


def test_a_member_that_does_not_give_up_in_time_is_removed(here: Coordinator) -> None:
    slow, other = Consumer(here, "a"), Consumer(here, "b")
    slow.beat()
    other.beat()
    for _ in range(4):
        slow.beat_slowly()
        here.pass_time(REBALANCE_MS // 4 + 1)
        other.beat()
    with pytest.raises(errors.UnknownMember):
        slow.beat()
    assert numbers(here.answer(other.request()).assignment or other.owned) == [0, 1, 2, 3, 4, 5]


def test_a_silent_member_is_removed(here: Coordinator) -> None:
    silent, other = Consumer(here, "a"), Consumer(here, "b")
    settled(silent, other)
    here.pass_time(SESSION_MS - 1)
    other.beat()
    here.pass_time(1)
    other.beat()
    assert other.owned == ALL


@pytest.mark.parametrize(("epoch", "fenced"), [(7, True), (-5, None), (0, True)])
def test_a_wrong_epoch_is_fenced(here: Coordinator, epoch: int, fenced: bool | None) -> None:
    first, second = Consumer(here, "a"), Consumer(here, "b")
    settled(first, second)
    request = first.request()._replace(epoch=epoch, rebalance_timeout_ms=1, topics=("orders",), owned=frozenset())
    with pytest.raises(errors.FencedMemberEpoch if fenced else errors.UsageError):
        here.answer(request)


def test_a_member_whose_answer_was_lost_may_ask_again(here: Coordinator) -> None:
    first, second = Consumer(here, "a"), Consumer(here, "b")
    first.beat()
    second.beat()
    asked = first.request()
    here.heartbeat(asked)  # the answer is lost: it said what is to be given up
    first.owned = frozenset(one for one in first.owned if one.number < 3)
    here.heartbeat(first.request())  # raises the epoch, and is lost too
    assert first.hear(here.heartbeat(first.request())) is not None
    assert first.epoch == 2


def test_an_answer_waits_for_the_disk(here: Coordinator) -> None:
    here.saving = False
    ticket = here.heartbeat(joining())
    assert ticket not in here.answers
    here.save()
    assert ticket in here.answers


def test_what_could_not_be_saved_is_saved_before_the_next_answer(here: Coordinator) -> None:
    here.saving = False
    refused = here.heartbeat(joining())
    here.save(errors.DiskFull("__consumer_offsets", 0))
    assert isinstance(here.answers[refused], errors.DiskFull)
    here.saving = True
    here.answer(joining())
    here.restart()
    member = here.group.members.get("a")
    assert member is not None
    assert (member.epoch, member.share.assigned) == (1, ALL)


def test_members_and_epochs_outlive_a_restart(here: Coordinator) -> None:
    clients: list[Consumer | ClassicConsumer] = [
        Consumer(here, "a", assignor="range"),
        Consumer(here, "b", instance_id="i"),
        ClassicConsumer(here, "c"),
    ]
    settled(*clients)
    before = [(one.id, one.data, one.share) for one in here.group.members], here.group.epoch, here.group.members.targets
    here.restart()
    group = here.group
    assert ([(one.id, one.data, one.share) for one in group.members], group.epoch, group.members.targets) == before
    settled(*clients)
    assert group.epoch == before[1]


def test_a_topic_that_grows_is_shared_out(here: Coordinator) -> None:
    client = Consumer(here, "a")
    client.beat()
    here.topics.known["orders"] = TopicInfo(ORDERS.id, 7)
    assert numbers(client.beat().assignment) == [0, 1, 2, 3, 4, 5, 6]


def test_a_topic_that_is_made_again_is_another_one(here: Coordinator) -> None:
    client = Consumer(here, "a")
    client.beat()
    here.topics.known["orders"] = TopicInfo(UUID(int=9), 2)
    client.beat()
    client.beat()
    assert client.owned == {PartitionId(UUID(int=9), 0), PartitionId(UUID(int=9), 1)}


def test_a_pattern_finds_topics_that_come_later(here: Coordinator) -> None:
    client = Consumer(here, "a", topics=(), pattern="or.*")
    client.beat()
    assert client.owned == ALL
    here.topics.known["orchids"] = TopicInfo(UUID(int=9), 1)
    client.beat()
    assert client.owned == ALL | {PartitionId(UUID(int=9), 0)}
    here.restart()
    client.beat()
    assert here.group.epoch == client.epoch == 2


def test_a_pattern_that_is_none_is_refused_and_changes_nothing(here: Coordinator) -> None:
    with pytest.raises(errors.InvalidPattern):
        here.answer(joining(pattern="("))
    assert here.group.state is GroupState.EMPTY


def test_a_static_member_comes_back_to_what_it_had(here: Coordinator) -> None:
    first, other = Consumer(here, "a", instance_id="i"), Consumer(here, "b")
    settled(first, other)
    had = first.owned
    with pytest.raises(errors.UnreleasedInstance):
        Consumer(here, "c", instance_id="i").beat()
    first.leave(epoch=-2)
    epoch = here.group.epoch
    other.beat()
    again = Consumer(here, "c", instance_id="i")
    again.beat()
    assert (again.owned, here.group.epoch) == (had, epoch)
    with pytest.raises(errors.FencedMember):
        here.answer(Heartbeat("a", epoch, instance_id="i"))


def test_a_static_member_that_stays_away_is_removed(here: Coordinator) -> None:
    first, other = Consumer(here, "a", instance_id="i"), Consumer(here, "b")
    settled(first, other)
    first.leave(epoch=-2)
    here.pass_time(SESSION_MS - 1)
    other.beat()
    here.pass_time(1)
    settled(other)
    assert other.owned == ALL


def test_a_leaving_member_frees_its_partitions(here: Coordinator) -> None:
    first, other = Consumer(here, "a"), Consumer(here, "b")
    settled(first, other)
    first.leave()
    assert numbers(other.beat().assignment) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "wrong",
    [
        {"rebalance_timeout_ms": None}, {"owned": None}, {"owned": ALL}, {"topics": None}, {"instance_id": ""},
        {"rack_id": " "}, {"member_id": ""}, {"assignor": "sticky"}, {"epoch": -3}, {"epoch": -2},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(here: Coordinator, wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.UsageError):
        here.answer(joining(**wrong))
    assert len(here.group.members) == 0


def test_a_full_group_takes_no_one_else(here: Coordinator) -> None:
    here = Coordinator(replace(Limits(), members_max=1))
    Consumer(here, "a").beat()
    with pytest.raises(errors.GroupFull):
        Consumer(here, "b").beat()


class TestCommits:
    def test_need_the_epoch_of_the_member(self, here: Coordinator) -> None:
        client = Consumer(here, "a")
        client.beat()
        here.group.check_commit(Claim("a", 1), 0)
        with pytest.raises(errors.StaleMemberEpoch):
            here.group.check_commit(Claim("a", 2), 0)
        with pytest.raises(errors.UnknownMember):
            here.group.check_commit(Claim("b", 1), 0)
        with pytest.raises(errors.UnknownMember):
            here.group.check_commit(Claim("", -1), 0)
        with pytest.raises(errors.UnsupportedRequest):
            here.group.check_commit(Claim("a", 1), 0, api_version=8)

    def test_of_a_classic_member_need_its_generation(self, here: Coordinator) -> None:
        settled(Consumer(here, "a"), ClassicConsumer(here, "b"))
        here.group.check_commit(Claim("b", here.group.epoch), 0, api_version=5)
        with pytest.raises(errors.StaleGeneration):
            here.group.check_commit(Claim("b", 1), 0)

    def test_to_a_group_without_members_need_no_member(self, here: Coordinator) -> None:
        here.group.check_commit(Claim("", -1), 0)

    def test_are_read_under_the_same_claim(self, here: Coordinator) -> None:
        Consumer(here, "a").beat()
        here.group.check_fetch(None, -1)
        here.group.check_fetch("a", 1)
        with pytest.raises(errors.StaleMemberEpoch):
            here.group.check_fetch("a", 0)
        with pytest.raises(errors.UnknownMember):
            here.group.check_fetch("b", 1)


class TestClassicMembers:
    def test_share_with_the_others(self, here: Coordinator) -> None:
        modern, old = Consumer(here, "a"), ClassicConsumer(here, "b")
        settled(modern, old)
        assert (numbers(modern.owned), numbers(old.owned)) == ([0, 1, 2], [3, 4, 5])

    def test_are_asked_to_join_again_when_others_come(self, here: Coordinator) -> None:
        old, modern = ClassicConsumer(here, "a"), Consumer(here, "b")
        old.join()
        assert old.owned == ALL
        assert modern.beat().assignment == frozenset()
        settled(old, modern)
        assert (numbers(old.owned), numbers(modern.owned)) == ([0, 1, 2], [3, 4, 5])

    def test_that_do_not_join_again_are_removed(self, here: Coordinator) -> None:
        old, modern = ClassicConsumer(here, "a"), Consumer(here, "b")
        old.join()
        modern.beat()
        for _ in range(4):
            with pytest.raises(errors.RebalanceUnderWay):
                classic.heartbeat(here.group, Claim("a", old.generation), here.now_ms)
            here.took(here.group.effects())
            here.pass_time(REBALANCE_MS // 4)
            modern.beat()
        modern.beat()
        assert modern.owned == ALL
