import json

import numpy as np

from benchmarks.flow import orders
from headwater.flow.formats.decoding import decoder_for
from headwater.flow.formats.schema import parse_ddl


def test_every_row_has_a_hundred_bytes_and_five_fields() -> None:
    values = orders.values_of(np.array([0, 61_500, 4_000_000, 9_999_999]), np.array([0, 7, 999_999, 1])).to_pylist()
    assert {len(value) for value in values} == {orders.ROW_BYTES}
    assert [json.loads(value)["user_id"] for value in values] == [10_000_000, 10_000_007, 10_999_999, 10_000_001]


def test_every_row_fits_the_schema() -> None:
    numbers = np.arange(0, 10_000_000, 99_991)
    decoded = decoder_for("json", parse_ddl(orders.SCHEMA)).decode(orders.values_of(numbers, numbers % 20_000))
    assert list(decoded.bad) == []
    first_us = decoded.columns.column("at").cast("int64")[0].as_py()
    assert first_us == orders.FIRST_MS * 1000, "the time of a record is the time in its row"
    assert len(set(decoded.columns.column("id").to_pylist())) == len(numbers)


def test_chunks_cover_all_rows_once() -> None:
    assert sum(len(chunk) for chunk in orders.chunks(450_001)) == 450_001
    assert [int(chunk[0]) for chunk in orders.chunks(450_001)] == [0, 200_000, 400_000]
