"""Senders over HTTP that outlive the node: each request is stored once, however often it had to be sent."""

import json
import threading
import time
from collections import Counter
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from random import Random

from headwater.log.log import Log
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import free_port
from tests.waiting import LONG, patience

ROUNDS, SENDERS, LINES, PARTITIONS = 3, 3, 4, 3
PATIENCE_SECONDS = 120


class Sender(threading.Thread):
    """Posts one request after the other, each with a name of its own and until it has an answer."""

    def __init__(self, name: str, port: int, end: threading.Event) -> None:
        super().__init__(name=name)
        self._port, self._end = port, end
        self.answered: list[str] = []
        self.repeated = 0
        self.odd: list[int] = []

    def run(self) -> None:
        while not self._end.is_set():
            self._send(f"{self.name}-{len(self.answered)}")

    def _send(self, request: str) -> None:
        body = "\n".join(json.dumps({"id": f"{request}-{line}"}) for line in range(LINES))
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": request}
        deadline = patience() + PATIENCE_SECONDS
        while patience() < deadline:
            connection = HTTPConnection("127.0.0.1", self._port, timeout=LONG)
            try:
                connection.request("POST", "/topics/orders?key=id", body, headers)
                answer = connection.getresponse()
                answer.read()
            except (OSError, HTTPException):
                time.sleep(0.02)
                continue
            finally:
                connection.close()
            if answer.status == 200:
                self.repeated += answer.headers.get("Idempotent-Replayed") == "true"
                self.answered.append(request)
                return
            self.odd.append(answer.status)
        raise TimeoutError(f"no answer to {request}")


def test_what_is_posted_to_a_node_that_is_killed_is_stored_once(tmp_path: Path) -> None:
    random, port, end = Random(6), free_port(), threading.Event()
    with Log.open(tmp_path / "data") as log:
        log.create_topic("orders", partitions=PARTITIONS)
    senders = [Sender(f"sender{number}", port, end) for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    try:
        for _ in range(ROUNDS):
            before = sum(len(sender.answered) for sender in senders)
            node = start_headwater(tmp_path, ["--http", f"127.0.0.1:{port}"])
            wait_until_answered(senders, before + 20)
            time.sleep(random.uniform(0, 0.2))
            node.kill()
        node = start_headwater(tmp_path, ["--http", f"127.0.0.1:{port}"])
    finally:
        end.set()
        for sender in senders:
            sender.join(PATIENCE_SECONDS)
    node.stop()
    assert [status for sender in senders for status in sender.odd if status != 409] == []
    found: Counter[str] = Counter()
    with Log.open(tmp_path / "data") as log:
        for number in range(PARTITIONS):
            found.update(json.loads(record.value or b"{}")["id"] for record in log.read("orders", number))
    expected = {f"{request}-{line}" for sender in senders for request in sender.answered for line in range(LINES)}
    assert set(found) == expected
    assert [name for name, count in found.items() if count != 1] == []


def wait_until_answered(senders: list[Sender], count: int) -> None:
    deadline = patience() + PATIENCE_SECONDS
    while sum(len(sender.answered) for sender in senders) < count:
        assert patience() < deadline, "the senders get no answers"
        time.sleep(0.01)
