"""Records beside a batch that unpacks to too much, as they are read over HTTP."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest

from headwater.log import Log
from headwater.log.batch_format import unpacked
from headwater.log.compression import LARGE_AT_ONCE
from headwater.record import Record
from headwater.settings import HttpSettings, LogSettings, NodeSettings
from headwater.testing import running_node
from tests.log.bombs import PACKED, bomb
from tests.serve.shop import Said, Shop
from tests.waiting import LONG
from tests.wire.fuzz_ports import resident_mib

MIB = 1024**2
MEMORY_MIB = 512


def write(data: Path) -> None:
    """By a node that takes what the next one does not read: for each codec a record, the batch, and a record."""
    with Log.open(data) as log:
        log.create_topic("orders")
        for codec in PACKED:
            log.append("orders", [Record(b"before", timestamp_ms=1)])
            log.partition("orders", 0).append(bomb(300_000, codec, records=3), durable=False)
            log.append("orders", [Record(b"after", timestamp_ms=1)])


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    data = tmp_path_factory.mktemp("bombs")
    write(data)
    settings = NodeSettings(http=HttpSettings(), log=LogSettings(decompressed_bytes_max=100_000))
    with running_node(data, settings) as node:
        yield Shop(node, None)  # type: ignore[arg-type]


def test_the_neighbours_are_shown_and_the_gaps_are_named(shop: Shop) -> None:
    said = shop.get("/topics/orders/records")
    assert said.status == 200, said.body
    assert [one["offset"] for one in said.json["records"]] == [0, 4, 5, 9, 10, 14, 15, 19]
    assert [(one["first"], one["end"]) for one in said.json["damaged"]] == [(1, 4), (6, 9), (11, 14), (16, 19)]
    assert all("unpacks to more than 100000 bytes" in one["reason"] for one in said.json["damaged"])


@pytest.mark.parametrize("offset", range(20))
def test_a_page_may_begin_anywhere(shop: Shop, offset: int) -> None:
    page = shop.get("/topics/orders/records", {"offset": offset, "limit": 1}).json
    assert page["records"][0]["offset"] in (offset, offset + 1, offset + 2, offset + 3)


def test_many_readers_at_once_are_all_answered(shop: Shop) -> None:
    answers: list[Said] = []
    threads = [threading.Thread(target=lambda: answers.append(shop.get("/topics/orders/records"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {(one.status, len(json.loads(one.body)["records"])) for one in answers} == {(200, 8)}


def test_a_request_does_not_wait_long_for_others_that_unpack_large_batches(tmp_path: Path) -> None:
    with running_node(tmp_path, NodeSettings(http=HttpSettings())) as node:
        large = Shop(node, None)  # type: ignore[arg-type]
        node.log.create_topic("large")
        node.log.append("large", [Record(b"small", timestamp_ms=1)])
        node.log.partition("large", 0).append(bomb(5 * 1024**2, "gzip"), durable=False)
        with ExitStack() as held:
            for _ in range(LARGE_AT_ONCE):
                held.enter_context(unpacked(bomb(5 * 1024**2, "gzip"), bytes_max=10 * 1024**2))
            beginning = large.get("/topics/large/records").json
            refused = large.get("/topics/large/records", {"offset": 1})
        assert ([one["offset"] for one in beginning["records"]], beginning["next"]) == ([0], 1)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert [one["offset"] for one in large.get("/topics/large/records").json["records"]] == [0, 1]


def node_process(data: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "headwater", "start", "--data", str(data), "--kafka", "127.0.0.1:0"]
    return subprocess.Popen([*command, "--http", "127.0.0.1:0", "--json"], stdout=subprocess.PIPE)


@pytest.mark.parametrize("kind", ["bomb", "many"])
def test_thirty_reads_of_batches_that_unpack_to_much_cost_the_node_a_bounded_memory(tmp_path: Path, kind: str) -> None:
    """A batch that nothing may read, which took 4.5 GB; and 20 that may be read, of which `limit=1` took 2.75 GB."""
    # As a release did that took whatever came.
    with Log.open(tmp_path) as log, patch("headwater.log.admission.check_unpacked_size"):
        log.create_topic("orders")
        packed = bomb(160 * MIB, "gzip") if kind == "bomb" else bomb(120 * MIB, "gzip")
        for _ in range(1 if kind == "bomb" else 20):
            log.partition("orders", 0).append(bytearray(packed), durable=False)
        log.append("orders", [Record(b"after", timestamp_ms=1)])
    with node_process(tmp_path) as process, ThreadPoolExecutor(10) as threads:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["http"]
            answered(url, "/topics")
            before = peak = resident_mib(process.pid)
            query = "?offset=0" if kind == "bomb" else "?offset=0&limit=1"
            asked = [threads.submit(answered, url, f"/topics/orders/records{query}") for _ in range(30)]
            while not all(one.done() for one in asked):
                peak = max(peak, resident_mib(process.pid))
                time.sleep(0.005)
            said = [one.result() for one in asked]
            peak = max(peak, resident_mib(process.pid))
            assert process.poll() is None
        finally:
            process.terminate()
    print(f"{kind}: {before:.0f} MiB before, {peak:.0f} at most, {sorted(status for status, _ in said)}")
    assert {status for status, _ in said} <= {200, 503}
    pages = [page for status, page in said if status == 200]
    assert pages
    if kind == "bomb":
        assert [one["offset"] for one in pages[0]["records"]] == [1]
        assert "unpacks to more than" in pages[0]["damaged"][0]["reason"]
    assert peak - before < MEMORY_MIB


def answered(url: str, path: str) -> tuple[int, Any]:
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=LONG)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()
