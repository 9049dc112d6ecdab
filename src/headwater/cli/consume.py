"""headwater consume: the records of a topic, one line each."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headwater.cli.arguments import Start, add_connection, add_json, checked, number, positive, start
from headwater.cli.client import Client, client_settings, failure_of
from headwater.cli.connection import reach
from headwater.cli.failure import Failure
from headwater.cli.lines import Line, to_json, to_text
from headwater.cli.output import note
from headwater.errors import OffsetOutOfRange

BATCH_RECORDS = 1000
POLL_SECONDS = 0.2

# What librdkafka reports while it tries again by itself.
PASSING = {KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument(
        "--from",
        dest="where",
        metavar="WHERE",
        type=checked(start("beginning", "end")),
        default=Start(end="beginning"),
        help="beginning (the default), end, an offset, or a time such as 2026-01-31T12:00:00Z or 1700000000000ms",
    )
    parser.add_argument("--partition", metavar="N", type=checked(number), help="read only this partition")
    parser.add_argument(
        "--group", metavar="NAME", help="share the partitions with this group and commit what was printed"
    )
    parser.add_argument("--count", metavar="N", type=checked(positive), help="stop after N records")
    parser.add_argument("--follow", action="store_true", help="wait for new records instead of stopping at the end")
    parser.add_argument("--keys", action="store_true", help="print key, tab, value")
    add_connection(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.group and (arguments.partition is not None or not arguments.where.end):
        raise Failure(
            "a group chooses partitions and offsets itself: --group goes with --from beginning or end, and without "
            '--partition. Move a group with "headwater group reset"'
        )
    with reach(arguments) as address:
        client = Client(address)
        partitions = client.partitions(arguments.topic, arguments.partition)
        if arguments.group:
            reader: PartitionReader | GroupReader = GroupReader(address, arguments)
        else:
            starts, ends = bounds(client, arguments.topic, partitions, arguments.where)
            reader = PartitionReader(address, arguments, starts=starts, ends=ends)
        with closing(reader):
            copy(reader, arguments)
    return 0


def bounds(client: Client, topic: str, partitions: list[int], where: Start) -> tuple[dict[int, int], dict[int, int]]:
    """Where to start and, for a reader that does not follow, where to stop in each partition."""
    ends = client.ends(topic, partitions)
    if where.offset is None:
        return client.offsets(topic, partitions, where), ends
    if len(partitions) > 1:
        raise Failure(f'an offset belongs to one partition, and "{topic}" has {len(partitions)}: give --partition too')
    [partition] = partitions
    first = client.firsts(topic, partitions)[partition]
    if not first <= where.offset <= ends[partition]:
        raise OffsetOutOfRange(topic, partition, where.offset, first=first, end=ends[partition])
    return {partition: where.offset}, ends


def copy(reader: "PartitionReader | GroupReader", arguments: argparse.Namespace) -> None:
    """Print what the reader yields until it ends or the count is reached; commit only what was printed."""
    left = arguments.count
    output = sys.stdout.buffer
    for messages in reader.batches():
        printed = messages if left is None else messages[:left]
        output.writelines(formatted(printed, as_json=arguments.json, with_keys=arguments.keys))
        output.flush()
        reader.done(printed)
        if left is not None:
            left -= len(printed)
            if left == 0:
                return


def formatted(messages: Iterable[Message], *, as_json: bool, with_keys: bool) -> Iterator[bytes]:
    for message in messages:
        line = Line(
            value=message.value(),
            key=message.key(),
            headers=headers_of(message),
            timestamp_ms=message.timestamp()[1] if message.timestamp()[1] >= 0 else None,
            partition=message.partition(),
        )
        if as_json:
            yield to_json(line, topic=message.topic() or "", offset=message.offset() or 0)
        else:
            yield to_text(line, with_key=with_keys)


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    pairs = message.headers() or []
    listed = pairs.items() if isinstance(pairs, dict) else pairs
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in listed]


def at_end(message: Message) -> bool:
    """Whether this is the news that a partition has no more; other news is an error, or passes by itself."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        raise Failure("the node went away")
    if error.code() in PASSING:
        return False
    raise failure_of(error)


def of_the_group(message: Message) -> bool:
    """Whether it says that the group may not be used, which is no matter for a reader without a group."""
    error = message.error()
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


def consumer_settings(address: str, group: str) -> dict[str, object]:
    return {
        **client_settings(address),
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "fetch.message.max.bytes": 4 * 1024**2,
        "fetch.wait.max.ms": 200,
    }


class PartitionReader:
    """Reads fixed partitions from fixed offsets, without a group."""

    def __init__(
        self, address: str, arguments: argparse.Namespace, *, starts: dict[int, int], ends: dict[int, int]
    ) -> None:
        topic = arguments.topic
        self._follow: bool = arguments.follow
        self._ends = ends
        self._unfinished = {n for n in ends if self._follow or starts[n] < ends[n]}
        # The library wants the name of a group, and asks for its coordinator; nothing is joined or committed.
        self._consumer = Consumer(consumer_settings(address, "headwater-consume"))
        self._consumer.assign([TopicPartition(topic, n, starts[n]) for n in self._unfinished])

    def batches(self) -> Iterator[list[Message]]:
        while self._unfinished:
            records = []
            for message in self._consumer.consume(BATCH_RECORDS, POLL_SECONDS):
                partition, offset = message.partition(), message.offset()
                if of_the_group(message):
                    continue
                if at_end(message):
                    # The last offsets of a compacted partition may hold no record: its end is news, not a record.
                    self._finish(partition)
                elif message.error() is None and partition is not None and offset is not None:
                    if self._follow or offset < self._ends[partition]:
                        records.append(message)
                    if offset + 1 >= self._ends[partition]:
                        self._finish(partition)
            if records:
                yield records

    def done(self, messages: list[Message]) -> None:
        """Nothing to commit: this reader belongs to no group."""

    def close(self) -> None:
        self._consumer.close()

    def _finish(self, partition: int | None) -> None:
        if not self._follow and partition is not None:
            self._unfinished.discard(partition)


class GroupReader:
    """Reads as a member of a group, from where the group has come to."""

    def __init__(self, address: str, arguments: argparse.Namespace) -> None:
        self._follow: bool = arguments.follow
        self._unfinished: set[int] | None = None  # None until the group has given this member its share
        reset = "earliest" if arguments.where.end == "beginning" else "latest"
        self._consumer = Consumer({**consumer_settings(address, arguments.group), "auto.offset.reset": reset})
        self._consumer.subscribe([arguments.topic], on_assign=self._assigned, on_revoke=self._revoked)

    def batches(self) -> Iterator[list[Message]]:
        while self._follow or self._unfinished is None or self._unfinished:
            records = []
            for message in self._consumer.consume(BATCH_RECORDS, POLL_SECONDS):
                if at_end(message):
                    self._finish(message.partition())
                elif message.error() is None:
                    records.append(message)
            if records:
                yield records

    def done(self, messages: list[Message]) -> None:
        newest = {message.partition(): message for message in messages}
        offsets = [TopicPartition(m.topic() or "", m.partition() or 0, (m.offset() or 0) + 1) for m in newest.values()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            code = error.args[0].code()
            if code not in (
                KafkaError.REBALANCE_IN_PROGRESS,
                KafkaError.ILLEGAL_GENERATION,
                KafkaError.UNKNOWN_MEMBER_ID,
            ):
                raise failure_of(error.args[0]) from None
            note("the group rebalanced before the last records were committed; they may be delivered twice")

    def close(self) -> None:
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not partitions:
            note("the other members of the group read all partitions; there is none left for this one")
        self._unfinished = {one.partition for one in partitions}

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._unfinished = None

    def _finish(self, partition: int | None) -> None:
        if self._unfinished is not None and partition is not None:
            self._unfinished.discard(partition)
