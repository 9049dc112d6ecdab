from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from headwater.errors import JobRefused, StoreUnavailable, UnknownView
from headwater.flow.sinks.view import ViewSink, table_sink
from headwater.views.store import open_store
from headwater.views.view import View
from tests.contracts.sink import JOB, SinkContract, mark
from tests.contracts.staged_sink import StagedSinkContract, staged, staged_sink, stager_of
from tests.flow.sinks.places import TablePlace


class TestSqliteView(SinkContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[TablePlace]:
        with closing(TablePlace(tmp_path, key=["number"])) as place:
            yield place


class TestSqliteTableWithoutKey(SinkContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[TablePlace]:
        with closing(TablePlace(tmp_path, key=[])) as place:
            yield place


class TestPostgresView(StagedSinkContract):
    @pytest.fixture
    def place(self, postgres_url: str) -> Iterator[TablePlace]:
        with closing(TablePlace(postgres_url, key=["number"])) as place:
            yield place


class TestPostgresTableWithoutKey(StagedSinkContract):
    @pytest.fixture
    def place(self, postgres_url: str) -> Iterator[TablePlace]:
        with closing(TablePlace(postgres_url, key=[])) as place:
            yield place


def test_a_table_of_any_sqlite_file_can_be_written(tmp_path: Path) -> None:
    place, url = TablePlace(tmp_path, key=["number"]), f"sqlite:///{tmp_path}/reports.db"
    sink = table_sink(url, "numbers", name="numbers")
    sink.prepare(place.schema, place.key)
    assert sink.write(mark(0), place.batch([1, 2]))
    with View.open(url, "", "numbers") as view:
        assert view.count() == 2
    sink.close()


def test_another_output_of_the_same_job_is_refused_and_not_taken_for_a_repetition(tmp_path: Path) -> None:
    place, url = TablePlace(tmp_path, key=["number"]), f"sqlite:///{tmp_path}/reports.db"
    with closing(table_sink(url, "numbers", name="first")) as first:
        first.prepare(place.schema, place.key)
        assert first.owner() is None
        first.write(mark(0), place.batch([1]))
        assert (first.owner(), first.committed(JOB)) == (JOB, 0)
    with closing(table_sink(url, "numbers", name="second")) as second:
        second.prepare(place.schema, place.key)
        assert (second.owner(), second.committed(JOB)) == (JOB, None)
        with pytest.raises(JobRefused, match="written by job shop/main/1#first, not by shop/main/1#second"):
            second.write(mark(0), place.batch([2]))
    with View.open(url, "", "numbers") as view:
        assert [row["number"] for row in view.rows()] == [1]


def test_a_table_of_postgres_may_name_its_schema(postgres_url: str) -> None:
    place = TablePlace(postgres_url, key=["number"])
    sink = table_sink(postgres_url, "reports.numbers", name="numbers")
    sink.prepare(place.schema, place.key)
    assert sink.write(mark(0), place.batch([1, 2]))
    with View.open(postgres_url, "reports", "numbers") as view:
        assert view.count() == 2
    with pytest.raises(UnknownView):
        View.open(postgres_url, "public", "numbers")
    sink.close()


def test_a_rebuild_is_written_to_the_shadow(tmp_path: Path) -> None:
    place = TablePlace(tmp_path, key=["number"])
    store = open_store(tmp_path, "shop")
    store.prepare("numbers", place.schema, place.key)
    store.begin_shadow("numbers", place.schema, place.key, job="shop/new/2")
    sink = ViewSink(store, "numbers", shadow=True)
    assert sink.committed("shop/new/2") is None
    sink.write(mark(3, job="shop/new/2"), place.batch([1]))
    assert sink.committed("shop/new/2") == 3
    assert place.numbers() == []
    sink.close()


def changes(*rows: tuple[str | None, int, str]) -> pa.Table:
    names, numbers, operations = zip(*rows, strict=True)
    return pa.table({"name": pa.array(names, pa.string()), "n": pa.array(numbers, pa.int64()), "_op": operations})


def test_keys_that_are_deleted_in_staged_rows_are_deleted_and_told_to_those_who_watch(postgres_url: str) -> None:
    sink = table_sink(postgres_url, "names", name="names")
    sink.prepare(pa.schema([("name", pa.string()), ("n", pa.int64())]), ["name"])
    sink.write(mark(0), changes(("a", 1, "c"), ("b", 2, "c"), (None, 3, "c"), ("d", 4, "c")))
    parts = staged(stager_of(sink, 1), changes(("a", 1, "d"), ("b", 5, "u"), (None, 0, "d"), ("d", 6, "u")), tasks=2)
    sink.publish(mark(1), parts, changes(("e", 7, "c")))
    sink.close()
    with View.open(postgres_url, "public", "names") as view:
        assert sorted((row["name"], row["n"]) for row in view.rows()) == [("b", 5), ("d", 6), ("e", 7)]
    with closing(open_store(postgres_url, "public")) as store, store.snapshot("names") as snapshot:
        gone = [changed.key["name"] for changed in snapshot.changes_after(1) if changed.row is None]
        assert sorted(gone, key=str) == [None, "a"]


def test_rows_that_a_crash_of_the_server_has_taken_from_a_staged_table_are_noticed(postgres_url: str) -> None:
    """Tables that are not logged are empty after it."""
    place = TablePlace(postgres_url, key=[])
    with closing(place):
        sink = staged_sink(place)
        parts = staged(stager_of(sink, 0), place.batch(range(10)), tasks=2)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"TRUNCATE shop.{parts[1].content['name']}")
        with pytest.raises(StoreUnavailable, match="0 rows of 5"):
            sink.publish(mark(0), parts, place.batch([]))
        assert place.numbers() == []
        sink.publish(mark(0), staged(stager_of(sink, 0), place.batch(range(10)), tasks=2), place.batch([]))
        assert place.numbers() == list(range(10))


def test_a_process_that_still_copies_for_a_job_that_has_ended_is_not_waited_for(postgres_url: str) -> None:
    place = TablePlace(postgres_url, key=[])
    with closing(place):
        sink = staged_sink(place)
        (part,) = staged(stager_of(sink, 0), place.batch([1]), tasks=1)
        with psycopg.connect(postgres_url) as copying:
            copying.execute(f"LOCK TABLE shop.{part.content['name']} IN ROW EXCLUSIVE MODE")
            sink.publish(mark(0), staged(stager_of(sink, 0), place.batch([1]), tasks=1), place.batch([]))
        assert place.numbers() == [1]
        stager_of(sink, 1)
        with psycopg.connect(postgres_url) as connection:
            left = connection.execute("SELECT relname FROM pg_class WHERE relname LIKE '_headwater_stage%'").fetchall()
        assert left == []
