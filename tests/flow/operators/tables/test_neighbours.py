"""Values of neighbours after any batches of changes are SQLite's."""

from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.declare.tables.ordering import order_of
from headwater.flow.exchange.blocks import Inputs
from headwater.flow.operators.joins.tables import Side
from headwater.flow.operators.ranks import neighbours
from headwater.flow.operators.ranks.neighbours import FIRST, LAG, LAST, LEAD, ROWS, Neighbour, Neighbours
from headwater.flow.operators.ranks.ordered import Ordered
from headwater.flow.prepare.table_sides import PrepareGrouped
from headwater.flow.state.shard import ShardState
from tests.flow.operators.tables.keeping import Content, Emitted, Keeping, Row, answer, difference, sides_of

COLUMNS = pa.schema([("id", pa.int64()), ("k", pa.string()), ("n", pa.int32()), ("x", pa.float64())])
ORDERS = ["n desc, x", "x nulls last", "n, x desc nulls first"]
WHOLE = "rows between unbounded preceding and unbounded following"
VALUES = {
    "lag(x) over (w)": Neighbour("a", "x", LAG),
    "lag(k, 2) over (w)": Neighbour("b", "k", LAG, 2),
    "lead(id, 1, id) over (w)": Neighbour("c", "id", LEAD, 1, "id"),
    f"first_value(n) over (w {WHOLE})": Neighbour("d", "n", FIRST),
    f"last_value(x) over (w {WHOLE})": Neighbour("e", "x", LAST),
}
rows = st.tuples(
    st.sampled_from(["a", "a", "b", None]), st.sampled_from([1, 2, 3, None]), st.sampled_from([0.0, -1.5, 7.25, None])
)
first = st.dictionaries(st.integers(0, 9), rows, min_size=4, max_size=10)
changes = st.dictionaries(st.integers(0, 9), st.none() | rows, min_size=1, max_size=3)
later = st.lists(st.tuples(changes, st.integers(1, 2)), min_size=1, max_size=5)


def kept_by(work: Neighbours) -> Keeping:
    def step(states: Mapping[str, ShardState], given: Inputs, shard: int) -> Emitted:
        done = neighbours.neighbours_step(work, states[ROWS], given[0])
        return sides_of(done.changes), done.runs

    return Keeping(step, work.parts, [PrepareGrouped(work.ordered.side)], [COLUMNS], ("id",))


@settings(max_examples=40, deadline=None)
@given(begin=first, drawn=later, order=st.sampled_from(ORDERS), by=st.sampled_from([("k",), ()]))
def test_after_every_batch_rows_have_the_values_of_neighbours_that_sqlite_gives_them(
    begin: dict[int, Row], drawn: list[tuple[dict[int, Row | None], int]], order: str, by: tuple[str, ...]
) -> None:
    work = Neighbours(Ordered(Side(COLUMNS, ("id",), by), order_of(order, "lag")), tuple(VALUES.values()))
    kept, table = kept_by(work), Content()
    partition = f"partition by {', '.join(by)} " if by else ""
    values = ", ".join(text.replace("(w", f"({partition}order by {order}, id ").strip() for text in VALUES)
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
        assert found == {*answer(f"select *, {values} from t", {"t": ("id, k, n, x", table.values())})}


def test_only_rows_whose_neighbours_change_are_emitted() -> None:
    side = Side(COLUMNS, ("id",), ("k",))
    work = Neighbours(Ordered(side, order_of("id", "lag")), (Neighbour("before", "n", LAG),))
    kept = kept_by(work)
    kept.batch([([], [(id, "a", id, 0.0) for id in range(100)])])
    emitted = kept._run([([(50, "a", 50, 0.0)], [])])
    assert sorted((row["id"], row["before"]) for row in emitted) == [(50, 49), (51, 49), (51, 50)]


@pytest.mark.parametrize("name", ["_others", "_or_default"])
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {
        "_others": lambda one, index, first, last: index - 1,
        "_or_default": lambda one, value, own, there: value,
    }
    monkeypatch.setattr(neighbours, name, wrong[name])
    work = Neighbours(Ordered(Side(COLUMNS, ("id",), ()), order_of("id", "lag")), tuple(VALUES.values()))
    kept = kept_by(work)
    kept.batch([([], [(id, "a", id, 0.0) for id in range(3)])])
    assert [row["c"] for row in kept.result.values()] != [1, 2, 2]
