from typing import Any

import pyarrow as pa
import pytest

from headwater.flow.formats.decoding import Decoded, decoder_for
from headwater.flow.formats.schema import parse_ddl

DDL = "id bigint NOT NULL, amount decimal(12,2), tags array<string>, rates map<string, double>"


def stream(rows: list[dict[str, Any]], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))
    return bytes(sink.getvalue())


def decode(*values: bytes) -> Decoded:
    return decoder_for("arrow", parse_ddl(DDL)).decode(pa.array(values, type=pa.binary()))


def test_a_stream_and_a_batch_alone_are_read() -> None:
    schema = parse_ddl(DDL).arrow
    row = {"id": 1, "amount": None, "tags": ["a", None], "rates": [("EUR", 1.5)]}
    alone = pa.RecordBatch.from_pylist([row], schema=schema).serialize().to_pybytes()
    decoded = decode(stream([row], schema), alone)
    assert decoded.reasons == []
    assert decoded.columns.to_pylist() == [row, row]


def test_columns_are_found_by_name_and_cast_where_nothing_is_lost() -> None:
    other = pa.schema({"amount": pa.int32(), "extra": pa.string(), "id": pa.int8()})
    decoded = decode(stream([{"amount": 5, "extra": "x", "id": 7}], other))
    assert decoded.reasons == []
    assert decoded.columns.column(0).to_pylist() == [7]
    assert str(decoded.columns.column(1)[0]) == "5.00"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (stream([{"id": 1}, {"id": 2}], pa.schema({"id": pa.int64()})), "2 rows in one value, where there must be one"),
        (stream([], pa.schema({"id": pa.int64()})), "0 rows in one value, where there must be one"),
        (stream([{"id": "x"}], pa.schema({"id": pa.string()})), "not an Arrow row of the schema: "),
        (stream([{"tags": []}], pa.schema({"tags": pa.list_(pa.string())})), "id: null, and the schema says NOT NULL"),
        (b"garbage", "not an Arrow row of the schema: "),
        (b"", "not an Arrow row of the schema: "),
    ],
)
def test_a_bad_row_has_a_reason(value: bytes, reason: str) -> None:
    decoded = decode(value)
    assert decoded.bad.tolist() == [0]
    assert decoded.reasons[0].startswith(reason)
