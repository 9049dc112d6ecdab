"""Who writes reads its write: from a request to the log, through Spark, to the view, and back to whoever asked."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.client import RemoteNode, connect
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node

PAIRS = int(os.environ.get("HEADWATER_PAIRS", "100"))
WRITERS = 25


def counters() -> hw.App:
    app = hw.App("counters", shards=1)
    clicks = app.stream("clicks", "who string, n long")
    app.view(key="who", name="newest")(lambda: clicks.by("who").agg("max(n) as n"))
    return app


def write_and_read(node: RemoteNode, writer: int, pairs: int) -> list[float]:
    """Seconds of every pair. A later write of the same key would hide one that was missed, so each reads its own."""
    took = []
    for number in range(1, pairs + 1):
        began = perf_counter()
        position = node.produce("clicks", {"who": str(writer), "n": number})
        row = node.view("newest").get(str(writer), at_least=position)
        took.append(perf_counter() - began)
        assert row is not None, f"writer {writer} is not there after its write {number}"
        assert row["n"] == number, f"writer {writer} reads {row['n']} after it wrote {number}"
    return took


@pytest.mark.timeout(900)
def test_everybody_reads_what_they_have_just_written(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_node(tmp_path, NodeSettings(http=HttpSettings())) as node:
        node.log.create_topic("clicks", partitions=2)
        flow = RunningApp(counters(), spark, RunSettings(node.data, node.kafka_address))
        flow.start()
        try:
            with ThreadPoolExecutor(WRITERS) as pool:
                remote = connect(node.http_url)
                write_and_read(remote, WRITERS, 1)  # until the view is there, and the first batch is compiled
                each = [pool.submit(write_and_read, remote, writer, PAIRS // WRITERS) for writer in range(WRITERS)]
                took = sorted(second for one in each for second in one.result())
        finally:
            flow.stop()
    assert len(took) == PAIRS
    middle, late = took[PAIRS // 2], took[PAIRS * 99 // 100]
    with capsys.disabled():
        print(f"\n{PAIRS} pairs: p50 {middle:.2f} s, p99 {late:.2f} s, most {took[-1]:.2f} s")
