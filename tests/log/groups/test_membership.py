"""What a group answers its members, situation by situation."""

import pytest

from headwater import errors
from headwater.log.groups.group_state import State
from headwater.log.groups.member import Claim, Joined, Limits, Protocol, SavedGroup, Synced
from headwater.log.groups.membership import NEWCOMER_TIMEOUT_MS, Group
from tests.log.groups.conversation import (
    DELAY_MS,
    FORMING_MS,
    REBALANCE_MS,
    SESSION_MS,
    Conversation,
    group_in,
    subscription,
)

RANGE, STICKY = Protocol("range", b"r"), Protocol("sticky", b"s")


@pytest.fixture
def talk() -> Conversation:
    return Conversation()


class TestTheFirstMembers:
    def test_wait_for_each_other_before_the_first_generation(self, talk: Conversation) -> None:
        first = talk.ask_to_join()
        talk.pass_time(DELAY_MS - 1)
        assert first not in talk.answers
        talk.pass_time(1)
        assert talk.joined(first).generation == 1

    def test_each_newcomer_prolongs_the_wait_once(self, talk: Conversation) -> None:
        first = talk.ask_to_join()
        talk.pass_time(DELAY_MS - 1)
        second = talk.ask_to_join()
        talk.pass_time(DELAY_MS)
        assert first not in talk.answers
        talk.pass_time(1)
        assert talk.joined(first).generation == talk.joined(second).generation == 1

    def test_never_wait_longer_than_the_rebalance_timeout(self, talk: Conversation) -> None:
        first = talk.ask_to_join()
        for _ in range(REBALANCE_MS // 200):
            talk.pass_time(200)
            talk.ask_to_join()
        assert first in talk.answers

    def test_do_not_wait_where_no_delay_is_set(self) -> None:
        talk = Conversation(Limits(initial_delay_ms=0))
        assert talk.joined(talk.ask_to_join()).generation == 1

    def test_have_the_first_as_their_leader_who_alone_learns_of_the_others(self, talk: Conversation) -> None:
        first, second = talk.ask_to_join(protocols=(RANGE, STICKY)), talk.ask_to_join()
        talk.pass_time(FORMING_MS)
        leader, follower = talk.joined(first), talk.joined(second)
        assert leader.leader_id == follower.leader_id == leader.member_id
        assert [(member.id, member.metadata) for member in leader.members] == [
            (leader.member_id, b"r"),
            (follower.member_id, b"r"),
        ]
        assert follower.members == ()

    def test_get_the_shares_their_leader_brings(self, talk: Conversation) -> None:
        first, second = talk.ask_to_join(), talk.ask_to_join()
        talk.pass_time(FORMING_MS)
        leader, follower = talk.joined(first), talk.joined(second)
        waiting = talk.ask_to_sync(follower)
        assert waiting not in talk.answers
        brought = talk.ask_to_sync(leader, {leader.member_id: b"one", follower.member_id: b"two"})
        assert (talk.share(brought), talk.share(waiting)) == (b"one", b"two")
        assert talk.group.state is State.STABLE

    def test_get_an_empty_share_if_the_leader_forgot_them(self, talk: Conversation) -> None:
        first, second = talk.ask_to_join(), talk.ask_to_join()
        talk.pass_time(DELAY_MS * 3)
        talk.ask_to_sync(talk.joined(first), {"somebody else": b"x"})
        assert talk.share(talk.ask_to_sync(talk.joined(second))) == b""


class TestIdsGivenOutFirst:
    def test_a_newcomer_is_sent_back_with_an_id(self, talk: Conversation) -> None:
        refusal = talk.answers[talk.ask_to_join(id_required=True)]
        assert isinstance(refusal, errors.MemberIdRequired)
        ticket = talk.ask_to_join(refusal.member_id, id_required=True)
        talk.pass_time(DELAY_MS * 2)
        assert talk.joined(ticket).member_id == refusal.member_id

    def test_the_group_does_not_exist_before_its_id_is_used(self, talk: Conversation) -> None:
        talk.ask_to_join(id_required=True)
        assert talk.group.state is State.EMPTY
        assert not talk.group.forgettable
        talk.pass_time(SESSION_MS)
        assert talk.group.forgettable

    def test_an_id_that_was_not_used_in_time_is_unknown(self, talk: Conversation) -> None:
        refusal = talk.answers[talk.ask_to_join(id_required=True)]
        assert isinstance(refusal, errors.MemberIdRequired)
        talk.pass_time(SESSION_MS)
        assert isinstance(talk.answers[talk.ask_to_join(refusal.member_id)], errors.UnknownMember)

    def test_a_rebalance_waits_for_an_id_that_was_just_given_out(self, talk: Conversation) -> None:
        (leader,) = talk.formed(1)
        refusal = talk.answers[talk.ask_to_join(id_required=True)]
        assert isinstance(refusal, errors.MemberIdRequired)
        again = talk.ask_to_join(leader.member_id)
        assert again not in talk.answers
        newcomer = talk.ask_to_join(refusal.member_id)
        assert talk.joined(again).generation == talk.joined(newcomer).generation == 2

    def test_an_id_can_be_given_back(self, talk: Conversation) -> None:
        refusal = talk.answers[talk.ask_to_join(id_required=True)]
        assert isinstance(refusal, errors.MemberIdRequired)
        talk.leave(refusal.member_id)
        assert talk.group.forgettable


class TestJoiningAStableGroup:
    def test_makes_every_member_join_again(self, talk: Conversation) -> None:
        leader, follower = talk.formed(2)
        newcomer = talk.ask_to_join()
        assert talk.group.state is State.PREPARING
        for member in (leader, follower):
            with pytest.raises(errors.RebalanceUnderWay):
                talk.heartbeat(member)
        talk.ask_to_join(follower.member_id)
        assert newcomer not in talk.answers
        talk.ask_to_join(leader.member_id)
        assert talk.joined(newcomer).generation == 2

    def test_those_who_do_not_join_again_in_time_are_out(self, talk: Conversation) -> None:
        leader, follower = talk.formed(2, session_ms=1_000_000)
        newcomer = talk.ask_to_join()
        again = talk.ask_to_join(follower.member_id, session_ms=1_000_000)
        talk.pass_time(REBALANCE_MS)
        assert talk.joined(newcomer).leader_id == talk.joined(again).leader_id == follower.member_id
        with pytest.raises(errors.UnknownMember):
            talk.heartbeat(leader)

    def test_a_leader_that_joins_again_may_rebalance(self, talk: Conversation) -> None:
        leader, follower = talk.formed(2)
        talk.ask_to_join(leader.member_id)
        assert talk.group.state is State.PREPARING
        talk.ask_to_join(follower.member_id)
        assert talk.group.generation == 2

    def test_a_follower_that_only_missed_the_answer_gets_it_again(self, talk: Conversation) -> None:
        _, follower = talk.formed(2)
        again = talk.joined(talk.ask_to_join(follower.member_id))
        assert again == follower
        assert talk.share(talk.ask_to_sync(again)) == b"1"
        assert talk.group.state is State.STABLE

    def test_a_follower_that_wants_something_else_starts_a_rebalance(self, talk: Conversation) -> None:
        _, follower = talk.formed(2)
        talk.ask_to_join(follower.member_id, protocols=(Protocol("range", b"other topics"),))
        assert talk.group.state is State.PREPARING

    def test_an_unknown_member_gets_an_error(self, talk: Conversation) -> None:
        talk.formed(1)
        assert isinstance(talk.answers[talk.ask_to_join("ghost")], errors.UnknownMember)

    def test_without_a_common_protocol_is_refused(self, talk: Conversation) -> None:
        talk.formed(1)
        assert isinstance(talk.answers[talk.ask_to_join(protocols=(STICKY,))], errors.InconsistentProtocol)
        assert isinstance(talk.answers[talk.ask_to_join(protocol_type="connect")], errors.InconsistentProtocol)
        assert isinstance(talk.answers[talk.ask_to_join(protocols=())], errors.InconsistentProtocol)
        assert talk.group.state is State.STABLE

    def test_the_only_member_may_change_its_protocol(self, talk: Conversation) -> None:
        (leader,) = talk.formed(1)
        assert talk.joined(talk.ask_to_join(leader.member_id, protocols=(STICKY,))).protocol_name == "sticky"

    def test_members_vote_for_the_protocol(self, talk: Conversation) -> None:
        tickets = [talk.ask_to_join(protocols=order) for order in ((RANGE, STICKY), (STICKY, RANGE), (STICKY, RANGE))]
        talk.pass_time(REBALANCE_MS)
        assert {talk.joined(ticket).protocol_name for ticket in tickets} == {"sticky"}


class TestWhileTheLeaderSharesOut:
    @pytest.fixture
    def pair(self, talk: Conversation) -> tuple[Joined, Joined]:
        first, second = talk.ask_to_join(), talk.ask_to_join()
        talk.pass_time(DELAY_MS * 2)
        return talk.joined(first), talk.joined(second)

    def test_a_newcomer_sends_those_who_wait_back_to_join(
        self, talk: Conversation, pair: tuple[Joined, Joined]
    ) -> None:
        waiting = talk.ask_to_sync(pair[1])
        talk.ask_to_join()
        assert isinstance(talk.answers[waiting], errors.RebalanceUnderWay)
        assert isinstance(talk.answers[talk.ask_to_sync(pair[0])], errors.RebalanceUnderWay)

    def test_a_member_that_missed_its_answer_gets_it_again(
        self, talk: Conversation, pair: tuple[Joined, Joined]
    ) -> None:
        assert talk.joined(talk.ask_to_join(pair[0].member_id)) == pair[0]
        assert talk.group.state is State.COMPLETING

    def test_heartbeats_are_fine(self, talk: Conversation, pair: tuple[Joined, Joined]) -> None:
        talk.heartbeat(pair[0])

    def test_nothing_can_be_committed(self, talk: Conversation, pair: tuple[Joined, Joined]) -> None:
        with pytest.raises(errors.RebalanceUnderWay):
            talk.group.check_commit(Claim(pair[0].member_id, 1), talk.now_ms)

    def test_who_waits_with_an_older_request_is_let_go(self, talk: Conversation, pair: tuple[Joined, Joined]) -> None:
        older, newer = talk.ask_to_sync(pair[1]), talk.ask_to_sync(pair[1])
        assert isinstance(talk.answers[older], errors.RebalanceUnderWay)
        assert newer not in talk.answers

    def test_a_leader_that_never_shares_out_is_replaced(self, talk: Conversation, pair: tuple[Joined, Joined]) -> None:
        waiting = talk.ask_to_sync(pair[1])
        talk.pass_time(SESSION_MS)
        assert isinstance(talk.answers[waiting], errors.RebalanceUnderWay)
        again = talk.joined(talk.ask_to_join(pair[1].member_id))
        assert again.leader_id == pair[1].member_id

    def test_who_lives_but_never_asks_for_its_share_is_out(
        self, talk: Conversation, pair: tuple[Joined, Joined]
    ) -> None:
        talk.ask_to_sync(pair[0], {pair[0].member_id: b"all"})
        for _ in range(REBALANCE_MS // 1000):
            talk.heartbeat(pair[1])
            talk.heartbeat(pair[0])
            talk.pass_time(1000)
        with pytest.raises(errors.UnknownMember):
            talk.heartbeat(pair[1])

    def test_another_generation_or_protocol_is_refused(self, talk: Conversation, pair: tuple[Joined, Joined]) -> None:
        stale = pair[1]._replace(generation=7)
        assert isinstance(talk.answers[talk.ask_to_sync(stale)], errors.StaleGeneration)
        other = talk.ask_to_sync(pair[1], protocol_name="sticky")
        assert isinstance(talk.answers[other], errors.InconsistentProtocol)

    def test_members_of_other_types_need_not_be_consumers(self, talk: Conversation) -> None:
        other = Conversation()
        (leader,) = other.formed(1, protocol_type="connect")
        assert leader.protocol_type == "connect"


class TestSaving:
    def test_shares_are_given_out_only_once_they_are_saved(self, talk: Conversation) -> None:
        talk.saving = False
        ticket = talk.ask_to_join()
        talk.pass_time(DELAY_MS * 2)
        waiting = talk.ask_to_sync(talk.joined(ticket), {talk.joined(ticket).member_id: b"all"})
        (save,) = talk.saves
        assert waiting not in talk.answers
        assert [member.assignment for member in group_in(save).members] == [b"all"]
        talk.took(talk.group.saved(save.number, None, talk.now_ms))
        assert talk.share(waiting) == b"all"

    def test_a_save_that_comes_too_late_changes_nothing(self, talk: Conversation) -> None:
        talk.saving = False
        ticket = talk.ask_to_join()
        talk.pass_time(DELAY_MS * 2)
        talk.ask_to_sync(talk.joined(ticket))
        talk.ask_to_join()
        talk.took(talk.group.saved(talk.saves[0].number, None, talk.now_ms))
        assert talk.group.state is State.PREPARING

    def test_a_full_disk_does_not_stop_a_group(self, talk: Conversation) -> None:
        talk.saving = False
        ticket = talk.ask_to_join()
        talk.pass_time(DELAY_MS * 2)
        waiting = talk.ask_to_sync(talk.joined(ticket), {talk.joined(ticket).member_id: b"all"})
        talk.took(talk.group.saved(talk.saves[0].number, errors.DiskFull("t", 0), talk.now_ms))
        assert talk.share(waiting) == b"all"
        assert not talk.group.forgettable

    def test_static_members_wait_until_their_group_can_be_saved(self, talk: Conversation) -> None:
        talk.saving = False
        ticket = talk.ask_to_join(instance_id="a")
        talk.pass_time(DELAY_MS * 2)
        waiting = talk.ask_to_sync(talk.joined(ticket))
        talk.took(talk.group.saved(talk.saves[0].number, errors.DiskFull("t", 0), talk.now_ms))
        assert isinstance(talk.answers[waiting], errors.DiskFull)
        assert talk.group.state is State.PREPARING

    def test_no_member_waits_for_ever_for_a_disk_that_hangs(self, talk: Conversation) -> None:
        talk.saving = False
        ticket = talk.ask_to_join()
        talk.pass_time(DELAY_MS * 2)
        waiting = talk.ask_to_sync(talk.joined(ticket))
        talk.pass_time(REBALANCE_MS)
        assert isinstance(talk.answers[waiting], Synced)

    def test_a_group_that_became_empty_is_saved_too(self, talk: Conversation) -> None:
        (leader,) = talk.formed(1)
        talk.leave(leader.member_id)
        assert group_in(talk.saves[-1]) == SavedGroup("orders", "consumer", 2)
        assert talk.group.forgettable

    def test_members_continue_after_a_restart(self, talk: Conversation) -> None:
        leader, follower = talk.formed(2)
        restored = Conversation()
        restored.group = Group.restore(group_in(talk.saves[-1]), restored.limits, restored.now_ms)
        restored.wake_ms = restored.group.effects().wake_ms
        restored.pass_time(SESSION_MS - 1)
        restored.heartbeat(leader)
        restored.heartbeat(follower)
        assert restored.share(restored.ask_to_sync(follower)) == b"1"
        assert restored.group.describe() == talk.group.describe()

    def test_members_that_do_not_come_back_after_a_restart_expire(self, talk: Conversation) -> None:
        leader, follower = talk.formed(2)
        restored = Conversation()
        restored.group = Group.restore(group_in(talk.saves[-1]), restored.limits, restored.now_ms)
        restored.wake_ms = restored.group.effects().wake_ms
        restored.pass_time(SESSION_MS - 1)
        restored.heartbeat(follower)
        restored.pass_time(1)
        with pytest.raises(errors.RebalanceUnderWay):
            restored.heartbeat(follower)
        with pytest.raises(errors.UnknownMember):
            restored.heartbeat(leader)

    def test_generations_continue_counting_after_a_restart(self, talk: Conversation) -> None:
        talk.leave(talk.formed(1)[0].member_id)
        restored = Conversation()
        restored.group = Group.restore(group_in(talk.saves[-1]), restored.limits, restored.now_ms)
        assert restored.formed(1)[0].generation == 3


class TestSessions:
    def test_a_silent_member_is_out_after_its_session_timeout(self, talk: Conversation) -> None:
        leader, follower = talk.formed(2)
        talk.pass_time(SESSION_MS - 1)
        talk.heartbeat(leader)
        talk.pass_time(1)
        with pytest.raises(errors.UnknownMember):
            talk.heartbeat(follower)

    def test_commits_keep_a_member_alive(self, talk: Conversation) -> None:
        (leader,) = talk.formed(1)
        talk.pass_time(SESSION_MS - 1)
        talk.group.check_commit(Claim(leader.member_id, leader.generation), talk.now_ms)
        talk.pass_time(SESSION_MS - 1)
        talk.heartbeat(leader)

    def test_a_member_that_waits_to_join_need_not_send_heartbeats(self, talk: Conversation) -> None:
        leader, follower = talk.formed(2)
        talk.ask_to_join()
        waiting = talk.ask_to_join(leader.member_id)
        for _ in range(3):
            talk.pass_time(SESSION_MS - 1)
            with pytest.raises(errors.RebalanceUnderWay):
                talk.heartbeat(follower)
        assert waiting not in talk.answers
        talk.ask_to_join(follower.member_id)
        assert talk.joined(waiting).generation == 2

    def test_a_newcomer_whose_client_gave_up_does_not_stay(self) -> None:
        talk = Conversation(Limits(initial_delay_ms=10 * NEWCOMER_TIMEOUT_MS))
        ticket = talk.ask_to_join()
        talk.pass_time(NEWCOMER_TIMEOUT_MS)
        assert isinstance(talk.answers[ticket], errors.UnknownMember)
        assert talk.group.forgettable

    @pytest.mark.parametrize("session_ms", [0, -1, 999, 30 * 60_000 + 1])
    def test_a_session_timeout_has_bounds(self, talk: Conversation, session_ms: int) -> None:
        refusal = talk.answers[talk.ask_to_join(session_ms=session_ms)]
        assert isinstance(refusal, errors.InvalidSessionTimeout)


class TestLeaving:
    def test_the_others_rebalance(self, talk: Conversation) -> None:
        leader, follower = talk.formed(2)
        talk.leave(leader.member_id)
        with pytest.raises(errors.RebalanceUnderWay):
            talk.heartbeat(follower)
        again = talk.joined(talk.ask_to_join(follower.member_id))
        assert again.leader_id == follower.member_id

    def test_a_member_that_waits_and_leaves_is_answered(self, talk: Conversation) -> None:
        leader, _ = talk.formed(2)
        waiting = talk.ask_to_join(leader.member_id)
        talk.leave(leader.member_id)
        assert isinstance(talk.answers[waiting], errors.UnknownMember)

    def test_the_last_to_leave_may_complete_a_rebalance(self, talk: Conversation) -> None:
        leader, follower = talk.formed(2)
        waiting = talk.ask_to_join(leader.member_id)
        talk.leave(follower.member_id)
        assert talk.joined(waiting).generation == 2

    def test_an_unknown_member_cannot_leave(self, talk: Conversation) -> None:
        with pytest.raises(errors.UnknownMember):
            talk.leave("ghost")

    def test_a_group_without_members_is_empty(self, talk: Conversation) -> None:
        talk.leave(talk.formed(1)[0].member_id)
        assert talk.group.describe()[:4] == ("orders", "Empty", "consumer", "")


class TestConnectionsThatClose:
    def test_a_newcomer_is_forgotten(self, talk: Conversation) -> None:
        ticket = talk.ask_to_join()
        talk.took(talk.group.abandon(ticket, talk.now_ms))
        assert talk.group.forgettable

    def test_a_member_has_its_session_timeout_to_come_back(self, talk: Conversation) -> None:
        leader, follower = talk.formed(2)
        abandoned = talk.ask_to_join(leader.member_id)
        talk.took(talk.group.abandon(abandoned, talk.now_ms))
        waiting = talk.ask_to_join(follower.member_id)
        talk.pass_time(SESSION_MS - 1)
        assert waiting not in talk.answers
        talk.pass_time(1)
        assert talk.joined(waiting).leader_id == follower.member_id

    def test_a_share_can_be_asked_for_again(self, talk: Conversation) -> None:
        first, second = talk.ask_to_join(), talk.ask_to_join()
        talk.pass_time(DELAY_MS * 3)
        leader, follower = talk.joined(first), talk.joined(second)
        abandoned = talk.ask_to_sync(follower)
        talk.took(talk.group.abandon(abandoned, talk.now_ms))
        talk.ask_to_sync(leader, {follower.member_id: b"two"})
        assert talk.share(talk.ask_to_sync(follower)) == b"two"
        assert abandoned not in talk.answers

    def test_an_unknown_ticket_is_ignored(self, talk: Conversation) -> None:
        talk.took(talk.group.abandon(99, talk.now_ms))


class TestStaticMembers:
    def formed(self, talk: Conversation, *instances: str, **join: object) -> dict[str, Joined]:
        tickets = [talk.ask_to_join(instance_id=instance, **join) for instance in instances]  # type: ignore[arg-type]
        talk.pass_time(FORMING_MS)
        talk.shared_out(tickets)
        return {instance: talk.joined(ticket) for instance, ticket in zip(instances, tickets, strict=True)}

    def test_one_that_comes_back_keeps_its_share_without_a_rebalance(self, talk: Conversation) -> None:
        self.formed(talk, "a", "b")
        back = talk.joined(talk.ask_to_join(instance_id="b"))
        assert talk.group.state is State.STABLE
        assert (back.generation, back.members, back.skip_assignment) == (1, (), False)
        assert talk.share(talk.ask_to_sync(back, instance_id="b")) == b"1"

    def test_a_leader_that_rejoins_keeps_the_assignment(self, talk: Conversation) -> None:
        self.formed(talk, "a", "b")
        back = talk.joined(talk.ask_to_join(instance_id="a"))
        assert back.leader_id == back.member_id
        assert back.skip_assignment
        assert len(back.members) == 2

    def test_a_leader_with_an_older_client_does_not_learn_that_it_leads(self, talk: Conversation) -> None:
        before = self.formed(talk, "a", "b")
        back = talk.joined(talk.ask_to_join(instance_id="a", can_skip_assignment=False))
        assert back.leader_id == before["a"].member_id != back.member_id
        assert back.members == ()
        assert talk.share(talk.ask_to_sync(back, instance_id="a")) == b"0"

    def test_the_new_id_is_saved_before_it_is_sent(self, talk: Conversation) -> None:
        self.formed(talk, "a")
        talk.saving = False
        ticket = talk.ask_to_join(instance_id="a")
        assert ticket not in talk.answers
        save = talk.saves[-1]
        talk.took(talk.group.saved(save.number, None, talk.now_ms))
        assert [member.id for member in group_in(save).members] == [talk.joined(ticket).member_id]
        assert [member.assignment for member in group_in(save).members] == [b"0"]

    def test_its_former_self_is_fenced(self, talk: Conversation) -> None:
        before = self.formed(talk, "a", "b")["b"]
        talk.ask_to_join(instance_id="b")
        with pytest.raises(errors.FencedMember):
            talk.heartbeat(before, "b")
        with pytest.raises(errors.FencedMember):
            talk.group.check_commit(Claim(before.member_id, 1, "b"), talk.now_ms)
        with pytest.raises(errors.FencedMember):
            talk.leave(before.member_id, "b")
        assert isinstance(talk.answers[talk.ask_to_sync(before, instance_id="b")], errors.FencedMember)
        refusal = talk.answers[talk.ask_to_join(before.member_id, instance_id="b")]
        assert isinstance(refusal, errors.FencedMember)

    def test_its_former_self_is_fenced_while_it_waits(self, talk: Conversation) -> None:
        ticket = talk.ask_to_join(instance_id="a")
        talk.ask_to_join(instance_id="a")
        assert isinstance(talk.answers[ticket], errors.FencedMember)

    def test_one_that_comes_back_with_other_topics_starts_a_rebalance(self, talk: Conversation) -> None:
        self.formed(talk, "a", protocols=(Protocol("range", subscription("orders")),))
        talk.ask_to_join(instance_id="a", protocols=(Protocol("range", subscription("orders", "clicks")),))
        assert talk.group.generation == 2

    def test_one_that_comes_back_while_others_share_out_starts_a_rebalance(self, talk: Conversation) -> None:
        talk.ask_to_join(instance_id="a")
        talk.pass_time(FORMING_MS)
        assert talk.group.state is State.COMPLETING
        ticket = talk.ask_to_join(instance_id="a")
        assert talk.joined(ticket).generation == 2

    def test_may_be_away_during_a_rebalance(self, talk: Conversation) -> None:
        joined = self.formed(talk, "a", "b", session_ms=10 * REBALANCE_MS)
        waiting = talk.ask_to_join(joined["a"].member_id, instance_id="a", session_ms=10 * REBALANCE_MS)
        talk.pass_time(REBALANCE_MS)
        assert [member.instance_id for member in talk.joined(waiting).members] == ["a", "b"]

    def test_another_member_leads_while_the_leader_is_away(self, talk: Conversation) -> None:
        joined = self.formed(talk, "a", "b", session_ms=10 * REBALANCE_MS)
        protocols = (Protocol("range", b"changed"),)
        again = talk.ask_to_join(
            joined["b"].member_id, instance_id="b", protocols=protocols, session_ms=10 * REBALANCE_MS
        )
        talk.pass_time(REBALANCE_MS)
        assert talk.joined(again).leader_id == joined["b"].member_id
        assert len(talk.joined(again).members) == 2

    def test_all_away_are_waited_for_until_their_sessions_end(self, talk: Conversation) -> None:
        joined = self.formed(talk, "a", "b", session_ms=3 * REBALANCE_MS)
        talk.leave(joined["a"].member_id)
        talk.pass_time(2 * REBALANCE_MS)
        assert talk.group.describe().state == "PreparingRebalance"
        talk.pass_time(REBALANCE_MS)
        assert talk.group.describe().state == "Empty"

    def test_may_be_removed_by_an_operator_who_knows_only_the_instance(self, talk: Conversation) -> None:
        self.formed(talk, "a")
        talk.leave("", "a")
        assert talk.group.state is State.EMPTY
        with pytest.raises(errors.UnknownMember):
            talk.leave("", "a")

    def test_never_need_to_be_sent_back_with_an_id(self, talk: Conversation) -> None:
        ticket = talk.ask_to_join(instance_id="a", id_required=True)
        talk.pass_time(DELAY_MS * 2)
        assert talk.joined(ticket).generation == 1

    def test_an_unknown_instance_gets_an_error(self, talk: Conversation) -> None:
        (leader,) = talk.formed(1)
        with pytest.raises(errors.UnknownMember):
            talk.heartbeat(leader, "stranger")


class TestCommits:
    def test_any_client_may_commit_to_an_empty_group(self, talk: Conversation) -> None:
        talk.group.check_commit(Claim("", -1), talk.now_ms)

    def test_only_members_may_commit_to_a_group_with_members(self, talk: Conversation) -> None:
        (leader,) = talk.formed(1)
        talk.group.check_commit(Claim(leader.member_id, 1), talk.now_ms)
        with pytest.raises(errors.UnknownMember):
            talk.group.check_commit(Claim("", -1), talk.now_ms)
        with pytest.raises(errors.UnknownMember):
            talk.group.check_commit(Claim("ghost", 1), talk.now_ms)
        with pytest.raises(errors.StaleGeneration):
            talk.group.check_commit(Claim(leader.member_id, 0), talk.now_ms)
        with pytest.raises(errors.StaleGeneration):
            talk.group.check_commit(Claim(leader.member_id, -1), talk.now_ms)

    def test_a_member_may_commit_before_it_joins_again(self, talk: Conversation) -> None:
        leader, _ = talk.formed(2)
        talk.ask_to_join()
        talk.group.check_commit(Claim(leader.member_id, 1), talk.now_ms)

    def test_a_former_member_cannot_commit_to_an_empty_group(self, talk: Conversation) -> None:
        (leader,) = talk.formed(1)
        talk.leave(leader.member_id)
        with pytest.raises(errors.UnknownMember):
            talk.group.check_commit(Claim(leader.member_id, 1), talk.now_ms)


class TestBounds:
    def test_a_full_group_takes_no_member(self) -> None:
        talk = Conversation(Limits(members_max=2, initial_delay_ms=DELAY_MS))
        leader, _ = talk.formed(2)
        assert isinstance(talk.answers[talk.ask_to_join()], errors.GroupFull)
        talk.ask_to_join(leader.member_id)
        assert talk.group.state is State.PREPARING

    def test_ids_given_out_have_the_same_bound(self) -> None:
        talk = Conversation(Limits(members_max=2, initial_delay_ms=DELAY_MS))
        tickets = [talk.ask_to_join(id_required=True) for _ in range(3)]
        kinds = [type(talk.answers[ticket]) for ticket in tickets]
        assert kinds == [errors.MemberIdRequired, errors.MemberIdRequired, errors.GroupFull]

    def test_metadata_has_a_bound(self) -> None:
        talk = Conversation(Limits(bytes_max=1000))
        big = (Protocol("range", bytes(600)),)
        talk.ask_to_join(protocols=big)
        assert isinstance(talk.answers[talk.ask_to_join(protocols=big)], errors.GroupFull)

    def test_shares_have_a_bound(self) -> None:
        talk = Conversation(Limits(bytes_max=1000, initial_delay_ms=0))
        leader = talk.joined(talk.ask_to_join())
        refusal = talk.answers[talk.ask_to_sync(leader, {leader.member_id: bytes(1000)})]
        assert isinstance(refusal, errors.GroupFull)


class TestWhatOthersSee:
    def test_members_and_shares_of_a_stable_group(self, talk: Conversation) -> None:
        talk.formed(1)
        described = talk.group.describe()
        assert described[:4] == ("orders", "Stable", "consumer", "range")
        assert described.members == (("member-1", None, "test", "/127.0.0.1", b"r", b"0"),)

    def test_no_shares_while_the_group_is_not_stable(self, talk: Conversation) -> None:
        talk.formed(2)
        talk.ask_to_join()
        described = talk.group.describe()
        assert (described.state, described.protocol_name) == ("PreparingRebalance", "")
        assert {(member.metadata, member.assignment) for member in described.members} == {(b"", b"")}

    def test_which_topics_are_read(self, talk: Conversation) -> None:
        talk.formed(1, protocols=(Protocol("range", subscription("orders")),))
        assert talk.group.subscribes("orders")
        assert not talk.group.subscribes("clicks")

    def test_a_member_we_cannot_understand_may_read_anything(self, talk: Conversation) -> None:
        talk.formed(1)
        assert talk.group.subscribes("clicks")

    def test_a_group_with_members_cannot_be_removed(self, talk: Conversation) -> None:
        talk.formed(1)
        with pytest.raises(errors.GroupNotEmpty):
            talk.group.remove()

    def test_a_removed_group_is_dead(self, talk: Conversation) -> None:
        talk.group.remove()
        assert talk.group.state is State.DEAD
        assert talk.group.forgettable
