import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.errors import JobRefused, StoreUnavailable
from headwater.views.store import open_store, sqlite_file
from tests.contracts.rebuild import RebuildContract
from tests.contracts.view_store import SCHEMA, ViewStoreContract, changed, mark


class TestSqliteStore(ViewStoreContract):
    @pytest.fixture
    def where(self, tmp_path: Path) -> Path:
        return tmp_path


class TestSqliteRebuild(RebuildContract):
    @pytest.fixture
    def where(self, tmp_path: Path) -> Path:
        return tmp_path


def test_a_batch_that_is_in_survives_a_power_cut(tmp_path: Path) -> None:
    """What SQLite promises with these two settings, and not without them."""
    store = open_store(tmp_path, "shop")
    assert store._run("PRAGMA journal_mode") == [("wal",)]  # type: ignore[attr-defined]
    assert store._run("PRAGMA synchronous") == [(2,)]  # type: ignore[attr-defined]
    store.close()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    writer = open_store(tmp_path, "shop")
    writer.prepare("revenue", SCHEMA, ["country"])
    reader = open_store(tmp_path, "shop", read_only=True)
    with pytest.raises(StoreUnavailable, match="readonly"):
        reader.write("revenue", mark(0), changed(("c", "DE", "1.00", 1)))
    reader.close()
    writer.close()


def test_a_reader_makes_no_file(tmp_path: Path) -> None:
    store = open_store(tmp_path, "shop", read_only=True)
    assert store.views() == []
    assert store.mark("revenue") is None
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_table_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "own.db"
    with sqlite3.connect(file) as own:
        own.execute("CREATE TABLE Revenue (x)")
        own.execute("INSERT INTO Revenue VALUES (1)")
    own.close()
    store = open_store(f"sqlite:///{file}", "")
    with pytest.raises(JobRefused, match="is not a view of this app"):
        store.prepare("revenue", SCHEMA, ["country"])
    store.close()
    check = sqlite3.connect(file)
    assert check.execute("SELECT * FROM Revenue").fetchall() == [(1,)]
    check.close()


def test_people_can_read_the_file_with_any_tool(tmp_path: Path) -> None:
    store = open_store(tmp_path, "shop")
    store.prepare("revenue", SCHEMA, ["country"])
    store.write("revenue", mark(0), changed(("c", "DE", "12.50", 2), ("c", "FR", "3.00", 1)))
    tool = sqlite3.connect(sqlite_file(tmp_path, "shop"))
    assert tool.execute("SELECT country, sum(amount), orders FROM revenue GROUP BY 1").fetchall() == [
        ("DE", 12.5, 2),
        ("FR", 3.0, 1),
    ]
    assert tool.execute("SELECT country FROM revenue ORDER BY amount + 0 DESC LIMIT 1").fetchall() == [("DE",)]
    tool.close()
    store.close()


@pytest.mark.parametrize("app", ["", "..", "../shop", "a/b", "a\0b", ".hidden"])
def test_an_app_never_becomes_a_path_unchecked(tmp_path: Path, app: str) -> None:
    with pytest.raises(JobRefused, match="cannot name an app"):
        open_store(tmp_path, app)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    sqlite_file(tmp_path, "shop").parent.mkdir()
    sqlite_file(tmp_path, "shop").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreUnavailable, match=r"shop\.sqlite does not answer: file is not a database"):
        open_store(tmp_path, "shop").prepare("revenue", pa.schema([("id", pa.int64())]), ["id"])
