"""Writes a view as a job would, in a process of its own so that who reads does not slow it down.

    python -m tests.serve.crowd_writer DATA ROWS

Twenty writes in a second, each of so many rows, by the clock: one that takes long is caught up with. Before each it
says its number and the time. It ends, between two writes, when its standard input does.
"""

import sys
import threading
import time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from headwater.views.mark import Mark
from headwater.views.store import open_store
from tests.serve.shop import SCHEMA

WRITES_PER_SECOND = 20
CYCLE = 400
"""Writes after which keys come again."""


def main(data: str, rows: str) -> None:
    store, number, ending = open_store(Path(data), "shop"), 0, threading.Event()
    store.prepare("revenue", SCHEMA, ["country"])
    threading.Thread(target=_wait_for_the_end, args=[ending], daemon=True).start()
    begun = time.monotonic()
    while not ending.wait(max(0.0, begun + number / WRITES_PER_SECOND - time.monotonic())):
        number += 1
        print(number, time.monotonic(), flush=True)
        keys = [f"{number % CYCLE}-{one}" for one in range(int(rows))]
        written = [{"country": key, "amount": Decimal(1), "orders": number} for key in keys]
        mark = Mark("shop.orders", number, {"orders": {0: number}})
        store.write("revenue", mark, pa.Table.from_pylist(written, schema=SCHEMA))
    print("end", number, flush=True)
    store.close()


def _wait_for_the_end(ending: threading.Event) -> None:
    sys.stdin.read()
    ending.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
