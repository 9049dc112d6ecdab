"""The port of StatsD: what is sent there is in the topic once an interval is over."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.capture.appender import LogAppender
from headwater.capture.definition import Definition
from headwater.capture.notes import Notes
from headwater.capture.runner import Runner
from headwater.capture.statsd_udp import aggregation
from headwater.capture.statsd_udp import source as source_module
from headwater.capture.statsd_udp.source import StatsdSettings, StatsdSource, dropped_by_kernel
from headwater.clock import ManualClock
from headwater.errors import InvalidCapture, SourceRefused, UnsafeBind
from headwater.log.log import Log

INTERVAL_MS = 10_000


class Listening:
    def __init__(self, folder: Path) -> None:
        self.log, self.folder, self.clock = Log.open(folder / "data"), folder, ManualClock()

    def start(self) -> "Listening":
        appender = LogAppender(self.log)
        settings = StatsdSettings(capture="m", address=("127.0.0.1", 0), topic="metrics")
        self.source = StatsdSource(settings, self.clock)
        self.runner = Runner(
            self.source, appender, Notes(appender, "m"), folder=self.folder / "capture", clock=self.clock
        )
        self.runner.open()
        self.runner.step(0)
        return self

    def send(self, *packets: bytes) -> "Listening":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for packet in packets:
                sender.sendto(packet, self.source.address)
        return self

    def flush(self) -> list[dict[str, Any]]:
        """What the interval that now ends has emitted."""
        before = len(list(self.log.read("metrics", 0)))
        self.clock.advance(INTERVAL_MS)
        self.runner.step(0)
        return self.emitted()[before:]

    def emitted(self) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"") for record in self.log.read("metrics", 0)]


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Listening]:
    made = Listening(tmp_path).start()
    yield made
    made.source.close()
    made.log.close()


def test_an_interval_emits_every_series_once(listening: Listening) -> None:
    listening.send(b"hits:1|c|#page:a\nhits:1|c|@0.5|#page:a", b"hits:5|c", b"load:10|ms\nload:30|ms", b"u:x|s\nu:x|s")
    *metrics, receiver = listening.flush()
    assert [(row["metric"], row["tags"], row.get("value", row.get("count"))) for row in metrics] == [
        ("hits", {"page": "a"}, 3.0), ("hits", {}, 5.0), ("load", {}, 2.0), ("u", {}, 1),
    ]  # fmt: skip
    assert metrics[0]["per_second"] == pytest.approx(0.3)
    assert (metrics[2]["min"], metrics[2]["max"], metrics[2]["mean"]) == (10.0, 30.0, 20.0)
    assert (receiver["packets"], receiver["bad_lines"], receiver["dropped_by_kernel"]) == (4, 0, 0)
    assert [record.key for record in listening.log.read("metrics", 0)] == [b"hits", b"hits", b"load", b"u",
                                                                           b"headwater.statsd"]  # fmt: skip


def test_counters_start_over_and_gauges_continue(listening: Listening) -> None:
    listening.send(b"hits:1|c\nroom:20|g").flush()
    assert [row["metric"] for row in listening.flush()] == ["headwater.statsd"]
    hits, room, _ = listening.send(b"hits:4|c\nroom:-3|g\nroom:+1|g").flush()
    assert (hits["value"], room["value"]) == (4.0, 18.0)


def test_a_gauge_is_known_after_a_restart_and_a_clock_that_went_back(listening: Listening) -> None:
    listening.send(b"room:20|g").flush()
    listening.runner.abandon()
    listening.clock.jump_wall(-3_600_000)
    listening.start()
    room, _ = listening.send(b"room:+1|g").flush()
    assert room["value"] == 21.0


def test_a_capture_that_was_removed_and_created_again_continues_in_its_topic(listening: Listening) -> None:
    listening.send(b"hits:1|c").flush()
    listening.runner.abandon()
    Notes(LogAppender(listening.log), "m").forget()
    hits, _ = listening.start().send(b"hits:2|c").flush()
    assert hits["value"] == 2.0


def test_stopping_emits_what_was_aggregated(listening: Listening) -> None:
    listening.send(b"hits:7|c")
    listening.runner.close()
    assert [row["metric"] for row in listening.emitted()] == ["hits", "headwater.statsd"]


def test_what_the_kernel_dropped_is_counted(listening: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    listening.runner.abandon()
    monkeypatch.setattr(source_module, "BUFFER_BYTES", 4096)
    listening.start()
    sent = 500
    listening.send(*[b"hits:1|c|#pad:" + b"x" * 200] * sent)
    hits, receiver = listening.flush()
    assert receiver["dropped_by_kernel"] > 0
    assert hits["value"] + receiver["dropped_by_kernel"] == sent
    assert "the kernel has dropped" in listening.source.status().warning
    (again,) = listening.flush()
    assert again["dropped_by_kernel"] == 0, "each is emitted once"


def test_series_beyond_the_limit_are_counted(listening: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregation, "SERIES_MAX", 2)
    *metrics, receiver = listening.send(b"a:1|c\nb:1|c\nc:1|c\na:1|c").flush()
    assert [(row["metric"], row["value"]) for row in metrics] == [("a", 2.0), ("b", 1.0)]
    assert receiver["refused"] == 1


def test_many_senders_at_once_are_all_received(listening: Listening) -> None:
    threads = [threading.Thread(target=listening.send, args=[b"hits:1|c"] * 50) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hits, _ = listening.flush()
    assert hits["value"] == 400.0


def test_a_port_that_is_taken_is_said(listening: Listening) -> None:
    settings = StatsdSettings(capture="m", address=listening.source.address, topic="metrics")
    with pytest.raises(SourceRefused, match="cannot be listened at"):
        StatsdSource(settings, ManualClock()).open({})


def test_the_table_of_sockets_is_read(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when rtx uid timeout inode ref pointer drops"
    line = "  7: 0100007F:1FBD 00000000:0000 07 00000000:00000000 00:00000000 00000000  0  0 4711 2 0000000000000000 42"
    (tmp_path / "udp").write_text(f"{head}\n{line}\n")
    assert (dropped_by_kernel(4711, tmp_path), dropped_by_kernel(1, tmp_path)) == (42, 0)


def test_only_this_machine_is_listened_to_unless_it_is_asked_for() -> None:
    with pytest.raises(UnsafeBind):
        Definition(name="m", url="statsd://0.0.0.0:8125")
    assert Definition(name="m", url="statsd://0.0.0.0:8125", public=True).topic_template == "{capture}"
    with pytest.raises(InvalidCapture, match="no address to listen at"):
        Definition(name="m", url="statsd://127.0.0.1")
    with pytest.raises(InvalidCapture, match="has no tables"):
        Definition(name="m", url="statsd://127.0.0.1:8125", tables=("users",))
