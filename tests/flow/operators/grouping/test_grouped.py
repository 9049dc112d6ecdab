"""After any batches of inserts, updates and deletes, every aggregate is what the rows that are there give.

Batches come again after a crash, and stores are opened again between them.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.kinds.registry import KINDS
from headwater.flow.operators.keyed import TIME
from headwater.flow.state.runs import leading_rows
from tests.flow.operators.every_kind import SPECS, hashes_of, pairs_of, result, seen_by
from tests.flow.operators.grouping.tables import GroupedTable
from tests.flow.operators.reference import Row

TIMED = ("first", "last", "collect", "user")
OWN = {"first": "by", "last": "by"}


def over_tables() -> list[Aggregate]:
    """Each with columns of its own, for they differ in their types."""
    found = []
    for number, spec in enumerate(SPECS):
        more: dict[str, Any] = {}
        if spec.column is not None:
            more = {"column": f"x{number}", "name": f"{spec.name} {number}"}
        if spec.other is not None:
            more["other"] = f"y{number}"
        if spec.kind in TIMED:
            more |= {"time": OWN.get(spec.kind, TIME), "ignore_nulls": False}
        if spec.kind in OWN:
            more["time_type"] = pa.int64()
        found.append(replace(spec, **more))
    return found


TABLE_SPECS = over_tables()


class Content(NamedTuple):
    """What a row has beside its key; `by` is what first and last are ordered by, `salt` makes floating numbers of x."""

    group: str | None
    x: int | None
    by: int | None
    salt: int


Table = dict[int, Content]


def columns_of(row: Content) -> dict[str, Any]:
    """The inputs of all aggregates."""
    found: dict[str, Any] = {"group": row.group, "by": row.by}
    plain = Row(0, row.x, row.by, row.salt)
    for spec in TABLE_SPECS:
        if spec.column is None:
            continue
        (seen,) = seen_by(spec, [plain])
        found[spec.column] = value_for(spec, seen)
        if spec.other is not None:
            ((_, found[spec.other]),) = pairs_of([plain])
    return found


def value_for(spec: Aggregate, row: Row) -> Any:
    if spec.kind == "user":
        return {"c0": row.x}
    if spec.kind != "bloom" or row.x is None:
        return row.x
    return dict(zip(("first", "second"), hashes_of(row.x), strict=True))


def expected(spec: Aggregate, rows: list[Content]) -> Any:
    """Of a table, rows have no time: they are taken in the order of their values."""
    plain = [Row(0, row.x, row.by, row.salt) for row in rows]
    if spec.kind in ("first", "last"):
        plain = [row._replace(offset=0) for row in plain]
    elif spec.kind in TIMED:
        plain = [row._replace(offset=0, time=0) for row in plain]
    return result(spec, plain)


def of_groups(table: Table) -> dict[Any, dict[str, Any]]:
    rows: dict[Any, list[Content]] = {}
    for row in table.values():
        rows.setdefault(row.group, []).append(row)
    return {group: {spec.name: expected(spec, several) for spec in TABLE_SPECS} for group, several in rows.items()}


contents = st.builds(
    Content, st.sampled_from(["a", "b", "cc", None]), st.none() | st.integers(-3, 3), st.none() | st.integers(0, 2),
    st.integers(0, 3),
)  # fmt: skip
changes = st.tuples(st.integers(0, 6), st.none() | contents)
batches = st.lists(st.tuples(st.lists(changes, max_size=5), st.integers(1, 2), st.booleans()), max_size=7)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_read_in_advance() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leading_rows, "first_limits", lambda counts: counts.copy())
        yield


@pytest.mark.timeout(300)
@settings(max_examples=25, deadline=None)
@given(batches)
def test_after_every_batch_each_aggregate_is_what_the_rows_that_are_there_give(drawn: list[Any]) -> None:
    grouped, table = GroupedTable(TABLE_SPECS), Table()
    for changed, times, restarts in drawn:
        now = {**table}
        for id, row in changed:
            now.pop(id, None)
            if row is not None:
                now[id] = row
        before, after = ({id: columns_of(row) for id, row in one.items()} for one in (table, now))
        if restarts:
            grouped.restart()
        grouped.apply(before, after, times=times)
        table = now
        assert {group: dict(values) for group, values in grouped.groups.items()} == of_groups(table)


def test_no_kind_of_aggregate_is_left_out() -> None:
    assert {spec.kind for spec in TABLE_SPECS} == set(KINDS)
