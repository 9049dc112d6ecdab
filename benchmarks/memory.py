"""Memory: five hundred connected consumers, a hundred of which never read what they asked for."""

import selectors
import socket
import struct
from contextlib import ExitStack

from benchmarks.contenders import Contender, Field
from benchmarks.loading import RAW, Load
from benchmarks.plan import Plan
from benchmarks.process_clock import now_seconds
from benchmarks.progress import Progress
from benchmarks.raw_protocol import fetch_request
from benchmarks.results import Case, Results

SECTION = "memory"
PARTITIONS = 4
RECORD_BYTES = 1000
FILLED_BYTES = 400_000_000
FETCH_BYTES_MAX = 50 * 1024**2
REQUESTS_OF_A_SILENT_ONE = 8
RECEIVE_BUFFER_BYTES = 64 * 1024


def measure(field: Field, plan: Plan, results: Results, progress: Progress) -> None:
    for contender in field.for_fetch():
        progress.say(f"memory: {contender.name}, {plan.consumers} consumers, {plan.silent_consumers} of them silent")
        with contender.topic(PARTITIONS) as topic:
            Load(RAW, PARTITIONS, RECORD_BYTES, FILLED_BYTES // RECORD_BYTES).run("produce", contender, topic)
            before = contender.process.resident_bytes()
            peak = peak_with_consumers(contender, topic, plan)
            results.add(
                Case(SECTION),
                contender.name,
                before=before / 1024**2,
                peak=peak / 1024**2,
                growth=(peak - before) / 1024**2,
            )


def peak_with_consumers(contender: Contender, topic: str, plan: Plan) -> int:
    """The largest resident size seen while all consumers are connected and the lively ones read."""
    host, _, port = contender.address.rpartition(":")
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    whole = fetch_request(topic, offsets, bytes_max=FETCH_BYTES_MAX, partition_bytes_max=FETCH_BYTES_MAX, wait_ms=500)
    small = fetch_request(topic, offsets, bytes_max=1_000_000, partition_bytes_max=250_000, wait_ms=500)
    with ExitStack() as stack:
        consumers = [stack.enter_context(connected(host, int(port))) for _ in range(plan.consumers)]
        for silent in consumers[: plan.silent_consumers]:
            silent.sendall(whole * REQUESTS_OF_A_SILENT_ONE)
        return read_for(plan.memory_seconds, consumers[plan.silent_consumers :], small, contender)


def connected(host: str, port: int) -> socket.socket:
    connection = socket.socket()
    # Set before connecting, so that the kernel's own buffers stay small and the broker's are what is tried.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    connection.connect((host, port))
    return connection


def read_for(seconds: float, consumers: list[socket.socket], request: bytes, contender: Contender) -> int:
    """Let the lively consumers ask and read in turn, and watch the broker meanwhile."""
    with selectors.DefaultSelector() as selector:
        for consumer in consumers:
            selector.register(consumer, selectors.EVENT_READ, Reading(consumer, request))
        end, peak, looked = now_seconds() + seconds, 0, 0.0
        while now_seconds() < end:
            for key, _ in selector.select(timeout=0.1):
                key.data.take()
            if now_seconds() - looked > 0.1:
                looked, peak = now_seconds(), max(peak, contender.process.resident_bytes())
        return peak


class Reading:
    """A consumer that asks again as soon as it has its answer."""

    def __init__(self, connection: socket.socket, request: bytes) -> None:
        self._connection, self._request = connection, request
        self._left = 0
        self._head = b""
        connection.sendall(request)

    def take(self) -> None:
        if self._left == 0:
            self._head += self._connection.recv(4 - len(self._head))
            if len(self._head) < 4:
                return
            (self._left,) = struct.unpack(">i", self._head)
            self._head = b""
        self._left -= len(self._connection.recv(min(self._left, 256 * 1024)))
        if self._left == 0:
            self._connection.sendall(self._request)
