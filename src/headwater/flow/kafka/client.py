"""Topics of a log behind a Kafka port: Apache Kafka's, ours, or anything that speaks the protocol.

Blocking and not thread-safe. A request goes to the broker that leads the partition or coordinates the group. If a
connection breaks, or leadership has moved, the request is repeated for as long as that is safe and time allows:
reading always is, writing is because batches carry producer id and sequence.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from headwater.clock import Clock, SystemClock
from headwater.errors import (
    HeadwaterError,
    OffsetOutOfRange,
    UnavailableError,
    UnknownPartition,
    UnknownTopic,
)
from headwater.flow.kafka import messages
from headwater.flow.kafka.connection import Address, Broken, Connection, parse_address
from headwater.flow.kafka.error_codes import LOOK_AGAIN, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, error_for
from headwater.flow.kafka.fields import Reader
from headwater.flow.kafka.messages import EARLIEST, LATEST, Aborted, Broker, Buffer, Metadata, ProducerIdentity, Request
from headwater.kafka_login import KafkaLogin, from_environment
from headwater.log.batch_format import first_batch_bytes
from headwater.record import TopicPartition

__all__ = ["EARLIEST", "LATEST", "Client", "FetchedRecords"]

Result = TypeVar("Result")

BATCHES_UNDER_WAY_MAX = 5
"""A log remembers this many batches of a producer and partition: a repeated one of them is recognised."""

FETCH_BYTES_MAX = 128 * 1024**2
PAUSE_SECONDS = 0.1
REQUEST_TIMEOUT_MS = 30_000
SEVERAL_BROKERS_MS = 20


class FetchedRecords(NamedTuple):
    records: memoryview
    """Record batches; the last may be cut off, unless it is the only one."""
    high_watermark: int
    start_offset: int
    aborted: Sequence[Aborted]


class Client:
    def __init__(
        self,
        address: str,
        *,
        timeout_seconds: float = 30.0,
        client_id: str = "headwater",
        clock: Clock | None = None,
        login: KafkaLogin | None = None,
    ) -> None:
        """Without a `login` it logs in as the environment says, if it says so (kafka_login.py)."""
        self._login = from_environment() if login is None else login
        self._address = parse_address(address)
        self._timeout_seconds = timeout_seconds
        self._client_id = client_id
        self._clock = clock or SystemClock()
        self._connections: dict[Address, Connection] = {}
        self._metadata = Metadata({}, -1, {})

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- topics ------------------------------------------------------------------------------------------------------

    def topics(self) -> dict[str, int]:
        """Every topic and how many partitions it has."""
        found = self._trying(lambda: messages.read_metadata(self._ask(None, messages.metadata_request(None))))
        return {name: len(topic.leaders) for name, topic in found.topics.items() if not topic.error}

    def cluster_id(self) -> str:
        """Which log this is: another one has another."""
        return self._trying(lambda: messages.read_metadata(self._ask(None, messages.metadata_request([])))).cluster_id

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each of these topics has, asked again; UnknownTopic if there is none."""
        wanted = sorted(set(topics))
        self._trying(lambda: self._refresh(wanted))
        return {name: len(self._metadata.topics[name].leaders) for name in wanted}

    def create_topic(
        self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None, replication: int = 1
    ) -> None:
        """TopicExists if there is one of this name."""
        request = messages.create_topic_request(
            name,
            partitions=partitions,
            configs=configs or {},
            replication=replication,
            timeout_ms=REQUEST_TIMEOUT_MS,
        )
        outcome = self._trying(lambda: messages.read_create_topics(self._ask(self._controller(), request))[name])
        if outcome.error:
            raise error_for(outcome.error, what=f'creation of topic "{name}"', topic=name, message=outcome.message)
        self._trying(lambda: self._find_new(name))

    def alter_topic(self, name: str, configs: Mapping[str, str]) -> None:
        """Set some of its settings; InvalidSetting if the broker does not know one."""
        request = messages.alter_topic_request(name, configs)
        outcome = self._trying(lambda: messages.read_alter_topic(self._ask(self._controller(), request)))
        if outcome.error:
            raise error_for(outcome.error, what=f'a change of topic "{name}"', topic=name, message=outcome.message)

    def _find_new(self, name: str) -> None:
        """A topic that was just made may not be known everywhere at once."""
        try:
            self._refresh([name])
        except UnknownTopic as error:
            raise LookAgain(error.args[0]) from None
        if min(self._metadata.topics[name].leaders.values(), default=-1) < 0:
            raise LookAgain(f'topic "{name}" has no leaders yet')

    # -- reading -----------------------------------------------------------------------------------------------------

    def offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """For each partition the first offset at or after a time in milliseconds; -1 where no record is that new.

        The times EARLIEST and LATEST stand for the first offset and the end. One request for each broker.
        """

        def once() -> dict[TopicPartition, int]:
            found: dict[TopicPartition, int] = {}
            for leader, places in self._by_leader(times).items():
                found |= self._offsets_at(leader, {place: times[place] for place in places})
            return found

        return self._trying(once)

    def _offsets_at(self, leader: int, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        answers = messages.read_list_offsets(self._ask(leader, messages.list_offsets_request(times)))
        for place in times:
            self._check(answers[place].error, "the offsets", place)
        return {place: answers[place].offset for place in times}

    def fetch(self, place: TopicPartition, offset: int, *, bytes_max: int, wait_ms: int = 0) -> FetchedRecords:
        """Batches from the one that holds `offset` on: about `bytes_max` bytes, and at least one whole one.

        OffsetOutOfRange if the offset is deleted or not written yet.
        """
        fetched = self._trying(lambda: self._fetch(place, offset, bytes_max, wait_ms))
        while _cut_off(fetched.records) and bytes_max < FETCH_BYTES_MAX:
            bytes_max = min(FETCH_BYTES_MAX, max(2 * bytes_max, first_batch_bytes(fetched.records)))
            fetched = self._trying(lambda larger=bytes_max: self._fetch(place, offset, larger, wait_ms))  # type: ignore[misc]
        return fetched

    def _fetch(self, place: TopicPartition, offset: int, bytes_max: int, wait_ms: int) -> FetchedRecords:
        request = messages.fetch_request({place: offset}, bytes_max=bytes_max, wait_ms=wait_ms)
        error, answers = messages.read_fetch(self._ask(self._leader(place), request))
        if error:
            raise error_for(error, what=f'Fetch of "{place.topic}/{place.partition}"', topic=place.topic)
        answer = answers[place]
        if answer.error == OFFSET_OUT_OF_RANGE:
            known = self.offsets({place: EARLIEST})[place], self.offsets({place: LATEST})[place]
            raise OffsetOutOfRange(place.topic, place.partition, offset, first=known[0], end=known[1])
        self._check(answer.error, "Fetch", place)
        return FetchedRecords(answer.records, answer.high_watermark, answer.start_offset, answer.aborted)

    def wait_beyond(self, ends: Mapping[TopicPartition, int], *, wait_ms: int) -> None:
        """Return when one of these partitions has a record at or after the offset that is given for it, or the time is
        over. What the records are is not said. Over several brokers it is a short sleep."""
        leaders = self._by_leader(ends)
        if len(leaders) != 1:
            threading.Event().wait(min(wait_ms, SEVERAL_BROKERS_MS if leaders else wait_ms) / 1000)
            return
        request = messages.fetch_request(ends, bytes_max=1, wait_ms=wait_ms)
        error, answers = messages.read_fetch(self._ask(next(iter(leaders)), request))
        if error or any(answer.error for answer in answers.values()):
            self._metadata = Metadata({}, -1, {})
            threading.Event().wait(PAUSE_SECONDS)

    # -- writing -----------------------------------------------------------------------------------------------------

    def init_producer_id(self) -> ProducerIdentity:
        """A producer id of its own."""

        def once() -> ProducerIdentity:
            error, identity = messages.read_init_producer_id(self._ask(None, messages.init_producer_id_request()))
            if error:
                raise _failure(error, "a new producer id", "")
            return identity

        return self._trying(once)

    def produce(self, batches: Mapping[TopicPartition, Sequence[Buffer]]) -> dict[TopicPartition, list[int]]:
        """Append sealed batches in order, durably; the base offset of each.

        They must carry producer id, epoch and sequence, so that repeating what may have been stored stores nothing
        twice. A batch that is there already answers with the offset it has, DuplicateSequence if that is forgotten.
        """
        stored: dict[TopicPartition, list[int]] = {place: [] for place in batches}

        def once() -> None:
            for leader, places in self._by_leader(batches).items():
                self._produce_rest(leader, {place: batches[place] for place in places}, stored)

        self._trying(once)
        return stored

    def _produce_rest(
        self,
        leader: int,
        batches: Mapping[TopicPartition, Sequence[Buffer]],
        stored: dict[TopicPartition, list[int]],
    ) -> None:
        """Send what has no answer yet, a few requests at a time; `stored` keeps the answers over repetitions."""
        rounds = list(_rounds(batches, {place: len(stored[place]) for place in batches}))
        connection = self._connection(leader)
        sent = answered = 0
        try:
            while answered < len(rounds):
                # The first is sent by itself: a log that does not know a producer yet takes any sequence for its
                # first, so that one sent after a batch that is refused would be stored in its place.
                under_way_max = BATCHES_UNDER_WAY_MAX if answered else 1
                while sent < len(rounds) and sent - answered < under_way_max:
                    connection.send(messages.produce_request(rounds[sent], timeout_ms=REQUEST_TIMEOUT_MS))
                    sent += 1
                answers = messages.read_produce(connection.receive())
                answered += 1
                for place, answer in answers.items():
                    self._check(answer.error, "Produce", place)
                    stored[place].append(answer.base_offset)
        except HeadwaterError:
            # Answers under way would be taken for those of the next request.
            self._forget(connection)
            raise

    # -- groups ------------------------------------------------------------------------------------------------------

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int], *, metadata: str = "") -> None:
        """As a group that has no members; ConflictError if it has some."""

        def once() -> None:
            request = messages.offset_commit_request(group, offsets, metadata)
            answers = messages.read_offset_commit(self._ask(self._coordinator(group), request))
            for place, outcome in answers.items():
                self._check(outcome.error, f'the commit of group "{group}"', place)

        if offsets:
            self._trying(once)

    def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        def once() -> dict[TopicPartition, int]:
            request = messages.offset_fetch_request(group)
            error, found = messages.read_offset_fetch(self._ask(self._coordinator(group), request))
            if error:
                raise _failure(error, f'the offsets of group "{group}"', group)
            return {place: offset for place, (failed, offset) in found.items() if not failed and offset >= 0}

        return self._trying(once)

    def _coordinator(self, group: str) -> Address:
        error, broker = messages.read_find_coordinator(self._ask(None, messages.find_coordinator_request(group)))
        if error:
            raise _failure(error, f'the coordinator of group "{group}"', group)
        return Address(broker.host, broker.port)

    # -- brokers and repetition --------------------------------------------------------------------------------------

    def _trying(self, action: Callable[[], Result]) -> Result:
        """Repeat while brokers come and go, until the client's time is up. A broken connection is first met at once."""
        deadline = self._clock.elapsed_ms() + round(1000 * self._timeout_seconds)
        pause = threading.Event()
        attempts = 0
        while True:
            try:
                return action()
            except (Broken, LookAgain) as error:
                attempts += 1
                late = self._clock.elapsed_ms() >= deadline
                if late or (isinstance(error, Broken) and attempts > 1):
                    raise
                self._metadata = Metadata({}, -1, {})
                if attempts > 1:
                    pause.wait(PAUSE_SECONDS)

    def _ask(self, broker: int | Address | None, request: Request) -> Reader:
        connection = self._connection(broker)
        try:
            return connection.ask(request)
        except HeadwaterError:
            self._forget(connection)
            raise

    def _connection(self, broker: int | Address | None) -> Connection:
        address = self._find(broker)
        if address not in self._connections:
            self._connections[address] = Connection(
                address, client_id=self._client_id, timeout_seconds=self._timeout_seconds, login=self._login
            )
        return self._connections[address]

    def _find(self, broker: int | Address | None) -> Address:
        if isinstance(broker, Address):
            return broker
        known: Broker | None = None if broker is None else self._metadata.brokers.get(broker)
        return self._address if known is None else Address(known.host, known.port)

    def _forget(self, connection: Connection) -> None:
        connection.close()
        self._connections = {place: kept for place, kept in self._connections.items() if kept is not connection}

    def _controller(self) -> int:
        if self._metadata.controller < 0:
            self._metadata = messages.read_metadata(self._ask(None, messages.metadata_request([])))
        return self._metadata.controller

    def _refresh(self, topics: Sequence[str]) -> None:
        fresh = messages.read_metadata(self._ask(None, messages.metadata_request(topics)))
        for name in topics:
            topic = fresh.topics.get(name)
            if topic is None or topic.error == UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(name)
            if topic.error:
                raise _failure(topic.error, f'topic "{name}"', name)
        self._metadata = fresh._replace(topics={**self._metadata.topics, **fresh.topics})

    def _leader(self, place: TopicPartition) -> int:
        topic = self._metadata.topics.get(place.topic)
        if topic is None or place.partition not in topic.leaders:
            self._refresh([place.topic])
            topic = self._metadata.topics[place.topic]
        leader = topic.leaders.get(place.partition)
        if leader is None:
            raise UnknownPartition(place.topic, place.partition, count=len(topic.leaders))
        if leader < 0:
            raise LookAgain(f'"{place.topic}/{place.partition}" has no leader at the moment')
        return leader

    def _by_leader(self, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        wanted = list(places)
        missing = {place.topic for place in wanted} - self._metadata.topics.keys()
        if missing:
            self._refresh(sorted(missing))
        groups: dict[int, list[TopicPartition]] = {}
        for place in wanted:
            groups.setdefault(self._leader(place), []).append(place)
        return groups

    def _check(self, error: int, what: str, place: TopicPartition) -> None:
        if error:
            raise _failure(error, f'{what} of "{place.topic}/{place.partition}"', place.topic)


class LookAgain(UnavailableError):
    """Another broker than we thought is the one to ask."""


def _failure(code: int, what: str, topic: str) -> HeadwaterError:
    error = error_for(code, what=what, topic=topic)
    return LookAgain(error.args[0]) if code in LOOK_AGAIN else error


def _rounds(
    batches: Mapping[TopicPartition, Sequence[Buffer]], done: Mapping[TopicPartition, int]
) -> "Iterable[dict[TopicPartition, Buffer]]":
    """The next batch of every partition, again and again, until none is left."""
    step = 0
    while True:
        ready = {place: own[done[place] + step] for place, own in batches.items() if done[place] + step < len(own)}
        if not ready:
            return
        yield ready
        step += 1


def _cut_off(records: memoryview) -> bool:
    """Is there not one whole batch, although there is something?"""
    size = first_batch_bytes(records)
    return len(records) > 0 and (size == 0 or size > len(records))
