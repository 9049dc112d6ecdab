"""A group of the consumer protocol and clients that talk to it as the real ones do, for tests."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

from headwater import errors
from headwater.log.groups.consumer import classic
from headwater.log.groups.consumer.assignors import PartitionId, Partitions, TopicInfo
from headwater.log.groups.consumer.group import ConsumerGroup
from headwater.log.groups.consumer.heartbeat import Heartbeat, HeartbeatAnswer
from headwater.log.groups.consumer.protocol import read_assignment, write_subscription
from headwater.log.groups.consumer.records import (
    StateKey,
    StateValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from headwater.log.groups.effects import Effects, Outcome, Save
from headwater.log.groups.member import Claim, Join, Joined, Limits, Protocol, Sync, Synced

SESSION_MS = 45_000
REBALANCE_MS = 60_000
ORDERS, BILLS = TopicInfo(UUID(int=1), 6), TopicInfo(UUID(int=2), 3)


@dataclass
class Topics:
    """A catalog of topics; a pattern matches by its beginning."""

    known: dict[str, TopicInfo] = field(default_factory=lambda: {"orders": ORDERS, "bills": BILLS})

    def find(self, name: str) -> TopicInfo | None:
        return self.known.get(name)

    def names(self) -> frozenset[str]:
        return frozenset(self.known)

    def matching(self, pattern: str) -> frozenset[str]:
        if pattern == "(":
            raise errors.InvalidPattern("no pattern")
        return frozenset(name for name in self.known if name.startswith(pattern.rstrip(".*")))


class Coordinator:
    """The group, its disk and its clock. What it asks to be saved is saved at once, unless `saving` is off."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits(consumer_session_timeout_ms=SESSION_MS)
        self.topics = Topics()
        self.group = ConsumerGroup("g", self.limits)
        self.now_ms = 1_000
        self.saving = True
        self.waiting: list[Save] = []
        self.disk: dict[bytes, bytes] = {}
        self.answers: dict[int, Outcome] = {}
        self._tickets = count(1)
        self.wake_ms: int | None = None

    def took(self, effects: Effects) -> None:
        for ticket, outcome in effects.answers:
            assert ticket not in self.answers, "a ticket is answered once"
            self.answers[ticket] = outcome
        self.waiting += effects.saves
        self.wake_ms = effects.wake_ms
        while self.saving and self.waiting:
            self.save()

    def save(self, failure: errors.HeadwaterError | None = None) -> None:
        """The oldest save becomes durable, or fails."""
        save = self.waiting.pop(0)
        for key, value in save.entries if failure is None else ():
            assert isinstance(key, StateKey)
            self.disk.pop(encode_key(key), None)
            if value is not None:
                self.disk[encode_key(key)] = encode_value(value)  # type: ignore[arg-type]
        self.took(self.group.saved(save.number, failure, self.now_ms))

    def restart(self) -> None:
        """Only what was saved is left."""
        saved: dict[StateKey, StateValue] = {}
        for key_bytes, value in self.disk.items():
            key = decode_key(key_bytes)
            assert key is not None
            saved[key] = decode_value(key, value)
        self.waiting = []
        self.group = ConsumerGroup.restore("g", saved, self.limits, self.topics, self.now_ms)

    def ticket(self) -> int:
        return next(self._tickets)

    def heartbeat(self, request: Heartbeat) -> int:
        ticket = self.ticket()
        self.took(self.group.heartbeat(request, self.topics, ticket, self.now_ms))
        return ticket

    def answer(self, request: Heartbeat) -> HeartbeatAnswer:
        outcome = self.answers[self.heartbeat(request)]
        if isinstance(outcome, errors.HeadwaterError):
            raise outcome
        assert isinstance(outcome, HeartbeatAnswer)
        return outcome

    def pass_time(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self.wake_ms is not None and self.wake_ms <= end_ms:
            self.now_ms = max(self.now_ms, self.wake_ms)
            self.took(self.group.tick(self.now_ms))
        self.now_ms = end_ms


class Consumer:
    """A client of the consumer protocol: it gives up at once what it is asked for."""

    def __init__(self, coordinator: Coordinator, id: str, topics: Iterable[str] = ("orders",), **more: str) -> None:
        self.coordinator, self.id, self.topics, self.more = coordinator, id, tuple(topics), more
        self.epoch = 0
        self.owned: Partitions = frozenset()
        self.not_taken_in: Partitions | None = None
        """What it was assigned, while it is slow to give up what it had."""
        self.alive = True

    def beat(self) -> HeartbeatAnswer:
        """One heartbeat. A fenced member abandons what it owns."""
        self.take_in()
        answer = self.hear(self.coordinator.heartbeat(self.request()))
        assert answer is not None
        return answer

    def beat_slowly(self) -> None:
        """A heartbeat whose answer has no effect before the next but one."""
        before = self.owned
        self.hear(self.coordinator.heartbeat(self.request()))
        self.not_taken_in = self.owned if self.not_taken_in is None or self.owned != before else self.not_taken_in
        self.owned = before

    def take_in(self) -> None:
        self.owned = self.owned if self.not_taken_in is None else self.not_taken_in
        self.not_taken_in = None

    def request(self) -> Heartbeat:
        joining = self.epoch == 0
        return Heartbeat(
            self.id, self.epoch, rebalance_timeout_ms=REBALANCE_MS if joining else None,
            topics=self.topics if joining else None, owned=self.owned, instance_id=self.more.get("instance_id"),
            pattern=self.more.get("pattern") if joining else None, assignor=self.more.get("assignor"),
        )  # fmt: skip

    def hear(self, ticket: int) -> HeartbeatAnswer | None:
        """Take in the answer, if there is one."""
        outcome = self.coordinator.answers.get(ticket)
        if isinstance(outcome, errors.FencedMemberEpoch | errors.UnknownMember):
            self.epoch, self.owned, self.not_taken_in = 0, frozenset(), None
            raise outcome
        if isinstance(outcome, errors.HeadwaterError):
            raise outcome
        if isinstance(outcome, HeartbeatAnswer):
            self.epoch = outcome.epoch
            self.owned = self.owned if outcome.assignment is None else outcome.assignment
            return outcome
        return None

    def leave(self, *, epoch: int = -1) -> None:
        request = Heartbeat(self.id, epoch, instance_id=self.more.get("instance_id"))
        self.coordinator.heartbeat(request)
        self.epoch, self.owned, self.alive = 0, frozenset(), False


class ClassicConsumer:
    """A client of the classic protocol that gives everything up before it joins again."""

    def __init__(self, coordinator: Coordinator, id: str, topics: Iterable[str] = ("orders",)) -> None:
        self.coordinator, self.id, self.topics = coordinator, id, tuple(topics)
        self.generation = -1
        self.owned: Partitions = frozenset()
        self.alive = True

    def beat(self) -> None:
        """A heartbeat; where it must, it joins again and asks for its assignment."""
        claim = Claim(self.id, self.generation)
        try:
            classic.heartbeat(self.coordinator.group, claim, self.coordinator.now_ms)
            rejoins = False
        except (errors.RebalanceUnderWay, errors.UnknownMember, errors.StaleGeneration):
            rejoins = True
        self.coordinator.took(self.coordinator.group.effects())
        if rejoins:
            self.join()

    def join(self) -> None:
        self.owned = frozenset()
        here = self.coordinator
        request = Join(
            protocol_type="consumer", protocols=(Protocol("range", write_subscription(self.topics)),),
            session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS, fresh_id=self.id, member_id=self.id,
        )  # fmt: skip
        ticket = here.ticket()
        here.took(classic.join(here.group, request, here.topics, ticket, here.now_ms))
        joined = here.answers.get(ticket)
        if not isinstance(joined, Joined):
            return
        self.generation = joined.generation
        ticket = here.ticket()
        sync = Sync(Claim(self.id, self.generation), {}, "consumer", "range")
        here.took(classic.sync(here.group, sync, ticket, here.now_ms))
        synced = here.answers.get(ticket)
        if isinstance(synced, Synced):
            found = ((here.topics.known[name], number) for name, number in read_assignment(synced.assignment))
            self.owned = frozenset(PartitionId(topic.id, number) for topic, number in found)

    def leave(self) -> None:
        here = self.coordinator
        try:
            here.took(classic.leave(here.group, self.id, None, here.now_ms))
        except errors.UnknownMember:
            pass
        self.generation, self.owned, self.alive = -1, frozenset(), False
