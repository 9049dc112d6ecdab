"""Load without a client library: prebuilt requests over plain sockets, so that the broker is the only limit.

`python -m benchmarks.raw_load produce|fetch ...` prints what it did as one line of JSON.
"""

import argparse
import json
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.process_clock import Meter
from benchmarks.raw_protocol import check_produce_response, fetch_request, produce_request, read_fetch_response
from headwater.log.batch_format import encode_batch
from headwater.record import Record

BATCH_BYTES = 256 * 1024
CONNECTIONS = 2
IN_FLIGHT = 4
FETCH_BYTES_MAX, PARTITION_BYTES_MAX = 8 * 1024**2, 2 * 1024**2


class Connection:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(FETCH_BYTES_MAX + 4 * 1024**2))

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> memoryview:
        """The next answer without its length and correlation id; valid until the next call."""
        self._fill(self._buffer[:8])
        (length,) = struct.unpack_from(">i", self._buffer)
        if length > len(self._buffer):
            self._buffer = memoryview(bytearray(length))
        self._fill(self._buffer[: length - 4])
        return self._buffer[: length - 4]

    def close(self) -> None:
        self._socket.close()

    def _fill(self, view: memoryview) -> None:
        while view:
            received = self._socket.recv_into(view)
            if received == 0:
                raise ConnectionError("the broker closed the connection")
            view = view[received:]


def batch_of(size: int) -> tuple[bytearray, int]:
    """A batch of about BATCH_BYTES with records of `size` bytes, and how many they are."""
    count = max(1, BATCH_BYTES // size)
    now_ms = time.time_ns() // 1_000_000
    return encode_batch([Record(b"x" * size, timestamp_ms=now_ms) for _ in range(count)]), count


def produce(address: str, topic: str, partitions: int, *, size: int, records: int, acks: int) -> int:
    """Send at least `records` records over all partitions; answers how many it were."""
    batch, per_batch = batch_of(size)
    requests = [produce_request(topic, partition, batch, acks=acks) for partition in range(partitions)]
    share = -(-records // (per_batch * CONNECTIONS))

    def work(number: int) -> None:
        connection = Connection(address)
        for sent in range(share + IN_FLIGHT):
            if sent < share:
                connection.send(requests[(sent * CONNECTIONS + number) % partitions])
            if sent >= IN_FLIGHT:
                check_produce_response(connection.receive())
        connection.close()

    together(work, CONNECTIONS)
    return share * per_batch * CONNECTIONS


def fetch(address: str, topic: str, partitions: int) -> int:
    """Read all that is there; answers how many records it were."""
    counts = [0] * min(CONNECTIONS, partitions)

    def work(number: int) -> None:
        connection = Connection(address)
        offsets = {partition: 0 for partition in range(partitions) if partition % len(counts) == number}
        while offsets:
            request = fetch_request(
                topic, offsets, bytes_max=FETCH_BYTES_MAX, partition_bytes_max=PARTITION_BYTES_MAX, wait_ms=500
            )
            connection.send(request)
            came = read_fetch_response(connection.receive(), offsets)
            counts[number] += sum(one.next_offset - offsets[one.partition] for one in came)
            # What was read to its end is not asked for again: the broker would wait for more.
            offsets = {one.partition: one.next_offset for one in came if one.next_offset < one.high_watermark}
        connection.close()

    together(work, len(counts))
    return sum(counts)


def together(work: Callable[[int], None], count: int) -> None:
    """Do the work of all connections at once; the first error of any is raised."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["produce", "fetch"])
    parser.add_argument("--address", required=True)
    parser.add_argument("--topic", required=True)
    for name in ("--partitions", "--size", "--records"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--acks", type=int, default=1)
    given = parser.parse_args()
    meter = Meter()
    if given.what == "produce":
        done = produce(
            given.address, given.topic, given.partitions, size=given.size, records=given.records, acks=given.acks
        )
    else:
        done = fetch(given.address, given.topic, given.partitions)
    print(json.dumps(meter.report(records=done)))


if __name__ == "__main__":
    main()
