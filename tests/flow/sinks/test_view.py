from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headwater.errors import JobRefused, UnknownView
from headwater.flow.sinks.view import ViewSink, table_sink
from headwater.views.store import open_store
from headwater.views.view import View
from tests.contracts.sink import JOB, SinkContract, mark
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


class TestPostgresView(SinkContract):
    @pytest.fixture
    def place(self, postgres_url: str) -> Iterator[TablePlace]:
        with closing(TablePlace(postgres_url, key=["number"])) as place:
            yield place


class TestPostgresTableWithoutKey(SinkContract):
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
