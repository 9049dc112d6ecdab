"""Drivers of one job that overlap: a store takes what the newest writes, and nothing of the others."""

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.errors import JobTakenOver, StoreUnavailable
from headwater.views.mark import Epoch, Mark
from headwater.views.query import Query
from headwater.views.store import ViewStore, open_store
from headwater.views.tables import SqlStore

JOB, VIEW = "shop/orders/5f0c", "out"
SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/out.sqlite"
    return str(request.getfixturevalue("postgres_url"))


def driver(url: str, number: int) -> ViewStore:
    store = open_store(url, "public")
    store.fence(JOB, Epoch(number, f"driver {number}", 1_700_000_000_000))
    store.prepare(VIEW, SCHEMA, [])
    return store


def writes(store: ViewStore, number: int, batch: int) -> bool:
    """Once more where the server has ended the connection."""
    mark, rows = Mark(JOB, batch, {}, Epoch(number)), pa.table({"id": [10 * batch + number]})
    try:
        return store.write(VIEW, mark, rows)
    except StoreUnavailable:
        return store.write(VIEW, mark, rows)


def test_an_older_driver_is_refused_and_told_by_whom(url: str) -> None:
    older = driver(url, 1)
    assert writes(older, 1, 0)
    newer = driver(url, 2)
    with pytest.raises(JobTakenOver, match=r"^job orders was taken over by driver 2 at 2023-11-14T22:13:20Z; this"):
        writes(older, 1, 1)
    assert writes(newer, 2, 1)
    with closing(open_store(url, "public")) as again, pytest.raises(JobTakenOver):
        again.fence(JOB, Epoch(1))
    with newer.snapshot(VIEW) as snapshot:
        assert sorted(str(row["id"]) for row in snapshot.select(Query())) == ["1", "12"]
    older.close()
    newer.close()


def test_a_store_that_does_not_check_is_found(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqlStore, "_check_driver", lambda self, job, epoch: None)
    older = driver(url, 1)
    newer = driver(url, 2)
    assert writes(older, 1, 0)
    older.close()
    newer.close()
