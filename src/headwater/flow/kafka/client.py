"""Topics of a log behind a Kafka port: Apache Kafka's, ours, or anything that speaks the protocol.

Blocking and not thread-safe. A request goes to the broker that leads the partition or coordinates the group. If a
connection breaks, or leadership has moved, the request is repeated for as long as that is safe and time allows:
reading always is, writing is because batches carry producer id and sequence.

Of a cluster, every broker that was ever named (in the address, or in an answer) may be asked who leads what. One that
does not answer is passed over until no other is left, and where the cluster is without a leader it is waited for.
A node alone is not waited for: that it is away is said at once.
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
from headwater.flow.kafka.connection import Address, Broken, Connection, Unreachable, parse_addresses
from headwater.flow.kafka.error_codes import (
    LOOK_AGAIN,
    OFFSET_OUT_OF_RANGE,
    PASSING,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_for,
)
from headwater.flow.kafka.fields import Reader
from headwater.flow.kafka.messages import (
    EARLIEST,
    LATEST,
    Aborted,
    Broker,
    Buffer,
    FoundOffset,
    Metadata,
    ProducerIdentity,
    Request,
)
from headwater.kafka_login import KafkaLogin, from_environment
from headwater.log.batch_format import first_batch_bytes
from headwater.record import TopicPartition

__all__ = ["EARLIEST", "LATEST", "Client", "End", "FetchedRecords"]

Result = TypeVar("Result")

BATCHES_UNDER_WAY_MAX = 5
"""A log remembers this many batches of a producer and partition: a repeated one of them is recognised."""

FETCH_BYTES_MAX = 128 * 1024**2
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.1, 1.0
REQUEST_TIMEOUT_MS = 30_000
SEVERAL_BROKERS_MS = 20
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 15.0
"""How long a broker of several may take, before another is asked. A throttled answer comes within eleven seconds."""


class End(NamedTuple):
    """Where a partition ended, and in which leader's time that was; -1 where the broker does not say."""

    offset: int
    epoch: int


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
        """`address` is HOST:PORT, or several divided by commas. Without a `login` it logs in as the environment says,
        if it says so (kafka_login.py)."""
        self._login = from_environment() if login is None else login
        self._bootstrap = parse_addresses(address)
        self._timeout_seconds = timeout_seconds
        self._client_id = client_id
        self._clock = clock or SystemClock()
        self._connections: dict[Address, Connection] = {}
        self._metadata = Metadata({}, -1, {})
        self._brokers: tuple[Address, ...] = ()
        """As the last answer named them; kept when it is forgotten who leads what."""
        self._silent: set[Address] = set()
        """Brokers that did not answer since one did."""
        self._knows_topic_ids: bool | None = None

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

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The id of each topic that exists: one that was deleted and made again has another. Empty if the broker knows
        no ids."""
        wanted = sorted(set(topics))

        def once() -> dict[str, str]:
            if self._knows_topic_ids is None:
                error, newest = messages.read_api_versions(self._ask(None, messages.api_versions_request()))
                self._knows_topic_ids = not error and newest.get(messages.METADATA, 0) >= messages.TOPIC_IDS_FROM
            if not self._knows_topic_ids or not wanted:
                return {}
            return messages.read_topic_ids(self._ask(None, messages.topic_ids_request(wanted)))

        return self._trying(once)

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each of these topics has, asked again; UnknownTopic if there is none."""
        wanted = sorted(set(topics))
        self._trying(lambda: self._refresh(wanted))
        return {name: len(self._metadata.topics[name].leaders) for name in wanted}

    def create_topic(
        self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None, replication: int = -1
    ) -> None:
        """With as many replicas as the cluster gives a topic, unless said otherwise. TopicExists if there is one of
        this name."""
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

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic have so many."""
        request = messages.add_partitions_request(name, total, timeout_ms=REQUEST_TIMEOUT_MS)
        outcome = self._trying(lambda: messages.read_create_topics(self._ask(self._controller(), request))[name])
        if outcome.error:
            raise error_for(outcome.error, what=f'growing topic "{name}"', topic=name, message=outcome.message)
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

        return {place: found.offset for place, found in self._found(times).items()}

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, End]:
        """Where partitions end, with the epochs of their leaders."""
        found = self._found(dict.fromkeys(places, LATEST))
        return {place: End(one.offset, one.epoch) for place, one in found.items()}

    def _found(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        def once() -> dict[TopicPartition, FoundOffset]:
            found: dict[TopicPartition, FoundOffset] = {}
            for leader, places in self._by_leader(times).items():
                request = messages.list_offsets_request({place: times[place] for place in places})
                answers = messages.read_list_offsets(self._ask(leader, request))
                for place in places:
                    self._check(answers[place].error, "the offsets", place)
                    found[place] = answers[place]
            return found

        return self._trying(once)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where the records end that were written in these leaders' time or before; -1 where that is not known."""

        def once() -> dict[TopicPartition, int]:
            found: dict[TopicPartition, int] = {}
            for leader, places in self._by_leader(epochs).items():
                request = messages.epoch_ends_request({place: epochs[place] for place in places})
                answers = messages.read_epoch_ends(self._ask(leader, request))
                for place in places:
                    self._check(answers[place].error, "the epochs", place)
                    found[place] = answers[place].end_offset if answers[place].epoch >= 0 else -1
            return found

        return self._trying(once)

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
            raise self._failure(error, f'Fetch of "{place.topic}/{place.partition}"', place.topic)
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
                raise self._failure(error, "a new producer id", "")
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
                raise self._failure(error, f'the offsets of group "{group}"', group)
            return {place: offset for place, (failed, offset) in found.items() if not failed and offset >= 0}

        return self._trying(once)

    def _coordinator(self, group: str) -> Address:
        error, broker = messages.read_find_coordinator(self._ask(None, messages.find_coordinator_request(group)))
        if error:
            raise self._failure(error, f'the coordinator of group "{group}"', group)
        return Address(broker.host, broker.port)

    # -- brokers and repetition --------------------------------------------------------------------------------------

    def _trying(self, action: Callable[[], Result]) -> Result:
        """Repeat while brokers come and go, until the client's time is up. A broken connection is first met at once."""
        deadline = self._clock.elapsed_ms() + round(1000 * self._timeout_seconds)
        pauses, seconds = threading.Event(), PAUSE_SECONDS
        attempts = 0
        while True:
            try:
                return action()
            except (Broken, Unreachable, LookAgain) as error:
                attempts += 1
                if self._clock.elapsed_ms() >= deadline or (self._alone and _is_over(error, attempts)):
                    raise
                self._metadata = Metadata({}, -1, {})
                if attempts > 1:
                    pauses.wait(seconds)
                    seconds = min(2 * seconds, PAUSE_SECONDS_MAX)

    @property
    def _alone(self) -> bool:
        """Is there no other broker to ask?"""
        return len({*self._bootstrap, *self._brokers}) == 1

    def _ask(self, broker: int | Address | None, request: Request) -> Reader:
        connection = self._connection(broker)
        try:
            answer = connection.ask(request)
        except HeadwaterError:
            self._silent.add(connection.address)
            self._forget(connection)
            raise
        self._silent.discard(connection.address)
        return answer

    def _connection(self, broker: int | Address | None) -> Connection:
        address = self._find(broker)
        if address not in self._connections:
            patience = self._timeout_seconds
            try:
                self._connections[address] = Connection(
                    address,
                    client_id=self._client_id,
                    timeout_seconds=patience if self._alone else min(patience, ANSWER_SECONDS),
                    connect_seconds=patience if self._alone else min(patience, CONNECT_SECONDS),
                    login=self._login,
                )
            except UnavailableError:
                self._silent.add(address)
                raise
        return self._connections[address]

    def _find(self, broker: int | Address | None) -> Address:
        if isinstance(broker, Address):
            return broker
        known: Broker | None = None if broker is None else self._metadata.brokers.get(broker)
        return self._any_broker() if known is None else Address(known.host, known.port)

    def _any_broker(self) -> Address:
        """One that answers, as far as we know; else the one that has been silent for longest is tried again."""
        candidates = dict.fromkeys((*self._connections, *self._bootstrap, *self._brokers))
        for address in candidates:
            if address not in self._silent:
                return address
        self._silent.clear()
        return self._bootstrap[0]

    def _forget(self, connection: Connection) -> None:
        connection.close()
        self._connections = {place: kept for place, kept in self._connections.items() if kept is not connection}

    def _controller(self) -> int:
        if self._metadata.controller < 0:
            self._note(messages.read_metadata(self._ask(None, messages.metadata_request([]))))
        return self._metadata.controller

    def _note(self, fresh: Metadata) -> None:
        self._metadata = fresh
        self._brokers = tuple(Address(broker.host, broker.port) for broker in fresh.brokers.values()) or self._brokers

    def _refresh(self, topics: Sequence[str]) -> None:
        fresh = messages.read_metadata(self._ask(None, messages.metadata_request(topics)))
        for name in topics:
            topic = fresh.topics.get(name)
            if topic is None or topic.error == UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(name)
            if topic.error:
                raise self._failure(topic.error, f'topic "{name}"', name)
        self._note(fresh._replace(topics={**self._metadata.topics, **fresh.topics}))

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
            raise self._failure(error, f'{what} of "{place.topic}/{place.partition}"', place.topic)

    def _failure(self, code: int, what: str, topic: str) -> HeadwaterError:
        error = error_for(code, what=what, topic=topic)
        passing = code in LOOK_AGAIN or (code in PASSING and not self._alone)
        return LookAgain(error.args[0]) if passing else error


class LookAgain(UnavailableError):
    """Another broker than we thought is the one to ask."""


def _is_over(error: UnavailableError, attempts: int) -> bool:
    """Of a node alone: has it gone away?"""
    return isinstance(error, Unreachable) or (isinstance(error, Broken) and attempts > 1)


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
