"""A client that does not read costs bounded memory: five hundred consumers, a hundred of which never read an answer."""

from pathlib import Path

from benchmarks.contenders import HEADWATER, Contender
from benchmarks.memory import PARTITIONS, peak_with_consumers
from benchmarks.plan import QUICK
from benchmarks.raw_load import produce
from tests.clients.brokers.headwater_node import start_headwater

MEBIBYTE = 1024**2


def test_silent_consumers_cost_less_than_64_mebibytes(tmp_path: Path) -> None:
    node = start_headwater(tmp_path)
    try:
        contender = Contender(HEADWATER, node)
        contender.create_topic("read-by-few", PARTITIONS)
        produce(node.address, "read-by-few", PARTITIONS, size=1000, records=200_000, acks=1)
        before = node.resident_bytes()
        peak = peak_with_consumers(contender, "read-by-few", QUICK)
    finally:
        node.stop()
    assert peak - before < 64 * MEBIBYTE
