from collections import Counter
from itertools import islice

from headwater.cli.shop import CLICKS, ORDERS, events


def test_every_run_sells_the_same() -> None:
    assert list(islice(events(), 100)) == list(islice(events(), 100))


def test_some_who_look_also_buy() -> None:
    assert Counter(event.topic for event in islice(events(), 1000)) == {CLICKS: 750, ORDERS: 250}


def test_customers_and_goods_vary() -> None:
    assert len({event.key for event in islice(events(), 200)}) > 8
