"""The requests that flows send, and what the answers say. Pure.

Each is in the newest version without flexible encoding that says what is needed here; Apache Kafka 4 and our own port
speak all of them. Ids of topics are in no such version: brokers that do not know them are not asked.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from headwater.flow.kafka.fields import (
    NO_TAGS,
    Reader,
    array,
    compact_array,
    compact_string,
    int8,
    int16,
    int32,
    int64,
    string,
)
from headwater.record import TopicPartition

LATEST, EARLIEST = -1, -2
"""Times that ListOffsets understands as places: behind the last record, and the first one that is still there."""

COMMITTED_ONLY = 1
ACKS_ALL = -1
NO_ID = bytes(16)
"""A topic is named by its name."""

NO_GENERATION = -1
"""Of a commit for a group without members."""

Buffer = bytes | bytearray | memoryview


class Request(NamedTuple):
    api_key: int
    version: int
    parts: Sequence[Buffer]
    """The body, in pieces so that record batches are not copied."""
    flexible: bool = False
    """In the newer form, with tagged fields."""


class Broker(NamedTuple):
    id: int
    host: str
    port: int


class TopicMetadata(NamedTuple):
    error: int
    name: str
    leaders: Mapping[int, int]
    """Partition -> broker that leads it; -1 where there is none."""


class Metadata(NamedTuple):
    brokers: Mapping[int, Broker]
    controller: int
    topics: Mapping[str, TopicMetadata]
    cluster_id: str = ""


class FoundOffset(NamedTuple):
    error: int
    timestamp_ms: int
    offset: int
    """-1 if no record is that new."""
    epoch: int
    """Of the leader that wrote there, or leads now; -1 where that is not known."""


class EpochEnd(NamedTuple):
    error: int
    epoch: int
    """The newest one that is not newer than the one asked for; -1 where none is known."""
    end_offset: int


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    error: int
    high_watermark: int
    start_offset: int
    aborted: Sequence[Aborted]
    records: memoryview
    """Record batches; the last one may be cut off."""


class Produced(NamedTuple):
    error: int
    base_offset: int


class ProducerIdentity(NamedTuple):
    producer_id: int
    epoch: int


class Outcome(NamedTuple):
    """Of one topic or partition in an answer that says no more than whether it went well."""

    error: int
    message: str | None = None


def _by_topic(partitions: Iterable[tuple[TopicPartition, bytes]]) -> bytes:
    """An array of topics, each with an array of what is said about its partitions."""
    ordered = sorted(partitions, key=lambda one: one[0])
    return array(
        string(topic) + array(said for _, said in group)
        for topic, group in groupby(ordered, key=lambda one: one[0].topic)
    )


def _read_by_topic(reader: Reader) -> Iterator[tuple[str, int]]:
    """Goes over topics and their partitions; the caller takes what follows each partition's number."""
    for _ in range(reader.int32()):
        topic = reader.string()
        for _ in range(reader.int32()):
            yield topic, reader.int32()


# -- Metadata 5 ------------------------------------------------------------------------------------------------------


def metadata_request(topics: Sequence[str] | None) -> Request:
    """None asks for all topics. None of them is made by asking."""
    named = int32(-1) if topics is None else array(string(topic) for topic in topics)
    return Request(3, 5, [named + int8(0)])


def read_metadata(reader: Reader) -> Metadata:
    reader.int32()  # throttle time
    brokers = reader.array(lambda: _broker(reader))
    cluster_id = reader.nullable_string() or ""
    controller = reader.int32()
    topics = reader.array(lambda: _topic_metadata(reader))
    by_id, by_name = {broker.id: broker for broker in brokers}, {topic.name: topic for topic in topics}
    return Metadata(by_id, controller, by_name, cluster_id)


def _broker(reader: Reader) -> Broker:
    broker = Broker(reader.int32(), reader.string(), reader.int32())
    reader.nullable_string()  # rack
    return broker


def _topic_metadata(reader: Reader) -> TopicMetadata:
    error, name = reader.int16(), reader.string()
    reader.int8()  # internal
    return TopicMetadata(error, name, dict(reader.array(lambda: _leader(reader))))


def _leader(reader: Reader) -> tuple[int, int]:
    reader.int16()  # an error here says that there is no leader, which the leader says too
    number, leader = reader.int32(), reader.int32()
    for _ in ("replicas", "in-sync ones", "offline ones"):
        reader.array(reader.int32)
    return number, leader


# -- ApiVersions 0, Metadata 12 for ids of topics ---------------------------------------------------------------------

METADATA, TOPIC_IDS_FROM = 3, 12


def api_versions_request() -> Request:
    return Request(18, 0, [])


def read_api_versions(reader: Reader) -> tuple[int, dict[int, int]]:
    """An error, and the newest version of each API that the broker speaks."""
    error = reader.int16()
    newest = dict(reader.array(lambda: (reader.int16(), (reader.int16(), reader.int16())[1])))
    return error, newest


def topic_ids_request(topics: Sequence[str]) -> Request:
    wanted = compact_array(NO_ID + compact_string(topic) + NO_TAGS for topic in topics)
    return Request(METADATA, TOPIC_IDS_FROM, [wanted + int8(0) + int8(0) + NO_TAGS], flexible=True)


def read_topic_ids(reader: Reader) -> dict[str, str]:
    """Of the topics that there are."""
    reader.int32()  # throttle time
    reader.compact_array(lambda: _skip_broker(reader))
    reader.compact_string()  # cluster id
    reader.int32()  # controller
    found = reader.compact_array(lambda: _topic_id(reader))
    return {name: id for error, name, id in found if not error and name is not None}


def _skip_broker(reader: Reader) -> None:
    reader.int32()
    reader.compact_string()  # host
    reader.int32()
    reader.compact_string()  # rack
    reader.skip_tags()


def _topic_id(reader: Reader) -> tuple[int, str | None, str]:
    found = reader.int16(), reader.compact_string(), str(reader.uuid())
    reader.int8()  # internal
    reader.compact_array(lambda: _skip_partition(reader))
    reader.int32()  # what we may do with it
    reader.skip_tags()
    return found


def _skip_partition(reader: Reader) -> None:
    reader.int16()
    for _ in ("number", "leader", "epoch"):
        reader.int32()
    for _ in ("replicas", "in-sync ones", "offline ones"):
        reader.compact_array(reader.int32)
    reader.skip_tags()


# -- ListOffsets 4 ---------------------------------------------------------------------------------------------------


def list_offsets_request(times: Mapping[TopicPartition, int]) -> Request:
    wanted = ((place, int32(place.partition) + int32(-1) + int64(time_ms)) for place, time_ms in times.items())
    return Request(2, 4, [int32(-1) + int8(COMMITTED_ONLY) + _by_topic(wanted)])


def read_list_offsets(reader: Reader) -> dict[TopicPartition, FoundOffset]:
    reader.int32()  # throttle time
    return {
        TopicPartition(topic, partition): FoundOffset(reader.int16(), reader.int64(), reader.int64(), reader.int32())
        for topic, partition in _read_by_topic(reader)
    }


# -- OffsetForLeaderEpoch 3 ------------------------------------------------------------------------------------------


def epoch_ends_request(epochs: Mapping[TopicPartition, int]) -> Request:
    wanted = ((place, int32(place.partition) + int32(-1) + int32(epoch)) for place, epoch in epochs.items())
    return Request(23, 3, [int32(-1) + _by_topic(wanted)])


def read_epoch_ends(reader: Reader) -> dict[TopicPartition, EpochEnd]:
    reader.int32()  # throttle time
    found = {}
    for _ in range(reader.int32()):
        topic = reader.string()
        for _ in range(reader.int32()):
            error, partition = reader.int16(), reader.int32()
            found[TopicPartition(topic, partition)] = EpochEnd(error, reader.int32(), reader.int64())
    return found


# -- Fetch 11 --------------------------------------------------------------------------------------------------------


def fetch_request(offsets: Mapping[TopicPartition, int], *, bytes_max: int, wait_ms: int) -> Request:
    head = int32(-1) + int32(wait_ms) + int32(1) + int32(bytes_max) + int8(COMMITTED_ONLY)
    no_session = int32(0) + int32(-1)
    wanted = (
        (place, int32(place.partition) + int32(-1) + int64(offset) + int64(-1) + int32(bytes_max))
        for place, offset in offsets.items()
    )
    forgotten_and_rack = int32(0) + string("")
    return Request(1, 11, [head + no_session + _by_topic(wanted) + forgotten_and_rack])


def read_fetch(reader: Reader) -> tuple[int, dict[TopicPartition, Fetched]]:
    """An error that concerns the whole request, and the answer for each partition."""
    reader.int32()  # throttle time
    error = reader.int16()
    reader.int32()  # session
    answers = {TopicPartition(topic, partition): _fetched(reader) for topic, partition in _read_by_topic(reader)}
    return error, answers


def _fetched(reader: Reader) -> Fetched:
    error, high_watermark = reader.int16(), reader.int64()
    reader.int64()  # last stable offset: no answer to "committed only" goes beyond it
    start_offset = reader.int64()
    aborted = reader.array(lambda: Aborted(reader.int64(), reader.int64()))
    reader.int32()  # replica to prefer
    return Fetched(error, high_watermark, start_offset, aborted, reader.bytes())


# -- InitProducerId 1 ------------------------------------------------------------------------------------------------


def init_producer_id_request() -> Request:
    return Request(22, 1, [string(None) + int32(60_000)])


def read_init_producer_id(reader: Reader) -> tuple[int, ProducerIdentity]:
    reader.int32()  # throttle time
    return reader.int16(), ProducerIdentity(reader.int64(), reader.int16())


# -- Produce 7 -------------------------------------------------------------------------------------------------------


def produce_request(batches: Mapping[TopicPartition, Buffer], *, timeout_ms: int) -> Request:
    """One record batch for each partition: the protocol takes no more at a time."""
    parts: list[Buffer] = [string(None) + int16(ACKS_ALL) + int32(timeout_ms)]
    topics = [(topic, list(group)) for topic, group in groupby(sorted(batches), key=lambda place: place.topic)]
    parts.append(int32(len(topics)))
    for topic, places in topics:
        parts.append(string(topic) + int32(len(places)))
        for place in places:
            parts += [int32(place.partition) + int32(len(batches[place])), batches[place]]
    return Request(0, 7, parts)


def read_produce(reader: Reader) -> dict[TopicPartition, Produced]:
    return {TopicPartition(topic, partition): _produced(reader) for topic, partition in _read_by_topic(reader)}


def _produced(reader: Reader) -> Produced:
    produced = Produced(reader.int16(), reader.int64())
    reader.int64()  # append time
    reader.int64()  # start offset
    return produced


# -- FindCoordinator 1, OffsetCommit 5, OffsetFetch 3 ----------------------------------------------------------------


def find_coordinator_request(group: str) -> Request:
    return Request(10, 1, [string(group) + int8(0)])


def read_find_coordinator(reader: Reader) -> tuple[int, Broker]:
    reader.int32()  # throttle time
    error = reader.int16()
    reader.nullable_string()  # message
    return error, Broker(reader.int32(), reader.string(), reader.int32())


def offset_commit_request(group: str, offsets: Mapping[TopicPartition, int], metadata: str) -> Request:
    said = ((place, int32(place.partition) + int64(offset) + string(metadata)) for place, offset in offsets.items())
    return Request(8, 5, [string(group) + int32(NO_GENERATION) + string("") + _by_topic(said)])


def read_offset_commit(reader: Reader) -> dict[TopicPartition, Outcome]:
    reader.int32()  # throttle time
    return {TopicPartition(topic, partition): Outcome(reader.int16()) for topic, partition in _read_by_topic(reader)}


def offset_fetch_request(group: str) -> Request:
    return Request(9, 3, [string(group) + int32(-1)])


def read_offset_fetch(reader: Reader) -> tuple[int, dict[TopicPartition, tuple[int, int]]]:
    """An error that concerns the group, and for each partition an error and the committed offset."""
    reader.int32()  # throttle time
    found = {}
    for topic, partition in _read_by_topic(reader):
        offset = reader.int64()
        reader.nullable_string()  # metadata
        found[TopicPartition(topic, partition)] = (reader.int16(), offset)
    return reader.int16(), found


# -- IncrementalAlterConfigs 0 ---------------------------------------------------------------------------------------

TOPIC_RESOURCE, SET = 2, 0


def alter_topic_request(name: str, configs: Mapping[str, str]) -> Request:
    settings = array(string(key) + int8(SET) + string(value) for key, value in configs.items())
    return Request(44, 0, [array([int8(TOPIC_RESOURCE) + string(name) + settings]) + int8(0)])


def read_alter_topic(reader: Reader) -> Outcome:
    reader.int32()  # throttle time
    (outcome,) = reader.array(
        lambda: (Outcome(reader.int16(), reader.nullable_string()), reader.int8(), reader.string())
    )
    return outcome[0]


# -- CreatePartitions 1 ----------------------------------------------------------------------------------------------


def add_partitions_request(name: str, total: int, *, timeout_ms: int) -> Request:
    topic = string(name) + int32(total) + int32(-1)  # placed as the cluster likes
    return Request(37, 1, [array([topic]) + int32(timeout_ms) + int8(0)])


# -- CreateTopics 4 --------------------------------------------------------------------------------------------------


def create_topic_request(
    name: str, *, partitions: int, configs: Mapping[str, str], replication: int, timeout_ms: int
) -> Request:
    settings = array(string(key) + string(value) for key, value in configs.items())
    topic = string(name) + int32(partitions) + int16(replication) + int32(0) + settings
    return Request(19, 4, [array([topic]) + int32(timeout_ms) + int8(0)])


def read_create_topics(reader: Reader) -> dict[str, Outcome]:
    reader.int32()  # throttle time
    return dict(reader.array(lambda: (reader.string(), Outcome(reader.int16(), reader.nullable_string()))))
