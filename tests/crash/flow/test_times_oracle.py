"""The second app in this process, without Spark and without kills: its oracle agrees with it, and finds differences.

Its k-means needs Spark, and is left to the rounds.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import cast

import pytest
from pyspark.sql import SparkSession

from headwater.flow.local.columns import local_columns
from headwater.flow.local.session import LocalSession
from headwater.flow.run.running_app import NO_RETRIES, RunningApp, RunSettings
from headwater.record import Record
from headwater.testing import running_node
from tests.crash.flow import shop, times, times_oracle
from tests.crash.flow.feeding import Fed, Feed
from tests.crash.flow.oracle import Place

ROWS, ROWS_PER_BATCH = 120, 50
OUTPUTS = tuple(one for one in times.OUTPUTS_OF_ORDERS if one != times.CENTRES)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, list[Fed]]]:
    folder = tmp_path_factory.mktemp("times")
    with running_node(folder / "data") as node, pytest.MonkeyPatch.context() as patch:
        patch.setattr(times, "OUTPUTS_OF_ORDERS", OUTPUTS)
        node.log.create_topic(shop.ORDERS, partitions=shop.PARTITIONS)
        node.log.create_topic(shop.CUSTOMERS)
        feed = Feed(Random(3))
        for one in feed.more(ROWS):
            if one.topic in (shop.ORDERS, shop.CUSTOMERS):
                record = Record(one.value, key=one.key, timestamp_ms=one.time_ms)
                node.log.append(one.topic, record, partition=one.partition)
        place = Place(Path(node.data), node.kafka_address, f"sqlite:///{folder / 'other.sqlite'}")
        work(place)
        yield place, feed.fed


def work(place: Place) -> None:
    settings = RunSettings(place.data, place.address, once=True, rows_per_batch=ROWS_PER_BATCH, retries=NO_RETRIES)
    with local_columns():
        app = times.declare(place.store)
        del app.outputs[times.CENTRES]
        running = RunningApp(app, cast(SparkSession, LocalSession()), settings)
        try:
            running.start()
            running.wait()
        finally:
            running.stop()


def test_the_app_does_what_plain_python_says(run: tuple[Place, list[Fed]]) -> None:
    assert times_oracle.differences(*run) == []


def test_other_orders_would_have_made_other_windows_and_joins(run: tuple[Place, list[Fed]]) -> None:
    place, fed = run
    others = [
        one._replace(row={**one.row, "user_id": one.row["user_id"] + 1, "id": f"{one.row['id']}x"})
        if one.topic == shop.ORDERS and one.row is not None else one
        for one in fed
    ]  # fmt: skip
    found = " ".join(times_oracle.differences(place, others))
    for output in (times.DAYS, times.TRENDS, times.RECENT, times.FIVES, times.LATELY, times.SERVED):
        assert f"{output} holds" in found


def test_other_customers_would_have_made_another_history(run: tuple[Place, list[Fed]]) -> None:
    place, fed = run
    others = [
        one._replace(row={**one.row, "name": "nobody"}) if one.topic == shop.CUSTOMERS and one.row is not None else one
        for one in fed
    ]
    found = " ".join(times_oracle.differences(place, others))
    assert f"{times.HISTORY} holds" in found
    assert f"{times.SERVED} holds" in found
