"""Whatever members do, in whatever order: what always holds of a group of the consumer protocol."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater import errors
from headwater.log.groups.consumer.assignors import PartitionId, TopicInfo
from headwater.log.groups.consumer.states import GroupState
from tests.log.groups.consumer.clients import BILLS, ORDERS, SESSION_MS, ClassicConsumer, Consumer, Coordinator

SUBSCRIPTIONS = (("orders",), ("orders", "bills"), ("bills",))
indices = st.integers(0, 7)


class Clients(RuleBasedStateMachine):
    """Clients of both protocols that come, stay silent, miss answers and leave; a disk that fails; a restart."""

    @initialize()
    def begin(self) -> None:
        self.here = Coordinator()
        self.clients: list[Consumer | ClassicConsumer] = []
        self.names = 0
        self.epoch = 0

    def _live(self) -> list[Consumer | ClassicConsumer]:
        return [client for client in self.clients if client.alive]

    def _one(self, index: int) -> Consumer | ClassicConsumer:
        return self._live()[index % len(self._live())]

    def _beat(self, client: Consumer | ClassicConsumer) -> None:
        try:
            client.beat()
        except errors.HeadwaterError:
            pass

    @rule(topics=st.sampled_from(SUBSCRIPTIONS), speaks_classic=st.booleans(), disk_fails=st.booleans())
    def a_client_starts(self, topics: tuple[str, ...], speaks_classic: bool, disk_fails: bool) -> None:
        self.names += 1
        made = ClassicConsumer if speaks_classic else Consumer
        self.clients.append(made(self.here, f"m{self.names}", topics))
        if disk_fails:
            self._beat_while_the_disk_fails(self.clients[-1])
        self._beat(self.clients[-1])

    @precondition(lambda self: self._live())
    @rule(index=indices)
    def a_client_beats(self, index: int) -> None:
        self._beat(self._one(index))

    @precondition(lambda self: any(isinstance(one, Consumer) for one in self._live()))
    @rule(index=indices)
    def an_answer_is_lost(self, index: int) -> None:
        consumers = [one for one in self._live() if isinstance(one, Consumer)]
        self.here.heartbeat(consumers[index % len(consumers)].request())

    @precondition(lambda self: any(isinstance(one, Consumer) for one in self._live()))
    @rule(index=indices)
    def a_client_is_slow_to_give_up(self, index: int) -> None:
        consumers = [one for one in self._live() if isinstance(one, Consumer)]
        try:
            consumers[index % len(consumers)].beat_slowly()
        except errors.HeadwaterError:
            pass

    @precondition(lambda self: self._live())
    @rule(index=indices)
    def a_client_leaves(self, index: int) -> None:
        self._one(index).leave()

    @precondition(lambda self: self._live())
    @rule(index=indices)
    def a_client_dies(self, index: int) -> None:
        client = self._one(index)
        client.alive, client.owned = False, frozenset()

    @rule(ms=st.sampled_from([1_000, SESSION_MS // 2]))
    def time_passes(self, ms: int) -> None:
        """Clients that live beat often enough; those that died expire."""
        self.here.pass_time(ms)
        for client in self._live():
            self._beat(client)

    @rule(more=st.integers(1, 3))
    def a_topic_grows(self, more: int) -> None:
        topic = self.here.topics.known["bills"]
        self.here.topics.known["bills"] = TopicInfo(topic.id, topic.partitions + more)

    @precondition(lambda self: self._live())
    @rule(index=indices)
    def the_disk_fails_once(self, index: int) -> None:
        self._beat_while_the_disk_fails(self._one(index))

    def _beat_while_the_disk_fails(self, client: Consumer | ClassicConsumer) -> None:
        self.here.saving = False
        self._beat_without_answer(client)
        while self.here.waiting:
            self.here.save(errors.DiskFull("__consumer_offsets", 0))
        self.here.saving = True

    def _beat_without_answer(self, client: Consumer | ClassicConsumer) -> None:
        if isinstance(client, Consumer):
            self.here.heartbeat(client.request())
        else:
            client.beat()

    @rule()
    def the_coordinator_restarts(self) -> None:
        self.here.restart()
        for client in self._live():
            member = self.here.group.members.get(client.id)
            if isinstance(client, Consumer) and client.epoch:
                assert member is not None, "a member that had an answer is saved"
                assert member.epoch >= client.epoch

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owned = [(one, client.id) for client in self.clients for one in client.owned]
        assert len({one for one, _ in owned}) == len(owned), owned
        held = [one for member in self.here.group.members for one in member.share.held]
        assert len(set(held)) == len(held)

    @invariant()
    def epochs_only_grow(self) -> None:
        group = self.here.group
        assert all(member.epoch <= group.epoch for member in group.members)

    @rule()
    def all_is_shared_out_when_all_beat(self) -> None:
        self.here.pass_time(SESSION_MS // 2)
        if all(isinstance(client, ClassicConsumer) for client in self._live()):
            for client in self._live():
                assert isinstance(client, ClassicConsumer)
                client.join()  # without others the group becomes a classic one, whose members all join again
        for _ in range(12):
            for client in self._live():
                self._beat(client)
            self.here.pass_time(SESSION_MS // 8)
        group, live = self.here.group, self._live()
        assert len(group.members) == len(live)
        assert group.state == (GroupState.STABLE if live else GroupState.EMPTY)
        wanted = {name for client in live for name in client.topics}
        everything = {
            PartitionId(topic.id, number)
            for name, topic in self.here.topics.known.items() if name in wanted
            for number in range(topic.partitions)
        }  # fmt: skip
        assert {one for client in live for one in client.owned} == everything
        ids = {"orders": ORDERS.id, "bills": BILLS.id}
        assert all({one.topic_id for one in client.owned} <= {ids[name] for name in client.topics} for client in live)
        if live and len({frozenset(client.topics) for client in live}) == 1:
            loads = [len(client.owned) for client in live]
            assert max(loads) - min(loads) <= 1


TestClients = Clients.TestCase
TestClients.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
