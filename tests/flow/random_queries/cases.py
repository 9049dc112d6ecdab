"""A case: tables, changes of their rows in several portions, and queries. It is run in headwater and in PostgreSQL."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

import psycopg

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.app import App
from headwater.flow.declare.topology.nodes import key_of
from headwater.flow.local.jobs import local_jobs
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.run.app_tester import AppTester, RunningNode
from headwater.flow.run.fed_records import table_records
from headwater.record import Record
from tests.flow.engines import Engine
from tests.flow.job.steps import SteppedJob, stepped_job
from tests.flow.random_queries.aggregates import APPROXIMATE, LIST
from tests.flow.random_queries.crashes import crash_at
from tests.flow.random_queries.queries import Generator, Query
from tests.flow.random_queries.schemas import (
    BEGIN,
    POSTGRES_TYPES,
    Changes,
    Source,
    random_changes,
    random_source,
    rows_after,
)

PARTITIONS = 2
DIGITS = 9
"""As many of a number that is not exact are compared."""
SIZES = (16, 4, 1)
"""As many changes are left out at once."""
BEGIN_MS = int(BEGIN.timestamp() * 1000)
_numbers = itertools.count()
Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    seed: int
    sources: tuple[Source, ...]
    positions: tuple[Changes, ...]
    queries: tuple[Query, ...]
    shards: int = 2
    again: tuple[int, ...] = ()
    """How often the batch before each position is run: all but the last time it is cut off before it is noted."""
    crashes: tuple[int, ...] = ()
    """At which of its moments the batch before each position is cut off at first (crashes.py), and the app is started
    again; 0: it is not."""

    def of(self, query: Query) -> "Case":
        """With one query, and only the tables that it reads."""
        sources = tuple(one for one in self.sources if one.name in query.sources)
        names = {one.name for one in sources}
        positions = tuple(tuple(one for one in each if one.source in names) for each in self.positions)
        return replace(self, sources=sources, positions=positions, queries=(query,))


def random_case(seed: int, queries: int) -> Case:
    random = Random(seed)
    count = random.randint(1, 3)
    sources = tuple(random_source(random, f"r{place}", stream=random.random() < 0.3) for place in range(count))
    generator = Generator(random, sources)
    made = tuple(_random_query(random, generator) for _ in range(queries))
    positions = random_changes(random, sources, random.randint(3, 5))
    again = tuple(random.choice((1, 1, 2)) for _ in positions)
    crashes = tuple(random.choice((0, 0, random.randint(1, 40))) for _ in positions)
    return Case(seed, sources, positions, made, random.randint(1, 3), again, crashes)


def _random_query(random: Random, generator: Generator) -> Query:
    """Aggregates that are not exact are at the top only."""
    depth = random.randint(1, 3)
    return generator.grouped(depth, top=True) if random.random() < 0.25 else generator.query(depth)


@dataclass(frozen=True)
class Difference:
    """What a query has too many of and too few, after so many portions; or the error that it ended with."""

    query: Query
    position: int
    shown: str


@dataclass
class Outcome:
    different: list[Difference] = field(default_factory=list)
    compared: list[Query] = field(default_factory=list)
    refused: list[tuple[Query, str]] = field(default_factory=list)
    rows: int = 0
    """How many rows were compared, of all positions."""


def run_case(
    case: Case, node: RunningNode, database: "psycopg.Connection[Any]", engine: Engine | None = None
) -> Outcome:
    """All queries in one job; each alone where one of them cannot be. `engine`: Spark, instead of this process."""
    outcome = Outcome()
    accepted = []
    for query in case.queries:
        why = refusal(case.of(query), on_spark=engine is not None)
        if why:
            outcome.refused.append((query, why))
        else:
            accepted.append(query)
    if accepted:
        _run(replace(case, queries=tuple(accepted)), node, database, outcome, engine or _no_spark)
    return outcome


def _run(case: Case, node: RunningNode, database: "psycopg.Connection[Any]", outcome: Outcome, engine: Engine) -> None:
    try:
        tester = AppTester(app_of(case), node, engine)
        reasons = tester.needs_spark if callable(engine) else {}
        if not reasons:
            _compare(case, tester, database, outcome)
            return
        said = next(iter(reasons.values()))
        if len(case.queries) == 1:
            outcome.refused.append((case.queries[0], f"needs Spark: {said}"))
            return
    except Exception as error:
        if len(case.queries) == 1:
            outcome.different.append(Difference(case.queries[0], -1, f"{type(error).__name__}: {error}"))
            return
    for query in case.queries:  # each alone, so that it is known which one it is
        _run(case.of(query), node, database, outcome, engine)


def _no_spark() -> Any:
    raise AssertionError("a random query needs Spark")


def view_name(number: int) -> str:
    return f"q{number}"


def app_of(case: Case) -> App:
    app = hw.App(f"case{next(_numbers)}", shards=case.shards, one_job=True)
    for one in case.sources:
        if one.is_stream:
            time = one.time or None
            topic = f"{app.name}.{one.name}"
            app.stream(topic, one.spark_ddl, name=one.name, time=time, lateness="1 day", ahead=None)
            continue
        key = one.key[0] if len(one.key) == 1 else one.key
        app.table(f"{app.name}.{one.name}", one.spark_ddl, key=key, name=one.name)
    for number, query in enumerate(case.queries):
        for built in query.built:
            app.script.relations[built.name] = lambda built=built: built.relation(app)  # type: ignore[misc]
        app.sql(f"CREATE MATERIALIZED VIEW {view_name(number)} AS {shown_text(app, query)}")
    return app


def shown_text(app: App, query: Query) -> str:
    """What the view keeps: the query, or how often it has each row if nothing tells its rows apart."""
    flow = app.sql(query.text.spark)
    names = [one.name for one in query.columns]
    if flow.node.keyed and set(key_of(flow.node)) <= set(names):
        return query.text.spark
    listed = ", ".join(names)
    return f"SELECT {listed}, count(*) AS copies FROM ({query.text.spark}) AS counted GROUP BY {listed}"


def refusal(case: Case, *, on_spark: bool = False) -> str:
    """Why an app with these queries is refused, or needs Spark; empty if it does not."""
    try:
        reasons = local_jobs(app_of(case), {}).reasons
    except InvalidDeclaration as error:
        return str(error)
    return "" if on_spark else next((f"needs Spark: {why}" for why in reasons.values()), "")


def _compare(case: Case, tester: AppTester, database: "psycopg.Connection[Any]", outcome: Outcome) -> None:
    topics = {one.name: tester.app.sources[one.name].topic for one in case.sources}
    for topic in topics.values():
        tester.node.log.create_topic(topic, partitions=PARTITIONS)
    wrong: set[int] = set()
    with ExitStack() as running, _tables(case, database):
        job = running.enter_context(stepped_job(tester))
        ends = {topic: dict.fromkeys(range(PARTITIONS), 0) for topic in topics.values()}
        for position, changes in enumerate(case.positions):
            starts = {topic: dict(parts) for topic, parts in ends.items()}
            _feed(case, tester, topics, changes, ends)
            batch = PlannedBatch(position, starts, {t: dict(p) for t, p in ends.items()}, position)
            if crash := (case.crashes[position] if position < len(case.crashes) else 0):
                with crash_at(crash):
                    job.run(batch)
                running.close()
                job = running.enter_context(stepped_job(tester))
            _step(job, batch, case)
            _fill(case, database, position)
            for number, query in enumerate(case.queries):
                wanted, found = _expected(database, query), _found(tester.rows(view_name(number)), query)
                outcome.rows += sum(wanted.values())
                if wanted != found and number not in wrong:
                    wrong.add(number)
                    shown = f"too few: {dict(wanted - found)}\n  too many: {dict(found - wanted)}"
                    outcome.different.append(Difference(query, position, shown))
    outcome.compared += case.queries


def _step(job: SteppedJob, batch: PlannedBatch, case: Case) -> None:
    job.run(batch, times=case.again[batch.batch] if batch.batch < len(case.again) else 1)


def _feed(
    case: Case, tester: AppTester, topics: dict[str, str], changes: Changes, ends: dict[str, dict[int, int]]
) -> None:
    for one in changes:
        source = next(each for each in case.sources if each.name == one.source)
        declared = tester.app.sources[source.name]
        topic = topics[one.source]
        if source.is_stream:
            value = json.dumps(one.row, default=str).encode()
            partition = one.key[0] % PARTITIONS
            tester.node.log.append(topic, [Record(value, timestamp_ms=BEGIN_MS)], partition=partition)
            ends[topic][partition] += 1
            continue
        given = [one.row] if one.row is not None else []
        deleted = [] if one.row is not None else [dict(zip(source.key, one.key, strict=True))]
        records = table_records(declared, source.name, given, deleted, 0)
        partition = sum(one.key) % PARTITIONS
        tester.node.log.append(topic, records, partition=partition)
        ends[topic][partition] += len(records)


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


class _tables:
    """The tables of a case in the database, deleted after it."""

    def __init__(self, case: Case, database: "psycopg.Connection[Any]") -> None:
        self.case, self.database = case, database

    def __enter__(self) -> None:
        for one in self.case.sources:
            self.database.execute(f"DROP TABLE IF EXISTS {one.name}")
            self.database.execute(one.postgres_ddl)

    def __exit__(self, *_: object) -> None:
        for one in self.case.sources:
            self.database.execute(f"DROP TABLE IF EXISTS {one.name}")


def _fill(case: Case, database: "psycopg.Connection[Any]", position: int) -> None:
    there = rows_after(case.sources, case.positions[: position + 1])
    with database.cursor() as cursor:
        for one in case.sources:
            cursor.execute(f"DELETE FROM {one.name}")
            values = [[row[column.name] for column in one.columns] for row in there[one.name]]
            if values:
                typed = ", ".join(f"%s::{POSTGRES_TYPES[column.kind].split()[0]}" for column in one.columns)
                cursor.executemany(f"INSERT INTO {one.name} VALUES ({typed})", values)


def _expected(database: "psycopg.Connection[Any]", query: Query) -> Rows:
    kinds = [one.kind for one in query.columns]
    text = query.text.postgres.replace("%", "%%")
    return Counter(_normal(row, kinds) for row in database.execute(text, []).fetchall())


def _found(rows: Sequence[dict[str, Any]], query: Query) -> Rows:
    kinds = [one.kind for one in query.columns]
    names = [one.name for one in query.columns]
    found: Rows = Counter()
    for row in rows:
        copies = row["copies"] if "copies" in row and "copies" not in names else 1
        found[_normal([row[name] for name in names], kinds)] += copies
    return found


def _normal(values: Sequence[Any], kinds: Sequence[str]) -> tuple[Any, ...]:
    return tuple(_value(value, kind) for value, kind in zip(values, kinds, strict=True))


def _value(value: Any, kind: str) -> Any:
    if kind == LIST:
        return tuple(sorted((_value(one, "") for one in value), key=repr))
    if value is None or isinstance(value, bool | str):
        return value
    if kind == APPROXIMATE:
        return f"{float(value) + 0.0:.{DIGITS - 1}e}" if abs(value) > 1e-9 else "0"
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    if isinstance(value, int | float | Decimal):
        return Decimal(str(value)).normalize() + 0
    return value


# -- what is printed ---------------------------------------------------------------------------------------------------


def script_of(case: Case, different: Difference) -> str:
    """A case as SQL that PostgreSQL runs, with headwater's query as a comment."""
    lines = [f"-- seed {case.seed}, shards {case.shards}, batches run {case.again} times, cut off at {case.crashes}"]
    lines += [f"{one.postgres_ddl};  -- headwater: {one.spark_ddl}; key {one.key}" for one in case.sources]
    for position, changes in enumerate(case.positions[: different.position + 1] or case.positions):
        lines.append(f"-- before position {position}")
        lines += [_change_text(one, case) for one in changes]
    built = [f"-- {one.name} is made in Python" for one in different.query.built]
    lines += [*built, f"-- headwater: {different.query.text.spark}", f"{different.query.text.postgres};"]
    return "\n".join([*lines, f"-- at position {different.position}", f"  {different.shown}"])


def _change_text(one: Any, case: Case) -> str:
    source = next(each for each in case.sources if each.name == one.source)
    values = "" if one.row is None else ", ".join(_literal(one.row[column.name]) for column in source.columns)
    if source.is_stream:
        return f"INSERT INTO {one.source} VALUES ({values});"
    where = " AND ".join(f"{name} = {value}" for name, value in zip(source.key, one.key, strict=True))
    deleted = f"DELETE FROM {one.source} WHERE {where};"
    if one.row is None:
        return deleted
    return f"{deleted} INSERT INTO {one.source} VALUES ({values});"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str | datetime) else str(value).lower()


# -- shrinking ---------------------------------------------------------------------------------------------------------


def shrunk(case: Case, different: Difference, node: RunningNode, database: "psycopg.Connection[Any]") -> Case:
    """The smallest part of a query that is still wrong, over as few changes as it takes."""
    ended = len(case.positions) if different.position < 0 else different.position + 1
    found = replace(case, positions=case.positions[:ended]).of(different.query)

    def fails(one: Case) -> bool:
        return bool(run_case(one, node, database).different)

    while smaller := next((one for one in _parts(found) if fails(one)), None):
        found = smaller
    for size in SIZES:
        begin = 0
        while begin < (count := sum(map(len, found.positions))):
            fewer = _without(found, range(begin, min(begin + size, count)))
            if fails(fewer):
                found = fewer
            else:
                begin += size
    return found


def _parts(case: Case) -> Iterator[Case]:
    return (case.of(child) for child in case.queries[0].children if child.source is None)


def _without(case: Case, numbers: range) -> Case:
    """Less some of its changes, which are counted through all positions; empty positions stay."""
    numbered, made = itertools.count(), []
    for changes in case.positions:
        made.append(tuple(one for one in changes if next(numbered) not in numbers))
    return replace(case, positions=tuple(made))
