"""Ranks after any batches of changes are SQLite's."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.declare.tables.ordering import order_of
from headwater.flow.exchange.blocks import Inputs
from headwater.flow.operators.joins.tables import Side
from headwater.flow.operators.ranks.ordered import Ordered
from headwater.flow.operators.ranks.rank import ROWS, WAYS, Rank, rank_step
from headwater.flow.prepare.table_sides import PrepareGrouped
from headwater.flow.state.runs import leading_rows as leading
from headwater.flow.state.shard import ShardState
from tests.flow.operators.tables.keeping import Content, Emitted, Keeping, Row, answer, difference, sides_of

COLUMNS = pa.schema([("id", pa.int64()), ("k", pa.string()), ("n", pa.int32()), ("x", pa.float64())])
ORDERS = ["n desc, x", "x nulls last", "n, x desc nulls first", "x desc, n desc nulls first"]

rows = st.tuples(
    st.sampled_from(["a", "a", "b", None]), st.sampled_from([1, 2, 3, None]), st.sampled_from([0.0, -1.5, 7.25, None])
)
first = st.dictionaries(st.integers(0, 9), rows, min_size=4, max_size=10)
changes = st.dictionaries(st.integers(0, 9), st.none() | rows, min_size=1, max_size=3)
later = st.lists(st.tuples(changes, st.integers(1, 2)), min_size=1, max_size=5)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_read_in_advance() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leading, "first_limits", lambda counts: counts.copy())
        yield


def keeping(work: Rank) -> Keeping:
    def step(states: Mapping[str, ShardState], given: Inputs, shard: int) -> Emitted:
        done = rank_step(work, states[ROWS], given[0])
        return sides_of(done.changes), done.runs

    return Keeping(step, work.parts, [PrepareGrouped(work.ordered.side)], [COLUMNS], ("id",))


@settings(max_examples=80, deadline=None)
@given(
    begin=first, drawn=later, how=st.sampled_from(WAYS), order=st.sampled_from(ORDERS), limit=st.integers(1, 3),
    by=st.sampled_from([("k",), ()]),
)  # fmt: skip
def test_after_every_batch_the_first_rows_have_the_places_that_sqlite_gives_them(
    begin: dict[int, Row],
    drawn: list[tuple[dict[int, Row | None], int]],
    how: str,
    order: str,
    limit: int,
    by: tuple[str, ...],
) -> None:
    work = Rank(Ordered(Side(COLUMNS, ("id",), by), order_of(order, "rank")), how, limit, "place")
    kept, table = keeping(work), Content()
    partition = f"partition by {', '.join(by)} " if by else ""
    order_by = f"{order}, id" if how == "row_number" else order
    ranked = f"select *, {how}() over ({partition}order by {order_by}) as place from t"
    query = f"select * from ({ranked}) where place <= {limit}"
    whole: dict[int, Row | None] = dict(begin)
    for changed, times in [(whole, 1), *drawn]:
        now = dict(table)
        for id, row in changed.items():
            now.pop(id, None)
            if row is not None:
                now[id] = (id, *row)
        kept.batch([difference(table, now)], times)
        table = now
        found = {tuple(row.values()) for row in kept.result.values()}
        # SQLite's nulls are where Spark's are: before all values, and behind them if these fall.
        assert found == {*answer(query, {"t": ("id, k, n, x", table.values())})}
