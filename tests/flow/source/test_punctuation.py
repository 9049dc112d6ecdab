"""A producer's word that nothing more comes from before a time."""

import pyarrow as pa

from headwater.flow.formats.schema import parse_ddl
from headwater.flow.source.record_batches.files import Chunk
from headwater.flow.source.rows import RangeReader
from headwater.flow.source.splitting import Range
from headwater.flow.source.streams import Stream
from headwater.flow.source.times.clock_rules import ClockRules
from headwater.flow.source.times.punctuation import HEADER
from headwater.log.batch_format import encode_batch
from headwater.record import Record

NOW = 1_795_000_000_000


def row(name: str = "x") -> Record:
    return Record(f'{{"id": "{name}", "at": "2026-11-18T10:00:00Z"}}'.encode(), timestamp_ms=NOW)


def promise(time: bytes, *, key: bytes | None = None, value: bytes | None = None) -> Record:
    return Record(value, key, [("other", b"1"), (HEADER, time)], NOW)


def read(records: list[Record], **options: object) -> RangeReader:
    schema = parse_ddl("value binary" if options.get("format") == "raw" else "id string, at timestamp")
    said = {"format": "json", "time": "at"} | options
    stream = Stream("t", "t", schema=schema, **said)  # type: ignore[arg-type]
    reader = RangeReader(stream, Range("t", 0, 0, len(records)), poisoned="stage")
    reader.columns = reader.read(Chunk(0, len(records), bytes(encode_batch(records))))  # type: ignore[attr-defined]
    return reader


def columns_of(reader: RangeReader) -> dict[str, pa.Array]:
    return reader.columns  # type: ignore[attr-defined, no-any-return]


def test_it_is_no_row_and_is_counted_apart() -> None:
    reader = read([row(), promise(b"1795000060000"), row(), promise(b"1795000050000")])
    counts = reader.counts
    assert (counts.rows, counts.punctuation, counts.poisoned) == (2, 2, 0)
    assert counts.no_more_before_us == 1_795_000_060_000_000
    assert columns_of(reader)["id"].to_pylist() == ["x", "x"]


def test_bytes_as_they_are_have_no_row_for_it_either() -> None:
    reader = read(
        [Record(b"a", timestamp_ms=NOW), promise(b"5"), Record(None, timestamp_ms=NOW)], format="raw", time="_timestamp"
    )
    assert columns_of(reader)["value"].to_pylist() == [b"a", None]
    assert (reader.counts.rows, reader.counts.punctuation) == (2, 1)


def test_with_producers_it_is_the_word_of_the_one_that_its_key_names() -> None:
    rules = ClockRules("id")
    reader = read([row("x"), row("y"), promise(b"1795000060000", key=b"y"), promise(b"7")], clock=rules)
    at = 1_795_000_000_000_000 - 4_000_000_000
    assert reader.counts.producers == {"x": [at, NOW, None], "y": [at, NOW, 1_795_000_060_000_000]}
    assert reader.counts.no_more_before_us == 7_000


def test_what_is_no_time_is_poisoned() -> None:
    reader = read([promise(b"tomorrow"), promise(b""), promise(b"9" * 16), row()])
    assert reader.counts.poisoned == 3
    (poisoned,) = reader.poisoned
    assert set(poisoned.column("reason").to_pylist()) == {f"header {HEADER} is no number of milliseconds since 1970"}


def test_a_promise_from_the_far_future_is_not_believed() -> None:
    reader = read([promise(b"1895000000000"), row()], clock=ClockRules(None, 86_400_000_000))
    assert (reader.counts.poisoned, reader.counts.no_more_before_us) == (1, None)
    assert "after its record; at most 1 day, 0:00:00 is believed" in reader.poisoned[0].column("reason")[0].as_py()


def test_a_null_value_without_the_header_is_poisoned_as_ever() -> None:
    reader = read([row(), Record(None, timestamp_ms=NOW), Record(None, None, [("other", b"1")], NOW)])
    assert (reader.counts.rows, reader.counts.poisoned, reader.counts.punctuation) == (3, 2, 0)


def test_a_row_that_has_the_header_is_a_row() -> None:
    reader = read([promise(b"7", value=b'{"id": "x"}')])
    assert (reader.counts.rows, reader.counts.punctuation) == (1, 0)


def test_where_null_values_delete_they_go_on_doing_so() -> None:
    reader = read([promise(b"7"), row()], tombstones="keep", time=None)
    assert (reader.counts.rows, reader.counts.punctuation) == (2, 0)
