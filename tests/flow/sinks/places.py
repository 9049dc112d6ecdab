"""Places for the sink contract, one per kind of sink. Each can be opened again by another process."""

import io
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from headwater.flow.sinks.folders import Folder, folder_at
from headwater.flow.sinks.parquet import ParquetSink
from headwater.flow.sinks.sink import Sink
from headwater.flow.sinks.view import ViewSink
from headwater.views.changes import Changes
from headwater.views.postgres import PostgresStore
from headwater.views.shape import Shape
from headwater.views.sqlite import SqliteStore
from headwater.views.store import open_store
from headwater.views.tables import SqlStore, Values
from headwater.views.view import View
from tests.contracts.sink import Faults


def stopping(store: SqlStore, faults: Faults) -> SqlStore:
    """Count every statement of a store as a step."""
    run, load = store._run, store._load

    def counted(sql: str, values: Values = ()) -> list[tuple[object, ...]]:
        if sql == "ROLLBACK":
            return run(sql, values)
        faults.before()
        rows = run(sql, values)
        faults.behind()
        return rows

    def loaded(table: str, shape: Shape, changes: Changes, change: int) -> None:
        faults.before()
        load(table, shape, changes, change)
        faults.behind()

    store._run, store._load = counted, loaded  # type: ignore[method-assign]
    return store


class TablePlace:
    """Rows of a number and its text, in a table with or without a key."""

    schema = pa.schema([("number", pa.int64()), ("text", pa.string())])

    def __init__(self, where: str | Path, *, key: Sequence[str]) -> None:
        self._where, self.key = where, key
        self._opened: list[Sink] = []

    def close(self) -> None:
        for sink in self._opened:
            sink.close()

    def open(self, faults: Faults | None = None) -> Sink:
        store = open_store(self._where, "shop")
        if faults is not None:
            assert isinstance(store, SqliteStore | PostgresStore)
            stopping(store, faults)
        self._opened.append(ViewSink(store, "numbers"))
        return self._opened[-1]

    def batch(self, numbers: Iterable[int]) -> pa.Table:
        listed = list(numbers)
        rows = pa.table({"number": pa.array(listed, pa.int64()), "text": pa.array(map(str, listed), pa.string())})
        return rows.append_column("_op", pa.array(["c"] * len(listed), pa.string())) if self.key else rows

    def numbers(self) -> list[int]:
        with View.open(self._where, "shop", "numbers") as view:
            rows = view.rows()
        assert all(row["text"] == str(row["number"]) for row in rows)
        return sorted(int(str(row["number"])) for row in rows)


class StoppingFolder:
    def __init__(self, folder: Folder, faults: Faults) -> None:
        self.url = folder.url
        self._folder, self._faults = folder, faults

    def put(self, path: str, content: bytes) -> None:
        self._faults.before()
        self._folder.put(path, content)
        self._faults.behind()

    def get(self, path: str) -> bytes | None:
        return self._folder.get(path)

    def writing(self, path: str) -> AbstractContextManager[io.RawIOBase]:
        return self._folder.writing(path)

    def rename(self, path: str, new: str) -> None:
        self._faults.before()
        self._folder.rename(path, new)
        self._faults.behind()

    def remove(self, path: str) -> None:
        self._faults.before()
        self._folder.remove(path)
        self._faults.behind()

    def names(self, path: str) -> list[str]:
        return self._folder.names(path)


class ParquetPlace:
    schema = pa.schema([("number", pa.int64()), ("text", pa.string()), ("odd", pa.bool_())])
    key: Sequence[str] = ()

    def __init__(self, path: Path, *, by: Sequence[str]) -> None:
        self._path, self._by = path, by

    def open(self, faults: Faults | None = None) -> Sink:
        folder: Folder = folder_at(str(self._path))
        return ParquetSink(StoppingFolder(folder, faults) if faults else folder, name="numbers", by=self._by)

    def batch(self, numbers: Iterable[int]) -> pa.Table:
        listed = list(numbers)
        return pa.table(
            {
                "number": listed,
                "text": [str(number) for number in listed],
                "odd": [number % 2 == 1 for number in listed],
            },
            schema=self.schema,
        )

    def numbers(self) -> list[int]:
        """As any reader of the folder finds them."""
        if not list(self._path.rglob("*.parquet")):
            return []
        found = ds.dataset(self._path, format="parquet", partitioning="hive").to_table(columns=["number"])
        return sorted(found.column("number").to_pylist())
