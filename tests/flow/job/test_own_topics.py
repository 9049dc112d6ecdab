"""What jobs say about themselves is never refused: late rows from the future, rows that are large, topics set up by
somebody else."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

import headwater as hw
from headwater.errors import BatchTooLarge, FlowError, InvalidTimestamp
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.commit.outputs import own_topic_sink, topic_sink
from headwater.flow.commit.report_records import SHOWN_BYTES_MAX, poisoned_records, records
from headwater.flow.kafka.client import Client
from headwater.flow.late.late_text import ROW_CHARACTERS_MAX, said_and_row, with_row
from headwater.flow.proof.verification import RESTS_ON_LATE
from headwater.flow.run.app_tester import AppTester
from headwater.flow.source.splitting import Range
from headwater.flow.source.staging import Counts, Staged
from headwater.testing import running_node
from headwater.views.mark import Mark

Tester = Callable[[hw.App], AppTester]
NARROW = {
    "message.timestamp.after.max.ms": "1000", "message.timestamp.before.max.ms": "1000", "max.message.bytes": "2000",
    "cleanup.policy": "compact", "headwater.full.policy": "reject", "retention.bytes": "4000",
}  # fmt: skip
LARGE = Random(1).randbytes(3 * 1024**2)
FUTURE_MS = 20_000 * 86_400_000 * 2


def anything() -> pa.Table:
    """Without keys, from the future and from the past, and large."""
    return records([None, None, None], [b"1", b"2", LARGE], [FUTURE_MS, 5, 5])


@pytest.mark.parametrize("configs", [None, {}, NARROW], ids=["missing", "by default", "narrow"])
def test_the_topics_in_which_a_job_tells_of_itself_take_anything(
    tmp_path: Path, configs: dict[str, str] | None
) -> None:
    with running_node(tmp_path / "data") as node, Client(node.kafka_address) as client:
        if configs is not None:
            node.log.create_topic("shop.late", configs=configs)
        sink = own_topic_sink("shop.late", JobFolder(tmp_path), client)
        for batch in range(3):
            assert sink.write(Mark("job", batch, {}), anything())
            assert not sink.write(Mark("job", batch, {}), anything()), "once"
        found_late = [record.value or b"" for record in node.log.read("shop.late", 0)]
        assert sorted(map(len, found_late)) == sorted([1, 1, len(LARGE)] * 3)


def test_a_topic_of_the_users_that_refuses_a_record_is_named_with_the_way_out(tmp_path: Path) -> None:
    with running_node(tmp_path / "data") as node, Client(node.kafka_address) as client:
        node.log.create_topic("out")
        sink = topic_sink("out", JobFolder(tmp_path), client)
        with pytest.raises(InvalidTimestamp) as caught:
            sink.write(Mark("job", 0, {}), records([None], [b"1"], [FUTURE_MS]))
        assert 'of "out/0" was refused' in str(caught.value)
        assert "headwater topic alter out --config message.timestamp.after.max.ms=" in str(caught.value)
        with pytest.raises(BatchTooLarge, match=r"headwater topic alter out --config max\.message\.bytes="):
            sink.write(Mark("job", 0, {}), records([None], [LARGE], [5]))


def test_of_rows_too_large_for_any_topic_the_beginning_is_told_and_where_they_lie() -> None:
    value = b"\x00" * (3 * SHOWN_BYTES_MAX)
    row = {
        "reason": "no JSON", "topic": "orders", "partition": 0, "offset": 7, "key": value, "value": value,
        "timestamp": datetime(2026, 1, 1, tzinfo=UTC),
    }  # fmt: skip
    staged = Staged(Range("orders", 0, 0, 8), Counts(), pa.Table.from_pylist([row]))
    (row,) = poisoned_records([staged]).to_pylist()
    assert len(row["_key"]) + len(row["_value"]) < 100 * 1024**2, "what a request has room for"
    assert f'"value_bytes": {len(value)}'.encode() in row["_value"]
    said, row_text = said_and_row(with_row({"offset": 7}, '"' + "x" * ROW_CHARACTERS_MAX + '"'))
    assert (said, row_text) == ({"offset": 7, "row_characters": ROW_CHARACTERS_MAX + 2}, "null")


@pytest.mark.timeout(900)
def test_a_late_row_from_the_future_and_a_large_one_that_does_not_decode_do_not_end_their_job(tester: Tester) -> None:
    app = hw.App("ahead", shards=2)
    orders = app.stream("orders", "id string, at timestamp", time="at", lateness="0s")

    @app.view(key="window", emit="final")
    def counts() -> Any:
        return orders.window(hw.tumbling("1 hour")).agg(f.count("*").alias("n"))

    running = tester(app)
    running.node.log.create_topic("orders", configs={"max.message.bytes": str(8 * 1024**2)})
    now = datetime.now(UTC)
    for hours in (10, 20, 5):
        running.feed("orders", [{"id": str(hours), "at": now + timedelta(hours=hours)}])
        running.run()
    running.feed("orders", [b'{"id": ' + b'"\x01' * (1024**2)])
    running.run()
    (late,) = running.values("ahead.orders.late")
    assert (late["offset"], late["row"]["id"]) == (2, "5")
    (poisoned,) = running.values("ahead.orders.poisoned")
    assert poisoned["offset"] == 3
    proof = running.prove("counts")
    assert (proof.result, proof.different, proof.late, proof.otherwise) == (RESTS_ON_LATE, 0, 1, 1)
    assert proof.late_shown[0].record == "orders/0@2"
    running.node.log.partition("ahead.orders.late", 0).delete_records(1)
    with pytest.raises(FlowError, match="which rows were late for job orders is no longer known"):
        running.prove("counts")
    account = running.account("counts")
    assert (account.rows_in, account.late, account.poisoned, account.balanced) == (4, 1, 1, True)
