"""A batch that is run again, after whatever was done of it before, gives the same hits and leaves the same queries."""

from typing import Any

import pyarrow as pa
import pytest

from headwater.flow.operators.joins.events import CONTENT, OFFSET, PARTITION, SOURCE, TIME, Events
from headwater.flow.operators.joins.tables import AFTER, ROW, Side
from headwater.flow.operators.search.fields import Fields
from headwater.flow.operators.search.percolation import HitPairing, Percolation, Search
from headwater.flow.state import HASH
from tests.flow.operators.joins.streams import RunningJoin

DOCUMENTS = pa.schema([("id", pa.int64()), ("body", pa.string())])
QUERIES = pa.schema([("key", pa.int64()), ("query", pa.string())])
SEARCH = Search(Fields((("body", "standard"),), DOCUMENTS), "query")


def percolation() -> Percolation:
    table = Side(QUERIES, ("key",), ("key",))
    pairing = HitPairing(DOCUMENTS, QUERIES, (), hit_schema=SEARCH.hit_schema)
    return Percolation(Events(DOCUMENTS, ()), table, pairing, search=SEARCH)


def documents(work: Percolation, *bodies: str) -> pa.RecordBatch:
    places = {TIME: 0, SOURCE: 0, PARTITION: 0, CONTENT: 0}
    rows: list[Any] = [{HASH: n, OFFSET: n, "id": n, "body": body, **places} for n, body in enumerate(bodies)]
    return pa.RecordBatch.from_pylist(rows, work.events.incoming)


def changed(before: dict[int, str], after: dict[int, str]) -> pa.RecordBatch:
    rows = [
        {HASH: key, ROW: key, AFTER: is_after, "key": key, "query": side[key]}
        for key in sorted({*before, *after}) if before.get(key) != after.get(key)
        for side, is_after in ((before, False), (after, True)) if key in side
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(
        rows, pa.schema([(HASH, pa.int64()), (ROW, pa.int64()), (AFTER, pa.bool_()), *QUERIES])
    )


@pytest.mark.parametrize("again", [1, 3])
def test_hits_are_the_same_however_often_a_batch_is_run(again: int) -> None:
    work = percolation()
    running, before = RunningJoin(work), dict[int, str]()
    for after in ({1: "rain", 2: "storm"}, {2: "storm", 3: "rain AND storm"}, {2: "calm", 3: "rain AND storm"}):
        running.batch((documents(work, "rain storm", "calm"), changed(before, after)), None, again=again)
        before = after
    found = [(one[0], one[2]) for one in running.result]
    assert sorted(found) == sorted([(0, 1), (0, 2), (0, 2), (0, 3), (1, 2), (0, 3)])
    assert running.keys("right") == 2
