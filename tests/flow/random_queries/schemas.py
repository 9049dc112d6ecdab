"""Random tables and random changes of their rows."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

INT, TEXT, BOOL, DECIMAL, REAL, TIME = KINDS = ("int", "text", "bool", "decimal", "real", "time")
SPARK_TYPES = {
    INT: "long", TEXT: "string", BOOL: "boolean", DECIMAL: "decimal(9,2)", REAL: "double", TIME: "timestamp",
}  # fmt: skip
POSTGRES_TYPES = {
    INT: "bigint", TEXT: 'text COLLATE "C"', BOOL: "boolean", DECIMAL: "numeric(9,2)", REAL: "float8",
    TIME: "timestamptz",
}  # fmt: skip
NULLS = 0.2
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ID = "id"


class Column(NamedTuple):
    name: str
    kind: str


@dataclass(frozen=True)
class Source:
    """A table; the first column, or the first two, are its key, and are never null. A stream has no key: each of its
    rows is there for ever."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    time: str = ""
    """Of a stream: the column of its time, in which rows are out of order. None: that of its records."""

    @property
    def is_stream(self) -> bool:
        return not self.key

    @property
    def spark_ddl(self) -> str:
        return ", ".join(f"{one.name} {SPARK_TYPES[one.kind]}" for one in self.columns)

    @property
    def postgres_ddl(self) -> str:
        return (
            f"CREATE TABLE {self.name} ({', '.join(f'{one.name} {POSTGRES_TYPES[one.kind]}' for one in self.columns)})"
        )


class Change(NamedTuple):
    """A row as it is from now on, or None where it is deleted. Rows of a stream have a number of their own as key."""

    source: str
    key: tuple[Any, ...]
    row: dict[str, Any] | None


Changes = tuple[Change, ...]


def random_source(random: Random, name: str, *, stream: bool = False) -> Source:
    if stream:
        kinds = [INT, *(random.choice((INT, TEXT, *KINDS)) for _ in range(random.randint(1, 3)))]
        values = tuple(Column(f"v{place}", kind) for place, kind in enumerate(kinds))
        times = [one.name for one in values if one.kind == TIME]
        return Source(name, values, (), times[0] if times else "")
    others = [random.choice((INT, INT, TEXT, *KINDS)) for _ in range(random.randint(2, 4))]
    key = (ID, "part") if random.random() < 0.25 else (ID,)
    columns = [*(Column(each, INT) for each in key), *(Column(f"v{place}", kind) for place, kind in enumerate(others))]
    return Source(name, tuple(columns), key)


def random_value(random: Random, kind: str) -> Any:
    """Few different ones, so that rows meet; sums of those of kind REAL have no error."""
    if random.random() < NULLS:
        return None
    number = random.randint(-2, 5)
    return {
        INT: number, TEXT: random.choice(("", "a", "A", "ab", "b", "日")), BOOL: number > 1,
        DECIMAL: Decimal(number * 25) / 100, REAL: number * 0.25, TIME: BEGIN + timedelta(minutes=7 * number),
    }[kind]  # fmt: skip


def random_changes(random: Random, sources: tuple[Source, ...], positions: int) -> tuple[Changes, ...]:
    """What comes before each position: rows come, change and are deleted, and come again. Some positions empty a
    table."""
    there: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {one.name: {} for one in sources}
    made = []
    for position in range(positions):
        changes: list[Change] = []
        for source in sources:
            rows = there[source.name]
            if source.is_stream:
                count = random.randint(0, 8) if position else random.randint(4, 14)
                changes += [_fact(random, source, rows) for _ in range(count)]
                continue
            if position and random.random() < 0.1:
                changes += [Change(source.name, key, None) for key in rows]
                rows.clear()
                continue
            for _ in range(random.randint(0, 10) if position else random.randint(4, 18)):
                changes.append(_change(random, source, rows))
        random.shuffle(changes)
        made.append(_settled(changes, there))
    return tuple(made)


def _change(random: Random, source: Source, rows: dict[tuple[Any, ...], dict[str, Any]]) -> Change:
    key = tuple(random.randint(1, 14 if len(source.key) == 1 else 4) for _ in source.key)
    if rows and random.random() < 0.45:
        key = random.choice(list(rows))
        if random.random() < 0.6:
            rows.pop(key)
            return Change(source.name, key, None)
    row = dict(zip(source.key, key, strict=True))
    old = rows.get(key)
    for one in source.columns:
        if one.name not in row:
            keeps = old is not None and random.random() < 0.5
            row[one.name] = old[one.name] if old is not None and keeps else random_value(random, one.kind)
    rows[key] = row
    return Change(source.name, key, row)


def _fact(random: Random, source: Source, rows: dict[tuple[Any, ...], dict[str, Any]]) -> Change:
    """A row that is now and then the same as one before."""
    row = {one.name: random_value(random, one.kind) for one in source.columns}
    if rows and random.random() < 0.2:
        row = dict(random.choice(list(rows.values())))
    key = (len(rows),)
    rows[key] = row
    return Change(source.name, key, row)


def _settled(changes: list[Change], there: dict[str, dict[tuple[Any, ...], dict[str, Any]]]) -> Changes:
    """After shuffling, the last change of a row is what counts."""
    for one in changes:
        if one.row is None:
            there[one.source].pop(one.key, None)
        else:
            there[one.source][one.key] = one.row
    return tuple(changes)


def rows_after(sources: tuple[Source, ...], positions: tuple[Changes, ...]) -> dict[str, list[dict[str, Any]]]:
    """The rows of all tables after these changes."""
    there: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {one.name: {} for one in sources}
    for changes in positions:
        _settled(list(changes), there)
    return {name: list(rows.values()) for name, rows in there.items()}
