"""A node starts in order, stops in reverse, and says where it is while it runs."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from headwater import Log, LogSettings, Node, NodeSettings, WireSettings
from headwater.errors import DataDirectoryLocked, PortUnavailable, TopicOffline, UnavailableError, UnsafeBind
from headwater.log.maintenance import Maintenance
from headwater.node import MaintenanceTimer, TransactionUpkeep
from headwater.record import Record
from headwater.settings import NODE_FILE
from tests.waiting import LONG

ANY_PORT = NodeSettings(wire=WireSettings(port=0))


def connect(node: Node) -> socket.socket:
    host, _, port = node.kafka_address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=LONG)


def test_a_started_node_accepts_connections_and_a_stopped_one_does_not(tmp_path: Path) -> None:
    node = Node(tmp_path, ANY_PORT)
    node.start()
    connect(node).close()
    node.stop()
    with pytest.raises(OSError):
        connect(node)


def test_the_data_directory_says_where_the_node_is_while_it_runs(tmp_path: Path) -> None:
    with Node(tmp_path, ANY_PORT) as node:
        said = json.loads((tmp_path / NODE_FILE).read_text())
        bound = {"decompressed_bytes_max": node.settings.log.decompressed_bytes_max}
        assert said == {"kafka": node.kafka_address, "process": os.getpid(), "login": False, "cluster": "", **bound}
    assert not (tmp_path / NODE_FILE).exists()


def test_a_file_left_by_a_killed_node_is_replaced(tmp_path: Path) -> None:
    (tmp_path / NODE_FILE).write_text('{"kafka": "127.0.0.1:1", "process": 1}')
    with Node(tmp_path, ANY_PORT) as node:
        assert json.loads((tmp_path / NODE_FILE).read_text())["kafka"] == node.kafka_address


def test_stopping_twice_is_stopping_once(tmp_path: Path) -> None:
    node = Node(tmp_path, ANY_PORT)
    node.start()
    node.stop()
    node.stop()


def test_a_stopped_node_can_be_started_again_on_what_it_left(tmp_path: Path) -> None:
    node = Node(tmp_path, ANY_PORT)
    node.start()
    node.log.create_topic("orders")
    node.stop()
    node.start()
    assert [topic.name for topic in node.log.topics()] == ["orders"]
    node.stop()


def test_a_node_that_is_not_running_has_no_log(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not running"):
        _ = Node(tmp_path, ANY_PORT).log


def test_a_second_node_on_the_same_directory_is_refused_and_the_first_continues(tmp_path: Path) -> None:
    with Node(tmp_path, ANY_PORT) as first:
        with pytest.raises(DataDirectoryLocked):
            Node(tmp_path, ANY_PORT).start()
        assert json.loads((tmp_path / NODE_FILE).read_text())["kafka"] == first.kafka_address
        connect(first).close()


def test_a_port_that_cannot_be_opened_leaves_the_directory_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = NodeSettings(wire=WireSettings(port=taken.getsockname()[1]))
        with pytest.raises(PortUnavailable, match="it is in use"):
            Node(tmp_path, settings).start()
    Log.open(tmp_path).close()


def test_an_address_that_others_can_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeBind):
        Node(tmp_path, NodeSettings(wire=WireSettings(host="0.0.0.0", port=0))).start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_node_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "headwater", "start", "--data", str(tmp_path), "--kafka", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert b"ready" in process.stdout.readline()
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 0
    assert not (tmp_path / NODE_FILE).exists()
    with Log.open(tmp_path) as log:
        assert log.clean_start


class BrokenLog:
    """A log whose maintenance fails, and that says when it was tried again."""

    def __init__(self) -> None:
        self.passes = 0
        self.tried_again = threading.Event()

    def maintain(self) -> None:
        self.passes += 1
        if self.passes > 1:
            self.tried_again.set()
        raise OSError("the archive is away")


def test_a_failed_maintenance_is_reported_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    log = BrokenLog()
    maintenance = MaintenanceTimer(log, interval_seconds=0.01)
    with caplog.at_level(logging.ERROR):
        maintenance.start()
        assert log.tried_again.wait(LONG)
        maintenance.stop()
    assert maintenance.failures >= 2
    assert "the archive is away" in caplog.text


def test_upkeep_of_transactions_waits_while_the_topic_of_their_states_is_offline(tmp_path: Path) -> None:
    with Log.open(tmp_path) as log:
        log.create_topic("orders")
        with log.transaction("payments") as transaction:
            transaction.append("orders", Record(b"1"))
    for kind in ("json", "copy"):
        (tmp_path / "topics" / f"__transaction_state.{kind}").write_bytes(b"")
    with Log.open(tmp_path) as log:
        with pytest.raises(TopicOffline):
            log.transaction("payments").__enter__()
        TransactionUpkeep(log).maintain()
        assert [record.value for record in log.read("orders")] == [b"1"]


@pytest.mark.parametrize(
    "error", [TopicOffline("__transaction_state", "damaged"), UnavailableError("the disk is away")]
)
def test_other_upkeep_continues_while_that_of_transactions_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def failing(log: Log) -> None:
        raise error

    kept: list[str] = []
    with Log.open(tmp_path) as log:
        log.create_topic("orders")
        with log.transaction("payments") as transaction:
            transaction.append("orders", Record(b"1"))
        monkeypatch.setattr(Log, "transactions", property(failing))
        monkeypatch.setattr(Maintenance, "_maintain", lambda _, partition: kept.append(partition.topic))
        log.maintain()
    assert "orders" in kept


def test_maintenance_runs_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = threading.Event()
    monkeypatch.setattr(Log, "maintain", lambda log: ran.set())
    settings = NodeSettings(log=LogSettings(maintenance_interval=timedelta(milliseconds=10)), wire=WireSettings(port=0))
    with Node(tmp_path, settings):
        assert ran.wait(LONG)
