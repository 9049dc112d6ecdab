from decimal import Decimal

import psycopg
import pyarrow as pa
import pytest

from headwater.errors import JobRefused, StoreUnavailable, UnstorableValue
from headwater.views.store import open_store
from headwater.views.view import View
from tests.contracts.rebuild import RebuildContract
from tests.contracts.view_store import SCHEMA, ViewStoreContract, changed, mark


class TestPostgresStore(ViewStoreContract):
    @pytest.fixture
    def where(self, postgres_url: str) -> str:
        return postgres_url


class TestPostgresRebuild(RebuildContract):
    @pytest.fixture
    def where(self, postgres_url: str) -> str:
        return postgres_url


def test_people_can_read_a_view_with_any_tool(postgres_url: str) -> None:
    store = open_store(postgres_url, "shop")
    store.prepare("revenue", SCHEMA, ["country"])
    store.write("revenue", mark(0), changed(("c", "DE", "12.50", 2), ("c", "FR", "3.00", 1)))
    with psycopg.connect(postgres_url) as tool:
        rows = tool.execute("SELECT country, amount FROM shop.revenue ORDER BY amount DESC").fetchall()
    store.close()
    assert rows == [("DE", Decimal("12.50")), ("FR", Decimal("3.00"))]


def test_a_broken_connection_leaves_nothing_half_done_and_is_reopened(postgres_url: str) -> None:
    store = open_store(postgres_url, "shop")
    store.prepare("revenue", SCHEMA, ["country"])
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
    with pytest.raises(StoreUnavailable, match="does not answer"):
        store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1)))
    assert store.write("revenue", mark(0), changed(("c", "DE", "1.00", 1)))
    with View.open(postgres_url, "shop", "revenue") as view:
        assert view.count() == 1
    store.close()


def test_a_database_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(StoreUnavailable) as error:
        open_store("postgresql://ada:secret@127.0.0.1:1/shop", "shop").prepare("revenue", SCHEMA, ["country"])
    assert "127.0.0.1" in str(error.value)
    assert "secret" not in str(error.value)


def test_a_text_that_postgres_cannot_hold_is_refused(postgres_url: str) -> None:
    store = open_store(postgres_url, "shop")
    store.prepare("revenue", SCHEMA, ["country"])
    with pytest.raises(UnstorableValue, match="0x00"):
        store.write("revenue", mark(0), changed(("c", "nul\0", "1.00", 1)))
    assert store.write("revenue", mark(0), changed(("c", "none", "1.00", 1)))
    store.close()


def test_a_foreign_table_is_left_alone(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as own:
        own.execute("CREATE TABLE public.revenue (x int)")
    store = open_store(postgres_url, "public")
    with pytest.raises(JobRefused, match="is not a view of this app"):
        store.prepare("revenue", SCHEMA, ["country"])
    store.close()


def test_text_sorts_by_its_bytes_as_in_spark(postgres_url: str) -> None:
    store = open_store(postgres_url, "shop")
    store.prepare("words", pa.schema([("word", pa.string())]), ["word"])
    store.write("words", mark(0), pa.table({"word": ["b", "ä", "B", "a", "Z"]}))
    with View.open(postgres_url, "shop", "words") as view:
        assert [row["word"] for row in view.rows(order="word")] == ["B", "Z", "a", "b", "ä"]
    store.close()
