"""Programs that know Spark and nothing of headwater read a topic: no registration, no jar, only the format's name."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from headwater.record import Record
from headwater.testing import running_node

PIPELINE = """\
name: strangers
storage: file://{folder}/storage
libraries:
  - glob:
      include: transformations/**
"""

TRANSFORMATION = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.table
def orders():
    return (
        spark.readStream.format("headwater").option("data", "{data}").option("topic", "orders")
        .schema("id long, amount decimal(12,2)").load()
    )
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_declarative_pipeline_reads_a_topic(tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    (folder / "transformations").mkdir(parents=True)
    (folder / "spark-pipeline.yml").write_text(PIPELINE.format(folder=folder))
    (folder / "transformations" / "orders.py").write_text(TRANSFORMATION.format(data=tmp_path / "data"))
    with running_node(tmp_path / "data") as node:
        node.log.create_topic("orders", partitions=2)
        for number in range(50):
            node.log.append("orders", Record(b'{"id": %d, "amount": 1.5}' % number), partition=number % 2)
        programs = Path(sys.executable).parent
        environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        ran = subprocess.run(
            [programs / "spark-pipelines", "run"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert "Run is COMPLETED" in ran.stdout + ran.stderr, (ran.stdout + ran.stderr)[-2000:]
    table = parquet.read_table(folder / "spark-warehouse" / "orders")
    assert sorted(table["id"].to_pylist()) == list(range(50))
