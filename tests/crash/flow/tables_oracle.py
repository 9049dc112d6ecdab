"""What the app of tables.py has left behind, compared with what SQLite says of the rows that were fed."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from headwater.flow.kafka.client import Client
from headwater.views.view import View
from tests.crash.flow import model, shop, tables
from tests.crash.flow.feeding import Fed
from tests.crash.flow.folding import folded
from tests.crash.flow.oracle import Place, balanced, poisoned, records, values

QUERIES = {
    tables.PEOPLE: """
        select city, count(*) people, min(name) first, max(user_id) highest, count(distinct name) names
        from customers where city is not null group by city""",
    tables.EVERYONE: "select count(*) people, sum(user_id) total, max(name) last from customers",
    tables.SIZES: """
        select people, count(*) cities, max(city) last
        from (select city, count(*) people from customers where city is not null group by city) group by people""",
    tables.PODIUM: f"""
        select * from (select user_id, name, row_number() over (order by name desc, user_id) place from customers)
        where place <= {tables.FIRST}""",
    tables.NAMESAKES: f"""
        select * from (
            select user_id, city, length(name) size, rank() over (partition by city order by length(name) desc) place
            from customers
        ) where place <= {tables.FIRST}""",
    tables.LENGTHS: f"""
        select * from (
            select user_id, city, length(name) size,
                dense_rank() over (order by length(name), city desc nulls last) place
            from customers
        ) where place <= {tables.FIRST}""",
    tables.NEIGHBOURS: """
        select user_id, city, length(name) size,
            lag(user_id) over (partition by city order by length(name), user_id) before
        from customers""",
    tables.SHARED: f"""
        select city, copy from (
            select city, row_number() over (partition by city order by user_id) copy
            from customers where city is not null and user_id < {2 * tables.CLUB}
        ) theirs
        where copy <= (select count(*) from customers own where own.city = theirs.city and user_id >= {tables.CLUB})""",
    tables.UNKNOWN: "select city from customers except select city from cities",
    tables.SETTLED: "select * from customers where city in (select city from cities)",
    tables.UNSETTLED: """
        select * from customers where not exists (select 1 from cities where cities.city = customers.city)""",
    tables.EMPTIED: f"""
        select * from cities where city not in (select city from customers where user_id < {tables.CLUB})""",
    tables.EVERYWHERE: "select city, mayor, (select count(*) from customers) people from cities",
    tables.INHABITED: "select city from customers intersect select city from cities",
    tables.SPARE: """
        select city, copy from (
            select city, row_number() over (partition by city order by user_id) copy from customers
        ) theirs
        where copy <= (select count(*) from customers own where own.city is theirs.city)
                    - (select count(*) from cities own where own.city is theirs.city)""",
    tables.MATCHED: """
        select user_id, name, coalesce(customers.city, cities.city) city, mayor
        from customers full join cities on cities.city = customers.city""",
    tables.KNOWN: "select city from customers union select city from cities",
}
KEYS = {
    tables.NAMESAKES: ["user_id"],
    tables.UNSETTLED: ["user_id"],
    tables.UNKNOWN: ["city"],
    tables.SPARE: ["city", "copy"],
    tables.MATCHED: ["user_id", "city"],
    tables.KNOWN: ["city"],
}
"""Of changelogs."""
COLUMNS = {"customers": ("user_id", "name", "city"), "cities": ("city", "mayor")}
Rows = list[dict[str, Any]]


def differences(place: Place, fed: Sequence[Fed]) -> list[str]:
    wanted = wanted_of(fed)
    with Client(place.address) as client:
        accounts = values(client, tables.ACCOUNTS)
        return [
            *(one for name in tables.VIEWS for one in view(place, name, wanted[name], fed)),
            *(one for name in tables.CHANGELOGS for one in changelog(records(client, name), name, wanted[name])),
            *(
                one
                for name in QUERIES
                for one in balanced(accounts, fed, topics_of(name), [name], tables.ACCOUNTS)
            ),
            *poisoned(client, fed, tables.APP, shop.CUSTOMERS),
        ]  # fmt: skip


def wanted_of(fed: Sequence[Fed]) -> dict[str, Rows]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        for table, rows in (("customers", model.customers_of(fed)), ("cities", model.cities_of(fed))):
            columns = COLUMNS[table]
            connection.execute(f"create table {table} ({', '.join(columns)})")
            said = ", ".join(f":{column}" for column in columns)
            connection.executemany(f"insert into {table} values ({said})", rows)
        return {name: [dict(row) for row in connection.execute(query)] for name, query in QUERIES.items()}


def topics_of(output: str) -> Sequence[str]:
    return [shop.CUSTOMERS] if output in tables.OUTPUTS_OF_CUSTOMERS else [shop.CUSTOMERS, shop.CITIES]


def view(place: Place, name: str, wanted: Rows, fed: Sequence[Fed]) -> Iterator[str]:
    store: str | Path = place.store if name in tables.VIEWS_ELSEWHERE else place.data
    with View.open(store, tables.APP, name) as opened:
        held, position = opened.rows(), opened.position()
    yield from same_rows(f"view {name}", held, wanted)
    ends = {topic: {0: sum(one.topic == topic for one in fed)} for topic in topics_of(name)}
    if position != ends:
        yield f"view {name} says it is at {position}, and its topics end at {ends}"


def changelog(changes: Sequence[Any], name: str, wanted: Rows) -> Iterator[str]:
    found = folded(name, changes, KEYS[name])
    yield from found.wrong
    yield from same_rows(name, list(found.table.values()), wanted)


def same_rows(what: str, held: Sequence[Mapping[str, Any]], wanted: Rows) -> Iterator[str]:
    if in_order(held) != in_order(wanted):
        yield f"{what} holds {in_order(held)} and should hold {in_order(wanted)}"


def in_order(rows: Sequence[Mapping[str, Any]]) -> list[list[tuple[str, Any]]]:
    return sorted((sorted(row.items()) for row in rows), key=str)
