"""The row of a change is what stands in `after`; a change without one deletes."""

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.flow.formats.decoding import Decoded, decoder_for
from headwater.flow.formats.schema import parse_ddl


def decode(ddl: str, *values: object) -> Decoded:
    texts = [None if value is None else value if isinstance(value, bytes) else json.dumps(value) for value in values]
    return decoder_for("debezium", parse_ddl(ddl)).decode(pa.array(texts, pa.binary()))


def change(operation: str, after: Any, before: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"after": {"id": 9}}, "op": operation, "ts_ms": 1}


def test_the_row_is_what_stands_in_after() -> None:
    decoded = decode("id long, name string", change("u", {"id": 1, "name": "ada"}, {"id": 7, "name": "old"}))
    assert decoded.columns.to_pylist() == [{"id": 1, "name": "ada"}]
    assert decoded.bad.tolist() == []


def test_a_change_without_a_row_deletes_and_is_not_bad() -> None:
    decoded = decode("id long", change("d", None, {"id": 1}), change("c", {"id": 2}))
    assert decoded.deleted is not None
    assert decoded.deleted.tolist() == [True, False]
    assert decoded.bad.tolist() == []
    assert decoded.columns.to_pylist() == [{"id": None}, {"id": 2}]


def test_values_are_read_with_the_type_of_the_schema() -> None:
    row = {
        "a": "12345678901234567890.50", "b": "2026-01-31", "c": "2026-01-31T12:34:56.789012", "d": "AP8=",
        "e": [1, None, 3], "f": "2026-01-31T10:00:00Z",
    }  # fmt: skip
    ddl = "a decimal(22,2), b date, c timestamp_ntz, d binary, e array<int>, f timestamp"
    (read,) = decode(ddl, change("c", row)).columns.to_pylist()
    assert (read["a"], read["b"], read["d"], read["e"]) == (
        Decimal("12345678901234567890.50"), date(2026, 1, 31), b"\x00\xff", [1, None, 3],
    )  # fmt: skip
    assert read["c"] == datetime(2026, 1, 31, 12, 34, 56, 789012)
    assert read["f"].isoformat() == "2026-01-31T10:00:00+00:00"


@pytest.mark.parametrize(
    "value, reason",
    [
        (b'{"after": ', "not JSON"),
        ({"id": 1}, "it has no field after"),
        (change("t", None), "a truncation names no rows"),
        (change("c", {"id": "one"}), "id"),
        (change("c", [1]), "after is no row"),
        (b"", "the value is empty"),
    ],
)
def test_what_is_no_change_is_set_aside_with_its_reason(value: object, reason: str) -> None:
    decoded = decode("id long", change("c", {"id": 1}), value, change("c", {"id": 3}))
    assert decoded.bad.tolist() == [1]
    assert reason in decoded.reasons[0]
    assert [row["id"] for row in decoded.columns.to_pylist()] == [1, None, 3]
