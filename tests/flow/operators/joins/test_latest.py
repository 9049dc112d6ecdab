"""Events meet the table as it is after the batch they come in, or wait for their row."""

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.joins.events import Events
from headwater.flow.operators.joins.latest import LatestJoin
from headwater.flow.operators.joins.pairing import Pairing
from headwater.flow.operators.joins.tables import AFTER, ROW, Side
from headwater.flow.state import HASH
from tests.flow.operators.joins.streams import LEFT, ON, RIGHT, Event, RunningJoin, hash_of, incoming

Table = dict[int, tuple[str | None, int]]


def join_of(how: str, wait: int) -> LatestJoin:
    return LatestJoin(
        Events(LEFT, ("user",), 3), Side(RIGHT, ("number",), ("name",)), Pairing(LEFT, RIGHT, ON, how), wait
    )


def changes(before: Table, after: Table) -> pa.RecordBatch | None:
    """Both sides of every change of a table."""
    rows = [
        {HASH: hash_of(row[0]), ROW: number // 2, AFTER: is_after, "number": number, "name": row[0], "limit": row[1]}
        for number in {*before, *after} if before.get(number) != after.get(number)
        for row, is_after in ((before.get(number), False), (after.get(number), True)) if row is not None
    ]  # fmt: skip
    fields = [(HASH, pa.int64()), (ROW, pa.int64()), (AFTER, pa.bool_()), *RIGHT]
    return pa.RecordBatch.from_pylist(rows, pa.schema(fields)) if rows else None


class Oracle:
    """Plain Python's idea of it."""

    def __init__(self, how: str, wait: int) -> None:
        self.how, self.wait, self.waiting = how, wait, list[Event]()
        self.result, self.missing = list[tuple[Any, ...]](), list[tuple[Any, ...]]()

    def batch(self, events: list[Event], table: Table, watermark: int) -> None:
        still = []
        for one in [*self.waiting, *events]:
            rows = [(number, row) for number, row in table.items() if one.user is not None and row[0] == one.user]
            self.result += [(*one.row, number, row[1]) for number, row in rows]
            if not rows and self.wait and one.user is not None and one.time + self.wait >= watermark:
                still.append(one)
            elif not rows:
                (self.result if self.how == "left" else self.missing).append((*one.row, None, None))
        self.waiting = still


users = st.sampled_from(["a", "b", "cc", None])
events = st.lists(st.builds(Event, st.just(0), st.integers(0, 40), users, st.integers(0, 2)), max_size=4)
tables = st.dictionaries(st.integers(0, 3), st.tuples(users, st.integers(0, 2)), max_size=3)
batches = st.lists(st.tuples(events, tables, st.integers(0, 12), st.integers(1, 2)), max_size=6)


@settings(max_examples=120)
@given(st.sampled_from(["inner", "left"]), st.sampled_from([0, 8]), batches)
def test_every_event_is_told_once_with_its_row_or_when_it_has_waited_long_enough(
    how: str, wait: int, batches: list[tuple[list[Event], Table, int, int]]
) -> None:
    join, oracle = join_of(how, wait), Oracle(how, wait)
    running, before, watermark, number = RunningJoin(join), Table(), 0, 0
    for drawn, table, more, again in [*batches, ([], {}, 100, 1)]:
        watermark += more
        given_events = [one._replace(offset=number + place) for place, one in enumerate(drawn)]
        number += len(drawn)
        oracle.batch(given_events, table, watermark)
        running.batch((incoming(join.events, given_events), changes(before, table)), watermark, again=again)
        before = table
        assert sorted(running.result, key=repr) == sorted(oracle.result, key=repr)
        assert sorted(running.missing, key=repr) == sorted(oracle.missing, key=repr)
    assert not wait or running.keys("waiting") == 0
