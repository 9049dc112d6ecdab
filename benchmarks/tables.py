"""Tables from results: the same content for the terminal and for the page of the documentation. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contenders import BARE_SERVER, HEADWATER, KAFKA
from benchmarks.disk import disk_name
from benchmarks.events import POSTGRESQL
from benchmarks.loopback import LOOPBACK
from benchmarks.results import Case, Results

DASH = "–"


@dataclass(frozen=True)
class Table:
    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def all_tables(results: Results) -> list[Table]:
    tables = [
        floors(results),
        produce(results, "produce", "Produce, librdkafka", "One process of confluent-kafka, `linger.ms=5`, no codec."),
        produce(results, "produce, raw", "Produce, raw", RAW_NOTE),
        fetch(
            results,
            "fetch",
            "Fetch, librdkafka",
            "One process of confluent-kafka reads from the start, page cache warm.",
        ),
        fetch(results, "fetch, raw", "Fetch, raw", "Plain sockets, batches walked but not decoded."),
        latency(results),
        opening(results),
        memory(results),
        event_appends(results),
    ]
    return [table for table in tables if table.rows]


RAW_NOTE = "Prebuilt requests with batches of 256 KiB over two plain connections, four requests in flight on each."


def number(value: float | None) -> str:
    """
    >>> number(1234567.8), number(123.4), number(3.14159), number(None)
    ('1,234,568', '123', '3.14', '–')
    """
    if value is None:
        return DASH
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def middle(results: Results, case: Case, who: str, metric: str) -> str:
    """The median, with the smallest and largest of all rounds behind it."""
    spread = results.spread(case, who, metric)
    if spread is None:
        return DASH
    shown = number(results.median(case, who, metric))
    return shown if spread[0] == spread[1] else f"{shown} ({number(spread[0])}–{number(spread[1])})"


def times(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}\u00a0×"


def floors(results: Results) -> Table:
    cases = [*results.cases("disk"), *results.cases("loopback")]
    rows = [[who, middle(results, case, who, "megabytes")] for case in cases for who in results.contenders(case)]
    return Table("Floors", "What this machine does without any broker.", ["what", "MB/s"], rows)


def produce(results: Results, section: str, title: str, note: str) -> Table:
    columns = ["record", "partitions", "acks", "broker", "MB/s", "records/s", "broker CPU s/GB", "client CPU s/GB"]
    rows = []
    for case in results.cases(section):
        for who in results.contenders(case):
            of_disk = over_disk(results, case, who)
            of_bare = results.ratio(case, who, BARE_SERVER, "megabytes") if who != BARE_SERVER else None
            of_kafka = results.ratio(case, who, KAFKA, "megabytes") if who == HEADWATER else None
            rates = [*rate_cells(results, case, who), times(of_kafka), times(of_disk), times(of_bare)]
            rows.append([*case.words, who, *rates])
    return Table(title, note, [*columns, "of Kafka", "of dd", "of bare server"], rows)


def over_disk(results: Results, case: Case, who: str) -> float | None:
    """Against `dd` with blocks as small as the larger record: what the goal is stated in."""
    disk = results.median(Case("disk", ("1 kB",)), disk_name("1 kB"), "megabytes")
    own = results.median(case, who, "megabytes")
    return own / disk if own is not None and disk and who != BARE_SERVER else None


def fetch(results: Results, section: str, title: str, note: str) -> Table:
    columns = ["record", "partitions", "broker", "MB/s", "records/s", "broker CPU s/GB", "client CPU s/GB"]
    floor = results.median(Case("loopback"), LOOPBACK, "megabytes")
    rows = []
    for case in results.cases(section):
        for who in results.contenders(case):
            own = results.median(case, who, "megabytes")
            of_kafka = results.ratio(case, who, KAFKA, "megabytes") if who == HEADWATER else None
            of_floor = own / floor if own is not None and floor else None
            rows.append([*case.words, who, *rate_cells(results, case, who), times(of_kafka), times(of_floor)])
    return Table(title, note, [*columns, "of Kafka", "of loopback"], rows)


def rate_cells(results: Results, case: Case, who: str) -> list[str]:
    return [
        middle(results, case, who, "megabytes"),
        number(results.median(case, who, "records")),
        number(results.median(case, who, "broker_cpu")),
        number(results.median(case, who, "client_cpu")),
    ]


def latency(results: Results) -> Table:
    rows = [
        [*case.words, who, *(middle(results, case, who, metric) for metric in ("p50", "p99", "p999"))]
        for case in results.cases("latency")
        for who in results.contenders(case)
    ]
    note = "1,000 records of 100 B a second, `linger.ms=0`; from the call of the producer to the hand of the consumer."
    return Table("Latency, end to end", note, ["acks", "broker", "p50 ms", "p99 ms", "p99.9 ms"], rows)


def opening(results: Results) -> Table:
    rows = [
        [*case.words, who, middle(results, case, who, "seconds"), times(results.ratio(case, who, KAFKA, "seconds"))]
        for case in results.cases("open")
        for who in results.contenders(case)
    ]
    note = "From the start of the process to its first answer. An empty log shows what starting alone costs."
    return Table("Opening a log", note, ["log", "broker", "seconds", "of Kafka"], rows)


def event_appends(results: Results) -> Table:
    rows = [
        [*case.words, who, middle(results, case, who, "rate"), times(results.ratio(case, who, POSTGRESQL, "rate"))]
        for case in results.cases("events")
        for who in results.contenders(case)
    ]
    note = "Each event is stored if its stream is at the expected version, and is on the disk when the writer goes on."
    return Table("Conditional appends", note, ["writers", "store", "events/s", "of PostgreSQL"], rows)


def memory(results: Results) -> Table:
    rows = [
        [who, *(number(results.median(case, who, metric)) for metric in ("before", "peak", "growth"))]
        for case in results.cases("memory")
        for who in results.contenders(case)
    ]
    note = "500 connected consumers, 100 of which ask for 50 MiB eight times and never read an answer."
    return Table("Memory", note, ["broker", "MiB before", "MiB at most", "MiB grown"], rows)
