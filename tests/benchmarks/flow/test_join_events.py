"""What joins are measured on is the same for all, and every result there is can be counted."""

import json

import pytest

from benchmarks.flow.join_events import KINDS, Input, inputs


def rows_of(one: Input) -> list[dict[str, object]]:
    return [json.loads(line) for _, content in one.texts() for line in content.tobytes().decode().splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_together_are_as_many_rows_as_asked_for_and_the_same_again(kind: str) -> None:
    sides = inputs(kind, 1000, 20)
    assert sum(side.count for side in sides) == 1000
    assert [len(rows_of(side)) for side in sides] == [side.count for side in sides]
    assert rows_of(sides[0]) == rows_of(sides[0])
    assert rows_of(sides[0])[0].keys() == {"id", "key", "value", "at"}
    assert rows_of(sides[1])[0].keys() == {"other", "key", "rate", "since"}


def test_each_row_of_a_table_meets_one_of_the_other() -> None:
    left, right = (rows_of(side) for side in inputs("tables", 1000, 0))
    keys = [row["key"] for row in right]
    assert len(set(keys)) == len(keys) == 100
    assert {row["key"] for row in left} <= set(keys)


def test_every_key_has_a_version_before_the_first_event() -> None:
    left, right = (rows_of(side) for side in inputs("as-of", 2000, 20))
    first = {row["key"] for row in right if row["since"] == "2026-01-01T00:00:00.000Z"}
    assert first >= {row["key"] for row in left}
