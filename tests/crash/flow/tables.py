"""The third app that is killed: operators on tables, over the customers and cities of the shop."""

from typing import Any

import headwater as hw
from headwater.flow.declare.topology.naming import accounts_topic
from tests.crash.flow.moments import TABLES
from tests.crash.flow.shop import CITIES, CUSTOMERS, SHARDS

APP = TABLES
PEOPLE, EVERYONE, SIZES, PODIUM, NAMESAKES, LENGTHS, NEIGHBOURS = (
    "people", "everyone", "sizes", "podium", "namesakes", "lengths", "neighbours",
)  # fmt: skip
SETTLED, UNSETTLED, EMPTIED, EVERYWHERE, MATCHED = "settled", "unsettled", "emptied", "everywhere", "matched"
INHABITED, SHARED, UNKNOWN, SPARE, KNOWN = "inhabited", "shared", "unknown", "spare", "known-cities"
ACCOUNTS = accounts_topic(APP)
CHANGELOGS = (NAMESAKES, UNSETTLED, UNKNOWN, SPARE, MATCHED, KNOWN)
VIEWS = (PEOPLE, EVERYONE, SIZES, PODIUM, LENGTHS, NEIGHBOURS, SETTLED, EMPTIED, EVERYWHERE, INHABITED, SHARED)
VIEWS_ELSEWHERE = (PODIUM, INHABITED)
OUTPUTS_OF_CUSTOMERS = (PEOPLE, EVERYONE, SIZES, PODIUM, NAMESAKES, LENGTHS, NEIGHBOURS, SHARED)
FIRST, CLUB = 3, 4
"""So many places there are; and users below this number are in the club."""


def declare(store: str) -> hw.App:
    """Jobs of customers, and of customers and cities. `store` is a database of its own."""
    app = hw.App(APP, shards=SHARDS)
    customers = app.table(CUSTOMERS, "user_id long, name string, city string", key="user_id")
    cities = app.table(CITIES, "city string, mayor string", key="city")
    declare_groups(app, customers, store)
    declare_pairs(app, customers, cities)
    declare_sets(app, customers.select("city"), cities.select("city"), store)
    return app


def declare_groups(app: hw.App, customers: Any, store: str) -> None:
    """Groups, groups of groups, and ranks whose rows are equal in their order."""
    people = customers.where("city is not null").by("city").agg(
        "count(*) as people", "min(name) as first", "max(user_id) as highest", "count(distinct name) as names",
        name=PEOPLE,
    )  # fmt: skip

    @app.view(key="city", name=PEOPLE)
    def grouped() -> Any:
        return people

    @app.view(key=[], name=EVERYONE)
    def everyone() -> Any:
        return customers.agg("count(*) as people", "sum(user_id) as total", "max(name) as last", name=EVERYONE)

    @app.view(key="people", name=SIZES)
    def sizes() -> Any:
        return people.by("people").agg("count(*) as cities", "max(city) as last", name=SIZES)

    @app.view(key="user_id", name=PODIUM, store=store)
    def podium() -> Any:
        return customers.select("user_id", "name").rank(order="name desc", limit=FIRST, name=PODIUM)

    long = customers.select("user_id", "city", "length(name) as size")

    @app.topic(NAMESAKES)
    def namesakes() -> Any:
        """Ranks of names by their length, of which there are few."""
        return long.rank(by="city", order="size desc", how="rank", limit=FIRST, name=NAMESAKES)

    @app.view(key="user_id", name=LENGTHS)
    def lengths() -> Any:
        return long.rank(order=["size", "city desc"], how="dense_rank", limit=FIRST, name=LENGTHS)

    @app.view(key="user_id", name=NEIGHBOURS)
    def neighbours() -> Any:
        return long.lag("user_id", by="city", order="size", into="before", name=NEIGHBOURS)

    @app.view(key=["city", "copy"], name=SHARED)
    def shared() -> Any:
        """Cities of the first users and of the last, of which some are both."""
        first = customers.where(f"city is not null and user_id < {2 * CLUB}")
        last = customers.where(f"user_id >= {CLUB}")
        return first.select("city").intersect(last.select("city"), all=True, name=SHARED)


def declare_pairs(app: hw.App, customers: Any, cities: Any) -> None:
    """Joins that the shop does not have."""

    @app.view(key="user_id", name=SETTLED)
    def settled() -> Any:
        return customers.join(cities, on="city", how="semi", name=SETTLED)

    @app.topic(UNSETTLED)
    def unsettled() -> Any:
        return customers.join(cities, on="city", how="anti", name=UNSETTLED)

    @app.view(key="city", name=EMPTIED)
    def emptied() -> Any:
        """Cities that are NOT IN those of a club, some of whose members may live anywhere."""
        return cities.join(customers.where(f"user_id < {CLUB}"), on="city", how="anti", null_aware=True, name=EMPTIED)

    @app.view(key="city", name=EVERYWHERE)
    def everywhere() -> Any:
        count = customers.agg("count(*) as people", name=f"{EVERYWHERE}.count")
        return cities.with_scalar(count, name=EVERYWHERE)

    @app.topic(MATCHED)
    def matched() -> Any:
        return customers.join(cities, on="city", how="full", name=MATCHED)


def declare_sets(app: hw.App, homes: Any, cities: Any, store: str) -> None:
    """A city is there once for each customer in it, and once if it has a mayor."""

    @app.view(key="city", name=INHABITED, store=store)
    def inhabited() -> Any:
        return homes.intersect(cities, name=INHABITED)

    @app.topic(UNKNOWN)
    def unknown() -> Any:
        return homes.except_(cities, name=UNKNOWN)

    @app.topic(SPARE)
    def spare() -> Any:
        return homes.except_(cities, all=True, name=SPARE)

    @app.topic(KNOWN)
    def known() -> Any:
        return homes.union(cities).distinct("city", name=KNOWN)
