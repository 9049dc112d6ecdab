import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

import headwater as hw
from examples.shop import main

ORDERS = [
    {"id": 1, "customer": "ada", "amount": 120.50, "currency": "EUR", "items": ["lamp", "rug"]},
    {"id": 2, "customer": "alan", "amount": 18, "currency": "SEK", "items": ["rug"]},
    {"id": 3, "customer": "ada", "amount": 0, "currency": "EUR", "items": []},
]


def run(data: Path) -> None:
    """In a process of its own, as it is meant to be: a process has one Spark."""
    command = [sys.executable, "-m", "headwater", "run", str(Path(main.__file__)), "--once", "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_views_follow_the_orders(tmp_path: Path) -> None:
    with hw.Log.open(tmp_path) as log:
        log.create_topic("orders")
        log.append("orders", [hw.Record(json.dumps(order).encode()) for order in ORDERS])
    run(tmp_path)
    with hw.View.open(tmp_path, "shop", "revenue") as revenue:
        assert revenue.get("EUR") == {"currency": "EUR", "orders": 1, "revenue": Decimal("120.50")}
    with hw.View.open(tmp_path, "shop", "best_sellers") as best_sellers:
        assert best_sellers.rows() == [{"item": "rug", "count": 2}]
    with hw.Log.open(tmp_path) as log:
        assert [record.key for record in log.read("large-orders")] == [b'{"id":1}']
