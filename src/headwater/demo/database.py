"""The shop's own database: users who move, and prices that change while people order."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import psycopg

from headwater.demo.catalogue import COUNTRIES, PRODUCTS, USERS
from headwater.demo.cluster import Cluster, binaries, create_database

TABLES = (
    "CREATE TABLE users (id bigint PRIMARY KEY, name text NOT NULL, country text NOT NULL)",
    "CREATE TABLE products (id bigint PRIMARY KEY, title text NOT NULL, category text NOT NULL, price numeric(12,2))",
)
EVERY_SECONDS = 0.7


@contextmanager
def shop_database(programs: Path) -> Iterator[str]:
    """The URL of a database with the shop's tables, in a server that is stopped and deleted after the block."""
    folder = Path(mkdtemp(prefix="headwater-shop-"))
    with ExitStack() as stack:
        stack.callback(rmtree, folder, ignore_errors=True)
        cluster = Cluster(programs, folder, {})
        stack.callback(cluster.stop)
        cluster.start()
        url = create_database(cluster, "shop")
        with psycopg.connect(url) as connection:
            fill(connection)
        yield url


def newest_programs() -> Path | None:
    """Where PostgreSQL's programs are, if they are."""
    return next(iter(binaries().values()), None)


def fill(connection: "psycopg.Connection[Any]") -> None:
    with connection.cursor() as cursor:
        for statement in TABLES:
            cursor.execute(statement)
        cursor.executemany("INSERT INTO users VALUES (%s, %s, %s)", USERS)
        cursor.executemany("INSERT INTO products VALUES (%s, %s, %s, %s)", PRODUCTS)


class Merchant:
    """Changes prices, and writes down who has moved, until it is stopped."""

    def __init__(self, url: str, random: Random) -> None:
        self._url, self._random = url, random
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="headwater-merchant", daemon=True)
        self.failure: psycopg.Error | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                while not self._stopping.wait(EVERY_SECONDS):
                    self.change(connection)
        except psycopg.Error as error:
            self.failure = error

    def change(self, connection: "psycopg.Connection[Any]") -> None:
        product, user = self._random.choice(PRODUCTS), self._random.choice(USERS)
        factor, country = round(self._random.uniform(0.7, 1.3), 2), self._random.choice(COUNTRIES)
        # Of the list price, not of the last one: after a day the shop still sells at sensible prices.
        connection.execute(
            "UPDATE products SET price = round(%s * %s::numeric, 2) WHERE id = %s", (product.price, factor, product.id)
        )
        connection.execute("UPDATE users SET country = %s WHERE id = %s", (country, user.id))
