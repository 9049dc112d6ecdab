"""The books of a cluster find what they are there to find."""

import json
from typing import Any

from tests.cluster.books import Books, GroupOffsets

GOOD = {"job": "orders", "output": "sales", "in": 3, "out": 2, "filtered": 1, "duplicates": 0, "late": 0, "poisoned": 0}


def books(*batches: dict[str, Any]) -> Books:
    found = Books()
    found.enter(json.dumps({**GOOD, **batch}).encode() for batch in batches)
    return found


def order(number: int, second: int = 0) -> bytes:
    return json.dumps({"id": f"o{number}", "at": f"2026-03-01T09:00:{second:02}.000+00:00"}).encode()


def test_batches_that_follow_each_other_and_balance_are_right() -> None:
    found = books({"batch": 4}, {"batch": 6}, {"batch": 5})
    assert found.wrong == []
    assert found.accounts["sales"].rows_in == 9


def test_a_batch_that_is_there_twice_is_wrong() -> None:
    assert books({"batch": 0}, {"batch": 1}, {"batch": 1}).wrong == [
        "sales of job orders has batches twice or not at all: twice [1]"
    ]


def test_a_batch_that_is_missing_is_wrong() -> None:
    assert books({"batch": 0}, {"batch": 2}).wrong == ["sales of job orders has batches twice or not at all: twice []"]


def test_an_account_that_does_not_balance_is_wrong() -> None:
    assert books({"batch": 0, "out": 3}).wrong == ["batch 0 of sales does not add up: 3 in: 3 out, 1 filtered"]


def test_no_accounts_at_all_are_wrong() -> None:
    assert books().wrong == ["there are no accounts"]


def test_each_order_is_priced_once_but_for_broken_and_late_ones() -> None:
    orders = [order(1), order(2), order(3), b'{"id": "o4', None, order(5, second=20)]
    found = books({"batch": 0, "output": "orders-priced", "late": 1, "out": 1, "watermark": "2026-03-01T09:00:19Z"})
    found.compare_orders(orders, [order(1), order(3)])
    assert found.wrong == []
    found.compare_orders(orders, [order(1), order(1)])
    assert found.wrong == [
        "2 orders are not priced, such as o2, and 1 were late",
        "1 orders are priced more than once, such as o1",
    ]


def test_orders_after_the_last_watermark_wait_for_those_that_may_be_under_way() -> None:
    orders = [order(1, second=10), order(2, second=16), order(3, second=17), order(4, second=20)]
    marks = ["2026-03-01T09:00:16Z", None, "2026-03-01T09:00:12Z"]
    found = books(*({"batch": n, "output": "orders-priced", "watermark": mark} for n, mark in enumerate(marks)))
    found.compare_orders(orders, [order(1), order(2)])
    assert found.wrong == []
    found.compare_orders(orders, [order(1), order(4)])
    assert found.wrong == ["1 orders are not priced, such as o2, and 0 were late"]


def test_a_topic_that_no_job_has_read_lags_as_a_whole() -> None:
    ends = {("orders", 0): 7, ("clicks", 0): 5}
    offsets = GroupOffsets(ends, {"shop.a": {("orders", 0): 4}})
    assert offsets.lag == 3 + 5
    assert offsets.behind(ends) == ["shop.a", "clicks"]
    read = {"shop.a": {("orders", 0): 7}, "shop.b": {("clicks", 0): 9}}
    assert GroupOffsets(ends, read).behind(ends) == []
