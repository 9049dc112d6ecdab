"""headwater demo: a small shop on a node of its own, read by two groups, shown while it runs."""

import argparse
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer
from rich.console import Group as Lines
from rich.live import Live
from rich.padding import Padding
from rich.table import Table

from headwater.cli.arguments import checked, duration_seconds
from headwater.cli.client import Client, client_settings, failure_of
from headwater.cli.connection import reach
from headwater.cli.failure import Failure
from headwater.cli.group import progress_of
from headwater.cli.output import Cell, console, counted, plain_table, say
from headwater.cli.shop import CLICKS, ORDERS, TOPICS, Event, events
from headwater.clock import SystemClock

EVENTS_PER_TICK, TICK_SECONDS = 20, 0.04
REFRESH_SECONDS = 0.5
DRAIN_SECONDS = 30.0

# Which topics each group reads: the warehouse packs orders, the analysts look at everything.
GROUPS = {"shop-warehouse": [ORDERS], "shop-analysts": [CLICKS, ORDERS]}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="TIME",
        type=checked(duration_seconds),
        default=10.0,
        help="how long customers keep coming, such as 60s (default: 10s)",
    )
    parser.add_argument(
        "--data", metavar="DIR", type=Path, help="keep the data there (default: a folder that is removed)"
    )
    parser.add_argument("--no-browser", action="store_true", help="open no browser; there is no page to open yet")
    parser.set_defaults(run=run, kafka=None)


def run(arguments: argparse.Namespace) -> int:
    with ExitStack() as stack:
        if arguments.data is None:
            arguments.data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-demo-")))
        address = stack.enter_context(reach(arguments, create=True))
        client = Client(address)
        for topic in TOPICS.keys() - client.topics().keys():
            client.create_topic(topic, partitions=TOPICS[topic], configs={})
        say(f"A node runs at {address}, with its data in {arguments.data}; any Kafka client can join while this lasts.")
        say("Customers of a small shop look and buy. The warehouse reads orders, the analysts read everything.")
        return play(address, client, seconds=arguments.seconds)


def play(address: str, client: Client, *, seconds: float) -> int:
    shop = Shop(address)
    readers = [Reader(address, group, topics) for group, topics in GROUPS.items()]
    with ExitStack() as stack:
        for work in (*(reader.work for reader in readers), shop.work):
            stack.enter_context(running(work))
        stack.enter_context(display(lambda: picture(client, shop, readers)))
        wait_until(lambda: False, seconds=seconds)
        shop.close()
        wait_until(lambda: all(reader.read >= shop.stored(reader.topics) for reader in readers), seconds=DRAIN_SECONDS)
        for reader in readers:
            reader.close()
    console(sys.stdout).print(picture(client, shop, readers))
    return verdict(shop, readers)


def verdict(shop: "Shop", readers: list["Reader"]) -> int:
    if shop.failure is not None or not shop.stored(list(TOPICS)):
        raise Failure(f"not every record could be stored: {failure_of(shop.failure) if shop.failure else 'none was'}")
    wrong = [reader for reader in readers if reader.read != shop.stored(reader.topics) or reader.repeated]
    for reader in wrong:
        say(f"{reader.group} read {reader.read:,} of {shop.stored(reader.topics):,}, {reader.repeated:,} of them twice")
    if wrong:
        raise Failure("not every record arrived exactly once")
    stored = counted(shop.stored(list(TOPICS)), "record")
    say(f"{stored} stored; each group read all of its topics: nothing missing, nothing twice.")
    say('A node of your own: "headwater start", then "headwater produce TOPIC" and "headwater consume TOPIC".')
    return 0


class Shop:
    """Produces events at a steady pace until it closes."""

    def __init__(self, address: str) -> None:
        settings = {"enable.idempotence": True, "partitioner": "murmur2_random", "message.timeout.ms": 15_000}
        self._producer = Producer({**client_settings(address), **settings})
        self._closing = threading.Event()
        self._finished = threading.Event()
        self._stored: Counter[str] = Counter()
        self.failure: KafkaError | None = None

    def stored(self, topics: list[str]) -> int:
        return sum(self._stored[topic] for topic in topics)

    def work(self) -> None:
        try:
            for event in self._paced(events()):
                self._producer.produce(event.topic, event.value, event.key, on_delivery=self._delivered)
            self._producer.flush()
        finally:
            self._finished.set()

    def _paced(self, waiting: Iterator[Event]) -> Iterator[Event]:
        while not self._closing.wait(TICK_SECONDS):
            yield from islice(waiting, EVENTS_PER_TICK)
            self._producer.poll(0)

    def close(self) -> None:
        """Close the doors and wait until everything sold is in the log."""
        self._closing.set()
        self._finished.wait()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._stored[message.topic() or ""] += 1
        else:
            self.failure = self.failure or error


class Reader:
    """One member of a group: counts what it reads and commits it."""

    def __init__(self, address: str, group: str, topics: list[str]) -> None:
        self.group, self.topics = group, topics
        self.read = self.repeated = 0
        self._seen: set[tuple[str | None, int | None, int | None]] = set()
        self._closing = threading.Event()
        settings = {"group.id": group, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 500}
        self._consumer = Consumer({**client_settings(address), **settings})
        self._consumer.subscribe(topics)

    def work(self) -> None:
        while not self._closing.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self._count((message.topic(), message.partition(), message.offset()))
        self._consumer.close()

    def close(self) -> None:
        self._closing.set()

    def _count(self, place: tuple[str | None, int | None, int | None]) -> None:
        self.read += 1
        self.repeated += place in self._seen
        self._seen.add(place)


def picture(client: Client, shop: Shop, readers: list[Reader]) -> Lines:
    return Lines(
        "",
        Padding(topics_table(client, shop), (0, 0, 0, 2), expand=False),
        "",
        Padding(groups_table(client, readers), (0, 0, 0, 2), expand=False),
        "",
    )


def topics_table(client: Client, shop: Shop) -> Table:
    rows: list[list[Cell]] = []
    for topic, partitions in TOPICS.items():
        ends = client.ends(topic, range(partitions))
        rows.append([topic, shop.stored([topic]), " ".join(f"{n}:{end}" for n, end in sorted(ends.items()))])
    return plain_table(["topic", "records stored", "end offset of each partition"], rows)


def groups_table(client: Client, readers: list[Reader]) -> Table:
    rows: list[list[Cell]] = []
    for reader in readers:
        places = [place for group in client.groups([reader.group]) for place in progress_of(client, group)]
        lag = sum(place.lag or 0 for place in places)
        rows.append([reader.group, ", ".join(reader.topics), reader.read, lag])
    return plain_table(["group", "reads", "records read", "lag"], rows)


@contextmanager
def running(work: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join(DRAIN_SECONDS)


@contextmanager
def display(picture_now: Callable[[], Lines]) -> Iterator[None]:
    """Show the picture anew twice a second while the block runs, where a person watches."""
    if not sys.stdout.isatty():
        yield
        return
    stopping = threading.Event()
    with Live(console=console(sys.stdout), auto_refresh=False, transient=True) as live:

        def refresh() -> None:
            while not stopping.wait(REFRESH_SECONDS):
                live.update(picture_now(), refresh=True)

        with running(refresh):
            try:
                yield
            finally:
                stopping.set()


def wait_until(done: Callable[[], bool], *, seconds: float) -> None:
    clock, pause = SystemClock(), threading.Event()
    deadline = clock.elapsed_ms() + seconds * 1000
    while not done() and clock.elapsed_ms() < deadline:
        pause.wait(0.05)
