import stat
import tempfile
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from headwater.clock import SystemClock
from headwater.demo.catalogue import COUNTRIES, PRODUCTS, USERS
from headwater.demo.database import Merchant, newest_programs, shop_database
from headwater.demo.traffic import Traffic
from headwater.errors import UnavailableError
from tests.waiting import LONG


def test_the_shop_has_users_who_move_and_prices_that_stay_near_their_list() -> None:
    programs = newest_programs()
    assert programs is not None
    with shop_database(programs) as url, psycopg.connect(url, autocommit=True) as connection:
        merchant = Merchant(url, Random(1))
        for _ in range(200):
            merchant.change(connection)
        prices: dict[int, Decimal] = dict(connection.execute("SELECT id, price FROM products").fetchall())
        assert_private(Path(parse_qs(urlsplit(url).query)["host"][0]))
        moved = connection.execute("SELECT id, country FROM users ORDER BY id").fetchall()
    assert prices.keys() == {one.id for one in PRODUCTS}
    assert prices != {one.id: one.price for one in PRODUCTS}
    assert all(Decimal("0.69") < prices[one.id] / one.price < Decimal("1.31") for one in PRODUCTS)
    assert len(moved) == len(USERS)
    assert moved != [(one.id, one.country) for one in USERS]
    assert {country for _, country in moved} <= set(COUNTRIES)


def assert_private(folder: Path) -> None:
    """Whoever comes to the socket is the superuser."""
    sockets = [folder, *(one for one in folder.iterdir() if one.is_socket())]
    assert len(sockets) == 2
    assert all(stat.S_IMODE(one.stat().st_mode) & 0o077 == 0 for one in sockets)


def test_a_server_that_cannot_be_made_says_why_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:
        programs, temporary = Path(name), Path(name) / "temporary"
        temporary.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        (programs / "initdb").write_text("#!/bin/sh\necho 'no space left on device' >&2\nexit 1\n")
        for one in (programs, programs / "initdb"):
            one.chmod(0o755)  # also for the user that servers run as
        with pytest.raises(UnavailableError, match=r"initdb failed in .*: no space left on device"):
            shop_database(programs).__enter__()
        assert list(temporary.iterdir()) == []


def test_customers_who_stop_coming_for_a_fault_of_ours_are_not_taken_for_a_quiet_day() -> None:
    class Broken:
        def until(self, now_ms: int) -> Any:
            raise BufferError("the queue is full")

    customers: Any = Broken()
    traffic = Traffic("127.0.0.1:1", customers, SystemClock())
    traffic.start()
    traffic._thread.join(LONG)
    traffic.stop()
    assert traffic.failure == "BufferError: the queue is full"


def test_a_database_that_goes_away_is_reported_and_not_waited_for() -> None:
    merchant = Merchant("postgresql://postgres@/shop?host=/nowhere", Random(1))
    merchant.start()
    merchant.stop()
    assert isinstance(merchant.failure, psycopg.OperationalError)
