"""A shop whose tables and streams queries read, with rows that come, change and go; and what DuckDB answers."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

import headwater as hw
from headwater.flow.run.app_tester import AppTester

BEGIN = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
COUNTRIES = ("DE", "FR", "IT", None)
STREAMS = {
    "orders": "id BIGINT, user_id BIGINT, amount DECIMAL(12,2), n INT, ts TIMESTAMP",
    "clicks": "id BIGINT, user_id BIGINT, page STRING, ts TIMESTAMP",
}
TABLES = {
    "users": "id BIGINT PRIMARY KEY, country STRING, age INT",
    "items": "item INT PRIMARY KEY, owner BIGINT, price INT, tag STRING",
    "bans": "id BIGINT PRIMARY KEY, user_id BIGINT, tag STRING",
}
Row = dict[str, Any]


def shop_app(name: str = "shop") -> hw.App:
    """Streams are never idle: on a slow machine that would depend on the wall clock."""
    app = hw.App(name, shards=2)
    for stream, columns in STREAMS.items():
        app.sql(
            f"CREATE STREAM {stream} ({columns}) FROM TOPIC {stream} "
            "WITH (time = 'ts', lateness = '1 day', idle = 'none')"
        )
    for table, columns in TABLES.items():
        app.sql(f"CREATE TABLE {table} ({columns}) FROM TOPIC {table}")
    return app


@dataclass
class Step:
    """What comes between two runs."""

    facts: dict[str, list[Row]] = field(default_factory=dict)
    changed: dict[str, list[Row]] = field(default_factory=dict)
    deleted: dict[str, list[Any]] = field(default_factory=dict)


def steps(seed: int, *, rounds: int = 4, rows: int = 14) -> Iterator[Step]:
    dice = random.Random(seed)
    there: dict[str, set[int]] = {table: set() for table in TABLES}
    number = 0
    for _ in range(rounds):
        step = Step()
        for _ in range(rows):
            number += 1
            at = BEGIN + timedelta(seconds=dice.randrange(3600))
            step.facts.setdefault("orders", []).append(_order(dice, number, at))
            if dice.random() < 0.6:
                step.facts.setdefault("clicks", []).append(_click(dice, number, at))
        for table in TABLES:
            step.changed[table], step.deleted[table] = _changes(dice, table, there[table])
        yield step


def _order(dice: random.Random, number: int, at: datetime) -> Row:
    amount = dice.choice([None, f"{dice.randrange(1000) / 100:.2f}"])
    return {"id": number, "user_id": _user(dice), "amount": amount, "n": dice.choice([None, 1, 2, 3]), "ts": _text(at)}


def _click(dice: random.Random, number: int, at: datetime) -> Row:
    at += timedelta(seconds=dice.randrange(-600, 600))
    return {"id": number, "user_id": _user(dice), "page": dice.choice("ab") + dice.choice("xy"), "ts": _text(at)}


def _changes(dice: random.Random, table: str, there: set[int]) -> tuple[list[Row], list[int]]:
    deleted = [one for one in sorted(there) if dice.random() < 0.25]
    there.difference_update(deleted)
    rows = []
    for key in dice.sample(range(1, 9), 4):
        if key in deleted:
            continue
        there.add(key)
        rows.append(_table_row(dice, table, key))
    return rows, deleted


def _table_row(dice: random.Random, table: str, key: int) -> Row:
    tag = dice.choice([None, "ax", "ay", "bx", "it's"])
    match table:
        case "users":
            return {"id": key, "country": dice.choice(COUNTRIES), "age": dice.choice([None, 20, 30, 40])}
        case "items":
            return {"item": key, "owner": _user(dice), "price": dice.choice([None, 1, 5, 5, 9]), "tag": tag}
        case _:
            return {"id": key, "user_id": _user(dice), "tag": tag}


def _user(dice: random.Random) -> int | None:
    return dice.choice([None, *range(1, 9)]) if dice.random() < 0.3 else dice.randint(1, 8)


def _text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def feed(tester: AppTester, step: Step) -> None:
    for topic in STREAMS:
        tester.feed(topic, step.facts.get(topic, []))
    for table in TABLES:
        tester.feed_rows(table, step.changed.get(table, []), deleted=step.deleted.get(table, []))


class Database:
    """The same rows in DuckDB."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:", config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'")
        for name, columns in (STREAMS | TABLES).items():
            self.connection.execute(f"CREATE TABLE {name} ({columns})")

    def apply(self, step: Step) -> None:
        for name, rows in step.facts.items():
            self._insert(name, rows)
        for name in TABLES:
            key = TABLES[name].split()[0]
            gone = [*step.deleted.get(name, []), *(row[key] for row in step.changed.get(name, []))]
            for value in gone:
                self.connection.execute(f"DELETE FROM {name} WHERE {key} = ?", [value])
            self._insert(name, step.changed.get(name, []))

    def _insert(self, name: str, rows: Sequence[Row]) -> None:
        for row in rows:
            places = ", ".join("?" for _ in row)
            self.connection.execute(f"INSERT INTO {name} VALUES ({places})", list(row.values()))

    def answer(self, query: str) -> list[tuple[Any, ...]]:
        found = self.connection.execute(query)
        names = [one[0] for one in found.description or ()]
        order = sorted(range(len(names)), key=lambda number: names[number])
        return comparable([tuple(row[number] for number in order) for row in found.fetchall()])


def rows_of(found: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows of a view, with their values in the order of the columns' names."""
    return comparable([tuple(row[name] for name in sorted(row)) for row in found])


def comparable(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(map(_value, row)) for row in rows), key=repr)


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return sorted(map(_value, value), key=repr)
    return value
