from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from headwater.errors import JobRefused
from headwater.flow.sinks.parquet import ParquetSink
from tests.contracts.sink import JOB, mark
from tests.contracts.staged_sink import StagedSinkContract
from tests.flow.sinks.places import ParquetPlace
from tests.views import rows as samples


class TestParquet(StagedSinkContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> ParquetPlace:
        return ParquetPlace(tmp_path / "numbers", by=[])


class TestParquetDividedByAColumn(StagedSinkContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> ParquetPlace:
        return ParquetPlace(tmp_path / "numbers", by=["odd"])


def test_all_values_come_back_as_they_were(tmp_path: Path) -> None:
    sink = ParquetSink(str(tmp_path), name="samples")
    sink.prepare(samples.SCHEMA, [])
    sink.write(mark(0), samples.table(samples.ALL))
    back = ds.dataset(tmp_path, format="parquet").to_table()
    assert samples.shown(back.to_pylist()) == samples.shown(samples.table(samples.ALL).to_pylist())


def test_folders_are_named_as_spark_names_them(tmp_path: Path) -> None:
    sink = ParquetSink(str(tmp_path), name="orders", by=["country", "year"])
    rows = pa.table({"country": ["DE", "a/b", None, "DE"], "year": [2026, 2025, 2026, 2026], "n": [1, 2, 3, 4]})
    sink.prepare(rows.schema, [])
    sink.write(mark(0), rows)
    folders = sorted(str(file.parent.relative_to(tmp_path)) for file in tmp_path.rglob("*.parquet"))
    assert folders == [
        "country=DE/year=2026",
        "country=__HIVE_DEFAULT_PARTITION__/year=2026",
        "country=a%2Fb/year=2025",
    ]


def test_no_row_is_lost_or_doubled_by_the_value_that_files_are_divided_by(tmp_path: Path) -> None:
    texts = ["__HIVE_DEFAULT_PARTITION__", None, "%5F", "", "a/b"]
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    numbers = [float("nan"), 0.0, -0.0, None, 1.5, other_nan]
    for column, folders in ((pa.array(numbers), 5), (pa.array(texts), 5)):
        rows = pa.table({"by": column, "n": list(range(len(column)))})
        folder = tmp_path / str(column.type)
        sink = ParquetSink(str(folder), name="orders", by=["by"])
        sink.prepare(rows.schema, [])
        sink.write(mark(0), rows)
        back = ds.dataset([str(file) for file in folder.rglob("*.parquet")], format="parquet").to_table()
        assert sorted(back["n"].to_pylist()) == list(range(len(column)))
        assert len(list(folder.glob("by=*"))) == folders


def test_files_are_not_divided_by_all_columns(tmp_path: Path) -> None:
    with pytest.raises(JobRefused, match="by all of its columns"):
        ParquetSink(str(tmp_path), name="orders", by=["n"]).prepare(pa.schema([("n", pa.int64())]), [])


def test_any_file_system_of_fsspec_will_do() -> None:
    sink = ParquetSink("memory://lake/orders", name="orders")
    rows = pa.table({"n": [1, 2]})
    sink.prepare(rows.schema, [])
    assert sink.write(mark(0), rows)
    assert not ParquetSink("memory://lake/orders", name="orders").write(mark(0), rows)


def test_a_changed_type_is_refused_before_a_file_is_written(tmp_path: Path) -> None:
    sink = ParquetSink(str(tmp_path), name="orders")
    sink.prepare(pa.schema([("n", pa.int64())]), [])
    sink.write(mark(0), pa.table({"n": [1]}))
    with pytest.raises(JobRefused, match='column "n"'):
        ParquetSink(str(tmp_path), name="orders").prepare(pa.schema([("n", pa.string())]), [])


def test_what_a_crash_leaves_behind_is_hidden_from_readers(tmp_path: Path) -> None:
    sink = ParquetSink(str(tmp_path), name="orders")
    sink.write(mark(0), pa.table({"n": [1]}))
    (tmp_path / ".part-000000000001-00000000.parquet.new").write_bytes(b"half a file")
    assert ds.dataset(tmp_path, format="parquet").to_table().to_pylist() == [{"n": 1}]


def test_another_output_of_the_same_job_is_refused_and_not_taken_for_a_repetition(tmp_path: Path) -> None:
    ParquetSink(str(tmp_path), name="orders").write(mark(0), pa.table({"n": [1]}))
    other = ParquetSink(str(tmp_path), name="copies")
    assert other.committed(JOB) is None
    with pytest.raises(JobRefused, match="written by output orders of the same job, not by copies"):
        other.write(mark(0), pa.table({"n": [2]}))
    assert ParquetSink(str(tmp_path), name="orders").committed(JOB) == 0
