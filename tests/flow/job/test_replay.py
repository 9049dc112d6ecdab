"""A backlog in which one partition is an hour ahead: nothing is late merely because it was read later.

Spark's own watermark is the newest time of all partitions; the same replay through it is shown beside, and loses rows.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.flow.run.app_tester import AppTester

Tester = Callable[[hw.App], AppTester]
SCHEMA = "id string, page string, at timestamp"


def click(number: int, *, hour: int) -> dict[str, Any]:
    return {"id": f"c{number}", "page": f"p{number % 3}", "at": f"2026-01-01T{hour:02d}:{number % 100:02d}:00Z"}


AHEAD = [click(number, hour=9) for number in range(100, 140)]
BEHIND = [click(number, hour=8) for number in range(40)]


def clicks_app() -> hw.App:
    app = hw.App("clicks", shards=2)
    clicks = app.stream("clicks", SCHEMA, time="at", lateness="10 minutes", idle=None)

    @app.view(key="page")
    def pages() -> Any:
        return clicks.dedupe("id", within="5 minutes").by("page").agg("count(*) as clicks")

    return app


def with_sparks_watermark(tester: AppTester, folder: Path) -> None:
    """What a Spark user would write, as far as it can be written."""
    clicks = (
        tester.session.readStream.format("headwater")
        .options(data=str(tester.node.data), topic="clicks", time="at", maxRowsPerBatch="20")
        .schema(SCHEMA)
        .load()
    )
    unique = clicks.withWatermark("at", "10 minutes").dropDuplicatesWithinWatermark(["id"])
    writer = unique.writeStream.format("parquet").option("path", str(folder / "rows"))
    writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_slow_partition_loses_nothing_here_and_everything_with_sparks_watermark(
    tester: Tester, tmp_path: Path
) -> None:
    clicks = tester(clicks_app())
    clicks.node.log.create_topic("clicks", partitions=2)
    for rows, partition in ((AHEAD, 0), (BEHIND, 1)):
        clicks.feed("clicks", rows, partition=partition)
        clicks.run(rows_per_batch=25)
        with_sparks_watermark(clicks, tmp_path)
    assert sum(row["clicks"] for row in clicks.rows("pages")) == len(AHEAD) + len(BEHIND)
    assert clicks.account("pages").late == 0
    sparks = clicks.session.read.parquet(str(tmp_path / "rows")).count()
    assert sparks == len(AHEAD), "Spark's watermark has dropped the slower partition, without a word"
