"""What the database says it committed, and in which order, against what the topics say.

The database is asked by a slot of its own that was there before everything and is read once, at the end: this list is
complete, because nothing crashes while it is read.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import psycopg

from headwater.capture.landing import position_of
from headwater.capture.postgresql.pgoutput import Begin, Commit, Decoder, Delete, Insert, Relation, Truncate, Update
from headwater.log.commit_points import TOPIC as COMMIT_POINTS
from headwater.log.commit_points import CommitPoint
from headwater.log.log import Log
from headwater.record import Record, TopicPartition

SLOT = PUBLICATION = "judge"
EMPTIED = "t"
SHOWN = 3


class Event(NamedTuple):
    """A row created, updated, deleted or read, by its key and the tick it was given; or all rows deleted."""

    operation: str
    key: int | None = None
    tick: int | None = None


def prepare(connection: psycopg.Connection[Any], tables: Sequence[str]) -> None:
    connection.execute(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE {', '.join(tables)}")
    connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (SLOT,))


def committed(connection: psycopg.Connection[Any], *, since: dict[str, int]) -> dict[str, list[Event]]:
    """The events of each table, in commit order, of transactions that ended after an address."""
    rows = connection.execute(
        "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', "
        "'publication_names', %s)",
        (SLOT, PUBLICATION),
    )
    decoder, relations = Decoder(), dict[int, Relation]()
    events: dict[str, list[Event]] = {table: [] for table in since}
    passing: list[tuple[str, Event]] = []
    for (data,) in rows:
        match decoder.decode(bytes(data)):
            case Begin():
                passing = []
            case Relation() as relation:
                relations[relation.id] = relation
            case Commit(_, end, _):
                for table, event in passing:
                    if end > since[table]:
                        events[table].append(event)
            case Truncate(ids):
                passing += [(relations[id].name, Event(EMPTIED)) for id in ids]
            case Insert(id, new):
                passing.append((relations[id].name, _event("c", relations[id], new)))
            case Delete(id, old):
                passing.append((relations[id].name, _event("d", relations[id], old)))
            case Update(id, old, new):
                passing += [(relations[id].name, event) for event in _updated(relations[id], old, new)]
    return events


def _updated(relation: Relation, old: Any, new: Any) -> list[Event]:
    event = _event("u", relation, new)
    if old is not None and _number(relation, old, "id") != event.key:
        return [_event("d", relation, old), event._replace(operation="c")]
    return [event]


def _event(operation: str, relation: Relation, cells: Any) -> Event:
    keyless = not any(column.name == "id" for column in relation.columns)
    tick = _number(relation, cells, "tick") if operation != "d" or keyless else None
    return Event(operation, None if keyless else _number(relation, cells, "id"), tick)


def _number(relation: Relation, cells: Any, name: str) -> int | None:
    value = next(cell for column, cell in zip(relation.columns, cells, strict=True) if column.name == name)
    return None if value is None else int(value)


def events_of(records: Iterable[Record]) -> Iterator[Event]:
    """The events of a topic, in its order; tombstones are none."""
    for record in records:
        if record.value is None:
            continue
        value = json.loads(record.value)
        key = None if record.key is None else json.loads(record.key)["id"]
        row = value["after"] or value["before"] or {}
        yield Event(value["op"], key, row.get("tick") if key is None or value["op"] != "d" else None)


def differences(name: str, expected: Sequence[Event], events: Iterable[Event]) -> list[str]:
    """How a topic differs from the database. Rows that were read must be as the changes before them say."""
    found: list[str] = []
    ticks: dict[int, int | None] = {}  # of the keys that live in the topic
    wanted = iter([*expected, Event("end")])
    next_one = next(wanted)
    emptied: set[int] = set()  # keys whose end a truncation still owes us
    for event in events:
        while next_one.operation == EMPTIED and not emptied:
            emptied, next_one = set(ticks), next(wanted)
        if event.operation == "r":
            if event.key in ticks and ticks[event.key] != event.tick:
                found.append(f"{name}: a copy has {event}, where the change before it had tick {ticks[event.key]}")
        elif event.operation == "d" and event.key in emptied:
            emptied.discard(event.key)
        elif event.operation == EMPTIED:
            continue  # a copy of a table without a key begins
        elif event != next_one:
            return [*found, f"{name}: the topic has {event} where the database has {next_one}"]
        else:
            next_one = next(wanted)
        if event.key is not None and event.operation == "d":
            ticks.pop(event.key, None)
        elif event.key is not None:
            ticks[event.key] = event.tick
    while next_one.operation == EMPTIED and not emptied:
        emptied, next_one = set(ticks), next(wanted)
    if next_one.operation != "end" or emptied:
        missing = 1 + sum(1 for _ in wanted) if next_one.operation != "end" else len(emptied)
        found.append(f"{name}: {missing} changes are missing at its end, the first is {next_one}")
    return found


def boundaries(name: str, records: Iterable[Record]) -> list[str]:
    """Begins and ends of transactions: each once, an end after its begin."""
    open_one, seen = "", set[str]()
    for record in records:
        said = json.loads(record.value or b"{}")
        status, id = said.get("status"), said.get("id")
        if status == "BEGIN" and not open_one and id not in seen:
            open_one = id
            seen.add(id)
        elif status == "END" and id == open_one:
            open_one = ""
        else:
            return [f"{name}: {status} of {id} where {open_one or 'no transaction'} is open"]
    return [f"{name}: transaction {open_one} has no end"] if open_one else []


def cut_by_commit_points(log: Log) -> list[str]:
    """Commit points that lie within a transaction, and captures whose last one is not at the end of their topics."""
    found: list[str] = []
    for number in range(log.topic(COMMIT_POINTS).partitions):
        said = ((record.key, CommitPoint.from_value(record.value)) for record in log.read(COMMIT_POINTS, number))
        points = [(key, point) for key, point in said if point is not None]
        ends = {where: log.partition(*where).high_watermark for where in points[-1][1].ends}
        written = {where: [(one.offset, _transaction(one, where.topic)) for one in log.read(*where)] for where in ends}
        for key, point in points:
            before = [all_of[-1] for where in ends if (all_of := _split(written[where], point, where)[0])]
            later = [all_of[0] for where in ends if (all_of := _split(written[where], point, where)[1])]
            if before and later and max(before) >= min(later):
                found.append(f"a commit point of {key!r} cuts transaction {min(later)}: {dict(point.ends)}")
        if dict(points[-1][1].ends) != ends:
            found.append(f"the last commit point of {points[-1][0]!r} is not at {ends}, but {dict(points[-1][1].ends)}")
    return found


def _transaction(record: Record, topic: str) -> tuple[int, bool]:
    """Rows that a copy has read stand at address 0, before a transaction that may be committed at the same address."""
    position = position_of(record, topic)
    return position.commit, position.address > 0 or topic.endswith(".transaction")


def _split(
    written: list[tuple[int, tuple[int, bool]]], point: CommitPoint, partition: TopicPartition
) -> tuple[list[tuple[int, bool]], list[tuple[int, bool]]]:
    end = point.ends.get(partition, 0)
    return [one for offset, one in written if offset < end], [one for offset, one in written if offset >= end]


def fold(records: Iterable[Record]) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for record in records:
        after = None if record.value is None else json.loads(record.value)["after"]
        key = (record.key or b"").decode()
        if after is None:
            rows.pop(key, None)
        else:
            rows[key] = after
    return rows


def compare(name: str, table: dict[str, dict[str, Any]], topic: dict[str, dict[str, Any]]) -> list[str]:
    """Rows by key. A column that a row does not have was added after it was written, and is NULL."""
    found = [f"{name}: row {key} is missing in the topic" for key in table.keys() - topic.keys()]
    found += [f"{name}: row {key} is not in the table any more" for key in topic.keys() - table.keys()]
    for key in table.keys() & topic.keys():
        for column, value in table[key].items():
            if topic[key].get(column) != value:
                said = f"{str(topic[key].get(column))[:40]!r}, and the table {str(value)[:40]!r}"
                found.append(f"{name}: column {column} of row {key} is {said}")
    return [*found[:SHOWN], f"{name}: and {len(found) - SHOWN} more"] if len(found) > SHOWN else found
