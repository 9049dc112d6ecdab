"""StatsD as a source: a UDP port whose metrics are aggregated and emitted once every interval.

UDP promises nothing. The kernel counts packets that it dropped because its buffer was full; the count is emitted in
every interval beside the metrics; what a killed node had aggregated since the last interval is lost.
"""

import os
import selectors
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path

from headwater.capture.change import (
    CREATE,
    RECORDS_PER_CHANGE,
    CapturedTable,
    Change,
    Plain,
    SourcePosition,
    next_generation,
)
from headwater.capture.notes import Note
from headwater.capture.source import Batch, SourceStatus
from headwater.capture.statsd_udp.aggregation import Gathered, Series
from headwater.capture.statsd_udp.decoding import GAUGE, decode
from headwater.clock import Clock
from headwater.errors import InvalidCapture, SourceRefused, SourceUnavailable

PACKET_BYTES_MAX = 65_535
BUFFER_BYTES = 8 * 1024**2
PACKETS_A_TURN = 2_000
RECEIVER = "headwater.statsd"
NOTED_GAUGES_MAX = 10_000
SOCKET_TABLES = ("udp", "udp6")


@dataclass(frozen=True, kw_only=True)
class StatsdSettings:
    capture: str
    address: tuple[str, int]
    topic: str
    interval_seconds: float = 10.0


class StatsdSource:
    """A ChangeSource; see source.py for the contract. There is nothing to repeat: a metric is emitted once."""

    def __init__(self, settings: StatsdSettings, clock: Clock) -> None:
        self.settings, self._clock = settings, clock
        self._table = CapturedTable("statsd", "metrics", settings.topic, ("metric",), (), plain=True)
        self._packets = self._bad = self._flushes = self._dropped = 0
        self._noted: Note | None = None
        self._status = SourceStatus()
        self._socket: socket.socket | None = None
        self._selector = selectors.DefaultSelector()

    # -- opening and closing -----------------------------------------------------------------------------------------

    def open(self, notes: Mapping[str, Note]) -> None:
        family = socket.AF_INET6 if ":" in self.settings.address[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            self._socket.bind(self.settings.address)
        except OSError as error:
            self.close()
            where = "{}:{}".format(*self.settings.address)
            raise SourceRefused(f"{where} cannot be listened at: {error.strerror}", "Choose another port.") from None
        self._socket.setblocking(False)
        self._selector.register(self._socket, selectors.EVENT_READ)
        # A new run has positions after all others, whatever the wall clock has done meanwhile.
        last = int(str(notes.get("run", {}).get("generation", 0)))
        self._generation = next_generation(last, self._clock.now_ms())
        self._noted = {"generation": self._generation}
        self._begin(_gauges_from(notes.get("gauges")))

    def _begin(self, gauges: dict[Series, float]) -> None:
        self._gathered = Gathered(gauges)
        self._packets = self._bad = 0
        self._from_ms, self._since_ms = self._clock.now_ms(), self._clock.elapsed_ms()

    @property
    def address(self) -> tuple[str, int]:
        assert self._socket is not None
        host, port = self._socket.getsockname()[:2]
        return host, port

    def close(self) -> None:
        if self._socket is not None:
            self._selector.close()
            self._socket.close()
            self._socket = None

    def tables(self) -> Sequence[CapturedTable]:
        return [self._table]

    # -- metrics -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_seconds: float) -> Batch:
        if self._noted is not None:
            # Durable before anything is emitted under it.
            noted, self._noted = self._noted, None
            return Batch(notes={"run": noted})
        deadline_ms = self._clock.elapsed_ms() + int(timeout_seconds * 1000)
        while True:
            self._receive()
            now_ms = self._clock.elapsed_ms()
            due_ms = self._since_ms + int(self.settings.interval_seconds * 1000)
            if now_ms >= due_ms:
                return self.drain()
            if now_ms >= deadline_ms:
                return Batch()
            self._selector.select((min(due_ms, deadline_ms) - now_ms) / 1000)

    def _receive(self) -> None:
        assert self._socket is not None
        for _ in range(PACKETS_A_TURN):
            try:
                packet = self._socket.recv(PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError as error:
                raise SourceUnavailable(f"the port of StatsD does not answer: {error.strerror}") from None
            metrics, bad = decode(packet)
            self._packets += 1
            self._bad += bad
            for metric in metrics:
                self._gathered.take(metric)

    def drain(self) -> Batch:
        """Emits all aggregated metrics: at the end of an interval, or when the capture is stopped."""
        self._receive()
        to_ms = self._clock.now_ms()
        rows = self._gathered.rows(from_ms=self._from_ms, to_ms=to_ms)
        rows.append((RECEIVER, self._own_figures(to_ms)))
        self._flushes += 1
        changes = [self._change(index, name, row, to_ms) for index, (name, row) in enumerate(rows)]
        gauges = self._gathered.gauges
        has_gauges = any(series[0] == GAUGE for series in self._gathered.touched)
        self._begin(gauges)
        return Batch(changes, {"gauges": _gauges_note(gauges)} if has_gauges else {})

    def _change(self, index: int, name: str, row: Mapping[str, object], to_ms: int) -> Change:
        value = dumps(row, ensure_ascii=False, separators=(",", ":")).encode()
        position = SourcePosition((self._generation << 64) + self._flushes, 0, index * RECORDS_PER_CHANGE)
        return Change(self._table, CREATE, position, b"", time_ms=to_ms, plain=Plain(name.encode(), value))

    def _own_figures(self, to_ms: int) -> dict[str, object]:
        assert self._socket is not None
        total = dropped_by_kernel(os.fstat(self._socket.fileno()).st_ino)
        fresh, self._dropped = total - self._dropped, total
        self._status.position = f"{to_ms}"
        self._status.lag_seconds = 0.0
        self._status.warning = f"the kernel has dropped {total:,} packets: its receive buffer was full" if total else ""
        if self._gathered.refused:
            self._status.warning += f" {self._gathered.refused:,} metrics were too many in one interval"
        return {
            "metric": RECEIVER,
            "kind": "receiver",
            "tags": {},
            "from_ms": self._from_ms,
            "to_ms": to_ms,
            "packets": self._packets,
            "bad_lines": self._bad,
            "refused": self._gathered.refused,
            "dropped_by_kernel": fresh,
        }

    # -- what there is no need for -----------------------------------------------------------------------------------

    def confirm(self, address: int) -> None:
        """No caller waits for a confirmation."""

    def read_row(self, table: str, key: tuple[str, ...], *, moved: bool) -> None:
        """There are no rows."""

    def copy_again(self, tables: Sequence[str], *, where: str = "") -> None:
        raise InvalidCapture("metrics are emitted once, and cannot be copied again")

    def status(self) -> SourceStatus:
        return self._status


def dropped_by_kernel(inode: int, folder: Path = Path("/proc/net")) -> int:
    """How many packets the kernel had no room for at a socket, from the last column of its tables."""
    for name in SOCKET_TABLES:
        try:
            lines = (folder / name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            if columns[9] == str(inode):
                return int(columns[-1])
    return 0


def _gauges_note(gauges: Mapping[Series, float]) -> Note:
    last = list(gauges.items())[-NOTED_GAUGES_MAX:]
    return {"last": [[name, [list(tag) for tag in tags], value] for (_, name, tags), value in last]}


def _gauges_from(note: Note | None) -> dict[Series, float]:
    last = note.get("last") if note else None
    found: dict[Series, float] = {}
    for name, tags, value in last if isinstance(last, list) else []:
        found[GAUGE, name, tuple((tag, text) for tag, text in tags)] = float(value)
    return found
