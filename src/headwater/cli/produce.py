"""headwater produce: lines from standard input become records."""

import argparse
import os
import stat
import sys
from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headwater.cli.arguments import add_connection, add_json, checked, number
from headwater.cli.client import Client, client_settings, failure_of
from headwater.cli.connection import reach
from headwater.cli.failure import Failure
from headwater.cli.lines import BadLine, Line, from_json, from_text
from headwater.cli.output import Meter, counted, meter, note, say, write_json
from headwater.errors import UnknownPartition

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
METER_EVERY = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the topic; it is created if it does not exist")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--key-separator", metavar="TEXT", help='lines are key and value with this between them, such as ":"'
    )
    form.add_argument(
        "--jsonl",
        action="store_true",
        help='lines are JSON: {"key", "value", "headers", "timestamp", "partition"}; only "value" must be there',
    )
    parser.add_argument(
        "--partition", metavar="N", type=checked(number), help="put every record there (default: by key)"
    )
    parser.add_argument("--compression", choices=COMPRESSIONS, default="none", help="of the batches (default: none)")
    parser.add_argument(
        "--acks",
        choices=("all", "1", "0"),
        default="all",
        help="a record counts as stored when it is on disk (all, the default), when written (1), or when sent (0)",
    )
    add_connection(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    with reach(arguments, create=True) as address:
        load = Load(address, arguments, partitions=prepare(Client(address), arguments.topic, arguments.partition))
        try:
            with meter(input_size()) as shown:
                load.send(read_lines(arguments), shown)
        finally:
            # Also when a line is bad or the user pressed Ctrl-C: the records read before are stored and reported.
            load.finish()
            load.report(as_json=arguments.json)
    return 0


def prepare(client: Client, topic: str, partition: int | None) -> int:
    """See to it that the topic is there, and the partition in it; returns how many partitions it has."""
    if topic not in client.topics():
        note(f'topic "{topic}" does not exist; making it')
        client.create_topic(topic)
    client.partitions(topic, partition)
    return len(client.partitions(topic))


def input_size() -> int | None:
    """Bytes that standard input will give, where that is known: a file says so, a pipe does not."""
    try:
        about = os.fstat(sys.stdin.fileno())
    except OSError:
        return None  # standard input is no file at all, as when another program calls main
    return about.st_size if stat.S_ISREG(about.st_mode) else None


def read_lines(arguments: argparse.Namespace) -> Iterator[tuple[int, Line]]:
    """Every line with the number of bytes it took."""
    separator = arguments.key_separator.encode() if arguments.key_separator else None
    if sys.stdin.isatty():
        note("type one record a line; Ctrl-D ends")
    for line_number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            parsed = from_json(line) if arguments.jsonl else from_text(line, key_separator=separator)
        except BadLine as error:
            raise Failure(f"line {line_number} is not a record: {error}") from None
        yield len(line), parsed


class Span(NamedTuple):
    first: int
    last: int


class Load:
    """One run of the producer: what was sent, where it went, what went wrong first."""

    def __init__(self, address: str, arguments: argparse.Namespace, *, partitions: int) -> None:
        self.topic: str = arguments.topic
        self._partitions = partitions
        self._partition: int | None = arguments.partition
        self._stored = 0
        self._failed = 0
        self._failure: KafkaError | None = None
        self._spans: dict[int, Span] = {}
        self._producer = Producer(
            {
                **client_settings(address),
                "acks": arguments.acks,
                "enable.idempotence": arguments.acks == "all",
                "compression.type": arguments.compression,
                # The same key goes to the same partition as with the Java client.
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "message.timeout.ms": 60_000,
                "message.max.bytes": 100_000_000,
            }
        )

    def send(self, lines: Iterator[tuple[int, Line]], shown: Meter) -> None:
        waiting = 0
        for count, (size, line) in enumerate(lines, start=1):
            self._send_one(line)
            waiting += size
            if count % METER_EVERY == 0:
                shown.advance(waiting, counted(self._stored, "record"))
                waiting = 0
            if self._failure is not None:
                return  # the report says why; sending on would only make more of the same

    def finish(self) -> None:
        self._producer.flush()

    def report(self, *, as_json: bool) -> None:
        spans = dict(sorted(self._spans.items()))
        if as_json:
            placed = {str(partition): {"first": span.first, "last": span.last} for partition, span in spans.items()}
            write_json({"topic": self.topic, "records": self._stored, "failed": self._failed, "partitions": placed})
        else:
            say(f'stored {counted(self._stored, "record")} in "{self.topic}"')
            for partition, span in spans.items():
                say(f"  partition {partition}: offsets {span.first} to {span.last}")
        if self._failure is not None:
            raise Failure(f"{counted(self._failed, 'record')} could not be stored: {failure_of(self._failure)}")

    def _send_one(self, line: Line) -> None:
        partition = line.partition if line.partition is not None else self._partition
        if partition is not None and partition >= self._partitions:
            raise UnknownPartition(self.topic, partition, count=self._partitions)
        while True:
            try:
                self._producer.produce(
                    self.topic,
                    value=line.value,
                    key=line.key,
                    partition=-1 if partition is None else partition,
                    timestamp=line.timestamp_ms or 0,
                    headers=list(line.headers),
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(0.1)  # the queue is full: wait until some of it has been stored
            except KafkaException as error:
                raise failure_of(error.args[0]) from None
            else:
                self._producer.poll(0)
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed += 1
            self._failure = self._failure or error
            return
        self._stored += 1
        partition, offset = message.partition(), message.offset()
        if partition is None or offset is None or offset < 0:
            return  # acks=0: the broker sends no offset
        span = self._spans.get(partition)
        self._spans[partition] = (
            Span(offset, offset) if span is None else Span(min(span.first, offset), max(span.last, offset))
        )
