from decimal import Decimal
from random import Random

import psycopg

from headwater.demo.catalogue import COUNTRIES, PRODUCTS, USERS
from headwater.demo.database import Merchant, newest_programs, shop_database


def test_the_shop_has_users_who_move_and_prices_that_stay_near_their_list() -> None:
    programs = newest_programs()
    assert programs is not None
    with shop_database(programs) as url, psycopg.connect(url, autocommit=True) as connection:
        merchant = Merchant(url, Random(1))
        for _ in range(200):
            merchant.change(connection)
        prices: dict[int, Decimal] = dict(connection.execute("SELECT id, price FROM products").fetchall())
        moved = connection.execute("SELECT id, country FROM users ORDER BY id").fetchall()
    assert prices.keys() == {one.id for one in PRODUCTS}
    assert prices != {one.id: one.price for one in PRODUCTS}
    assert all(Decimal("0.69") < prices[one.id] / one.price < Decimal("1.31") for one in PRODUCTS)
    assert len(moved) == len(USERS)
    assert moved != [(one.id, one.country) for one in USERS]
    assert {country for _, country in moved} <= set(COUNTRIES)


def test_a_database_that_goes_away_is_told_and_not_waited_for() -> None:
    merchant = Merchant("postgresql://postgres@/shop?host=/nowhere", Random(1))
    merchant.start()
    merchant.stop()
    assert isinstance(merchant.failure, psycopg.OperationalError)
