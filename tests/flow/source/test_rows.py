from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from headwater.errors import DamagedRange, InvalidRecord
from headwater.flow.formats.schema import parse_ddl
from headwater.flow.source.reach import Reach
from headwater.flow.source.record_batches.files import Chunk
from headwater.flow.source.record_batches.records import TooMuchTogether
from headwater.flow.source.rows import RangeReader, frame_batches, read_rows
from headwater.flow.source.splitting import Range
from headwater.flow.source.staging import Counts
from headwater.flow.source.streams import Stream, frame_of
from headwater.log.batch_format import assign_offsets, encode_batch, seal
from headwater.node import Node
from headwater.record import Record
from headwater.testing import running_node
from tests.log.bombs import PACKED, bomb

RANGE = Range("orders", 3, 0, 100)
ORDERS = Stream("orders", "orders", "json", parse_ddl("id long, at timestamp"), columns=("_offset", "_key"), time="at")
GOOD = b'{"id": 1, "at": "2026-01-01T00:00:01Z"}'
LATER = b'{"id": 2, "at": "2026-01-01T00:00:05Z"}'


def chunk(*values: bytes | None) -> Chunk:
    records = [Record(value, b"k", [("h", b"v")], 1000 + row) for row, value in enumerate(values)]
    return Chunk(0, len(values), bytes(encode_batch(records)))


def test_a_record_as_it_is_has_the_columns_of_sparks_kafka_source() -> None:
    reader = RangeReader(Stream("orders", "orders"), RANGE, poisoned="fail")
    columns = reader.read(chunk(b"x", None))
    assert pa.table(columns).slice(1).to_pylist() == [
        {
            "key": b"k",
            "value": None,
            "headers": [{"key": "h", "value": b"v"}],
            "topic": "orders",
            "partition": 3,
            "offset": 1,
            "timestamp": columns["timestamp"][1].as_py(),
        }
    ]
    assert columns["timestamp"].cast(pa.int64()).to_pylist() == [1_000_000, 1_001_000]


def test_typed_columns_and_hidden_ones_stand_side_by_side() -> None:
    columns = RangeReader(ORDERS, RANGE, poisoned="fail").read(chunk(GOOD, LATER))
    assert {name: column.to_pylist() for name, column in columns.items() if name != "at"} == {
        "id": [1, 2],
        "_offset": [0, 1],
        "_key": [b"k", b"k"],
    }


def test_rows_bytes_and_times_are_counted() -> None:
    reader = RangeReader(ORDERS, RANGE, poisoned="drop")
    reader.read(chunk(GOOD, b"nonsense", LATER))
    reader.lose(7)
    assert reader.counts == Counts(
        rows=3,
        poisoned=1,
        bytes=len(GOOD) + len(LATER) + len(b"nonsense") + 3,
        event_time_min_us=1767225601_000000,
        event_time_max_us=1767225605_000000,
        timestamp_max_ms=1002,
        lost=7,
    )


def test_a_value_that_does_not_decode_is_an_error_that_says_where_and_why() -> None:
    with pytest.raises(InvalidRecord, match=r'offset 1 of "orders/3" does not decode: .*set poisoned'):
        RangeReader(ORDERS, RANGE, poisoned="fail").read(chunk(GOOD, b'{"id": "x"}'))


def test_poisoned_rows_are_set_aside_whole_and_the_others_stay_aligned() -> None:
    reader = RangeReader(ORDERS, RANGE, poisoned="stage")
    columns = reader.read(chunk(b"nonsense", GOOD, b'{"id": "x"}', LATER))
    assert columns["id"].to_pylist() == [1, 2]
    assert columns["_offset"].to_pylist() == [1, 3]
    [poisoned] = reader.poisoned
    assert poisoned.column("offset").to_pylist() == [0, 2]
    assert poisoned.column("value").to_pylist() == [b"nonsense", b'{"id": "x"}']
    assert poisoned.column("headers").to_pylist() == [[{"key": "h", "value": b"v"}]] * 2
    assert "id" in poisoned.column("reason")[1].as_py()


def test_a_tombstone_is_poisoned_unless_it_is_to_be_kept() -> None:
    reader = RangeReader(ORDERS, RANGE, poisoned="drop")
    assert reader.read(chunk(GOOD, None))["id"].to_pylist() == [1]
    table = replace(ORDERS, tombstones="keep", columns=("_key", "_tombstone"))
    columns = RangeReader(table, RANGE, poisoned="fail").read(chunk(GOOD, None))
    assert columns["id"].to_pylist() == [1, None]
    assert columns["_tombstone"].to_pylist() == [False, True]


def test_tombstones_are_kept_beside_others_that_are_poisoned() -> None:
    table = replace(ORDERS, tombstones="keep", columns=("_tombstone",))
    reader = RangeReader(table, RANGE, poisoned="stage")
    columns = reader.read(chunk(None, b"nonsense", GOOD))
    assert columns["_tombstone"].to_pylist() == [True, False]
    assert reader.poisoned[0].column("offset").to_pylist() == [1]


def test_times_beyond_what_a_timestamp_holds_become_the_nearest_that_it_holds() -> None:
    batch = encode_batch([Record(b"x", None, (), 2**62 - 1), Record(b"x", None, (), -(2**62))])
    columns = RangeReader(Stream("orders", "orders"), RANGE, poisoned="fail").read(Chunk(0, 2, bytes(batch)))
    far = columns["timestamp"].cast(pa.int64()).to_pylist()
    assert far[0] > 2**62
    assert far[1] < -(2**62)


def test_rows_of_one_stream_are_null_in_the_columns_of_the_others() -> None:
    clicks = Stream("clicks", "clicks", "json", parse_ddl("url string"))
    target = frame_of([clicks, ORDERS], nested=True).arrow
    columns = RangeReader(ORDERS, RANGE, poisoned="fail").read(chunk(GOOD))
    [batch] = frame_batches(columns, 1, target, nested=True)
    assert batch.schema == target
    assert batch.select(["_stream", "clicks"]).to_pylist() == [{"_stream": 1, "clicks": None}]
    assert batch.column("orders")[0]["id"].as_py() == 1


def test_no_rows_are_no_batch() -> None:
    columns = RangeReader(ORDERS, RANGE, poisoned="drop").read(chunk(b"nonsense"))
    assert list(frame_batches(columns, 0, ORDERS.frame.arrow, nested=False)) == []


def test_very_many_rows_come_in_several_batches() -> None:
    columns = {"id": pa.array(range(100_000), pa.int64())}
    sizes = [len(batch) for batch in frame_batches(columns, 0, parse_ddl("id long").arrow, nested=False)]
    assert sizes == [65_536, 34_464]


def flip_a_bit(file: Path, position: int) -> None:
    with file.open("r+b") as content:
        content.seek(position)
        byte = content.read(1)[0]
        content.seek(position)
        content.write(bytes([byte ^ 1]))


def read_all(node: Node, *, account_losses: bool) -> tuple[list[int], Counts]:
    one = Range("raw", 0, 0, 100)
    reader = RangeReader(Stream("raw", "raw"), one, poisoned="fail")
    with closing(Reach(node.kafka_address, None)) as reach:
        columns = list(read_rows([reader], one, reach, data=node.data, account_losses=account_losses))
    return [offset for (part,) in columns for offset in part["offset"].to_pylist()], reader.counts


def test_a_damaged_batch_is_a_loud_error_or_an_accounted_loss() -> None:
    with running_node() as node:
        node.log.create_topic("raw")
        for first in range(0, 100, 10):
            node.log.append("raw", [Record(b"value %d" % row, None, (), 5) for row in range(first, first + 10)])
        [file] = (node.data / "raw-0").glob("*.log")
        size = file.stat().st_size // 10
        node.stop()
        flip_a_bit(file, 4 * size + 80)
        node.start()
        with pytest.raises(DamagedRange, match=r'offsets 40 to 49 .*onLoss to "account"'):
            read_all(node, account_losses=False)
        offsets, counts = read_all(node, account_losses=True)
    assert offsets == [*range(40), *range(50, 100)]
    assert (counts.rows, counts.lost) == (90, 10)


# Batches that cannot be unpacked


def placed(batch: bytearray, base_offset: int) -> bytes:
    assign_offsets(batch, base_offset=base_offset, leader_epoch=0)
    return bytes(batch)


def garbled(records: int) -> bytearray:
    """A batch whose checksum is right and whose content is none."""
    batch = encode_batch([Record(b"x" * 50, timestamp_ms=1) for _ in range(records)], compression="zstd")
    batch[70:80] = bytes(10)
    seal(batch)
    return batch


def around(bad: bytearray) -> Chunk:
    """A good row at 0, three that cannot be read at 1, two good ones at 4, the same batch at 6, a row at 9."""
    good = [encode_batch([Record(GOOD, b"k", timestamp_ms=1000)] * count) for count in (1, 2, 1)]
    parts = [placed(good[0], 0), placed(bad, 1), placed(good[1], 4), placed(bad, 6), placed(good[2], 9)]
    return Chunk(0, 10, b"".join(parts))


def read_piece(reader: RangeReader, chunk: Chunk) -> list[int]:
    with patch("headwater.flow.source.rows.read_range", return_value=[chunk]):
        read = list(read_rows([reader], RANGE, Reach("127.0.0.1:1", None), data=None, account_losses=False))
    return [offset for (columns,) in read for offset in columns["_offset"].to_pylist()]


@pytest.fixture(params=[*PACKED, "garbled", "lying"])
def bad_batch(request: pytest.FixtureRequest) -> bytearray:
    if request.param == "garbled":
        return garbled(3)
    if request.param == "lying":
        batch = encode_batch([Record(b"x", timestamp_ms=1)])
        batch[23:27], batch[57:61] = (2).to_bytes(4, "big"), (3).to_bytes(4, "big")
        seal(batch)
        return batch
    return bomb(300_000, request.param, records=3)


def test_rows_beside_a_batch_that_cannot_be_read_are_read_and_its_own_are_poisoned(bad_batch: bytearray) -> None:
    reader = RangeReader(ORDERS, RANGE, poisoned="stage", unpacked_bytes_max=100_000)
    assert read_piece(reader, around(bad_batch)) == [0, 4, 5, 9]
    assert (reader.counts.rows, reader.counts.poisoned) == (10, 6)
    staged = pa.Table.from_batches(reader.poisoned).to_pylist()
    assert [(one["offset"], one["key"], one["value"]) for one in staged] == [(1, None, None), (6, None, None)]
    assert staged[1]["reason"].startswith("a batch that cannot be read, offsets 6 to 8: ")


def test_a_batch_that_cannot_be_read_is_counted_by_the_offsets_of_each_range(bad_batch: bytearray) -> None:
    counts = []
    for one in (RANGE._replace(end=3), RANGE._replace(first=3, end=8), RANGE._replace(first=8)):
        reader = RangeReader(ORDERS, one, poisoned="drop", unpacked_bytes_max=100_000)
        read_piece(reader, around(bad_batch)._replace(first=one.first))
        counts.append((reader.counts.rows, reader.counts.poisoned))
        assert not reader.poisoned
    assert [sum(column) for column in zip(*counts, strict=True)] == [10, 6]


def test_a_flow_that_fails_on_poisoned_rows_fails_on_a_batch_with_the_way_out(bad_batch: bytearray) -> None:
    reader = RangeReader(ORDERS, RANGE, poisoned="fail", unpacked_bytes_max=100_000)
    with pytest.raises(InvalidRecord, match=r'offsets 1 to 3 of "orders/3" do not decode: .* set poisoned to "stage"'):
        read_piece(reader, around(bad_batch))


def test_batches_that_unpack_to_much_together_are_decoded_one_after_the_other() -> None:
    reader = RangeReader(ORDERS, RANGE, poisoned="drop")
    large = [placed(bomb(30 * 1024**2, "zstd"), number) for number in range(4)]
    chunk = Chunk(0, 4, b"".join(large))
    with pytest.raises(TooMuchTogether):
        reader.read(chunk)
    assert read_piece(reader, chunk) == []
    assert (reader.counts.rows, reader.counts.poisoned) == (4, 4)
