"""A node that stops does not wait for those who wait for it."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.serve.shop import fill, open_shop
from tests.waiting import LONG, patience


@pytest.mark.parametrize("path", ["/views/revenue/rows", "/topics/orders/records"])
def test_a_read_that_waits_for_a_position_fails_when_the_node_stops(tmp_path: Path, path: str) -> None:
    with open_shop(tmp_path) as shop, ThreadPoolExecutor(1) as pool:
        fill(shop)
        waiting = pool.submit(shop.get, path, {"at_least": "orders/0@999", "timeout_ms": 20_000})
        time.sleep(0.3)
        began = patience()
        shop.node.stop()
        took, said = patience() - began, waiting.result(LONG)
    assert (said.status, said.json["error"]) == (503, "UnavailableError")
    assert said.headers["retry-after"] == "1"
    assert took < 3
