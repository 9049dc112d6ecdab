from datetime import UTC, datetime

from headwater.flow.formats.python_rows import Row, decoded_rows
from headwater.flow.formats.schema import parse_ddl

MOMENT = datetime(2024, 2, 29, tzinfo=UTC)


def test_a_misfit_takes_only_its_own_row_with_it() -> None:
    rows: list[Row] = [{"a": 1, "b": "x"}, {"a": "1", "b": "y"}, "broken", {"a": None, "b": "z"}, {"a": 2**63}]
    decoded = decoded_rows(parse_ddl("a bigint, b string"), rows)
    assert decoded.columns.to_pylist() == [{"a": 1, "b": "x"}, *[{"a": None, "b": None}] * 2, {"a": None, "b": "z"},
                                           {"a": None, "b": None}]  # fmt: skip
    assert decoded.bad.tolist() == [1, 2, 4]
    assert decoded.reasons == ["a: '1' does not fit bigint", "broken", f"a: {2**63} does not fit bigint"]


def test_a_number_is_not_a_time_and_a_truth_is_not_a_number() -> None:
    decoded = decoded_rows(parse_ddl("a timestamp, b int"), [{"a": 5}, {"b": True}, {"a": MOMENT, "b": 1}])
    assert decoded.bad.tolist() == [0, 1]
    assert decoded.columns.column(0).to_pylist() == [None, None, MOMENT]


def test_maps_inside_lists_inside_structs_are_arranged() -> None:
    ddl = "a struct<b: array<map<string, bigint>>>"
    decoded = decoded_rows(parse_ddl(ddl), [{"a": {"b": [{"x": 1}, None]}}, {"a": {"b": [{"x": "y"}]}}])
    assert decoded.columns.to_pylist() == [{"a": {"b": [[("x", 1)], None]}}, {"a": None}]
    assert decoded.bad.tolist() == [1]
