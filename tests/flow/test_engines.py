"""Where jobs of tests run is seen."""

from contextlib import nullcontext as nothing_raised
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.engines import moved_to_spark


def refuse() -> SparkSession:
    raise AssertionError("Spark was started")


@pytest.mark.parametrize(
    ("condition", "moved"),
    [("id > 1", []), ("regexp_like(user, 'a')", ["spent needs Spark: regexp_like(...)"])],
    ids=["stays", "moves"],
)
def test_a_job_that_moves_to_spark_is_seen(tmp_path: Path, condition: str, moved: list[str]) -> None:
    app = hw.App("shop")
    orders = app.stream("orders", "id long, user string")
    app.view(name="spent", key="user")(lambda: orders.where(condition).by("user").agg("count(*) as orders"))
    with running_node(tmp_path / "data") as node:
        tester = AppTester(app, node, refuse)
        tester.feed("orders", [{"id": 1, "user": "ann"}])
        with pytest.raises(AssertionError, match="Spark was started") if moved else nothing_raised():
            tester.run()
    assert moved_to_spark(tester) == moved
