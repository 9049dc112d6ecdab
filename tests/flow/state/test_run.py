import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import StateDamaged, StateUnavailable
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.manifest import HASH, RunInfo
from headwater.flow.state.runs import run as run_module
from headwater.flow.state.runs.run import Run, in_batches, open_run, write_run
from headwater.log.storage.simulated import Fault, SimulatedDisk
from tests.flow.state.subjects import SCHEMA, rows_of

ROWS = SCHEMA.rows


def sorted_rows(keys: range) -> pa.RecordBatch:
    return rows_of({key: key * 10 for key in keys}).select(ROWS.names).cast(ROWS)


def a_run(disk: SimulatedDisk, keys: range) -> tuple[DiskFiles, RunInfo]:
    files = DiskFiles(disk, "state")
    info = write_run(files, 0, "runs/a.arrow", ROWS, in_batches(sorted_rows(keys)))
    assert info is not None
    return files, info


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "BATCH_ROWS_MAX", 5)


def opened(keys: range) -> Run:
    files, info = a_run(SimulatedDisk(), keys)
    return open_run(files, info, ROWS)


def test_a_run_says_what_it_holds() -> None:
    _, info = a_run(SimulatedDisk(), range(10))
    assert (info.rows, info.first_hash, info.last_hash) == (10, -7, 5)


@pytest.mark.usefixtures("small_batches")
def test_keys_of_one_hash_are_never_in_two_batches() -> None:
    run = opened(range(20))
    assert [batch.num_rows for batch in run.batches] == [6, 6, 6, 2]
    assert all(one[-1] < other[0] for one, other in zip(run.hashes[:-1], run.hashes[1:], strict=True))


@pytest.mark.usefixtures("small_batches")
def test_batches_are_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "BATCH_BYTES_MAX", 1)
    assert {batch.num_rows for batch in opened(range(20)).batches} == {2}


@pytest.mark.usefixtures("small_batches")
def test_hashes_are_found_in_whatever_batch_they_are() -> None:
    run = opened(range(20))
    wanted = np.array([-100, -7, -6, -4, 2, 11, 20, 21], np.int64)
    found = {int(wanted[place]): int(hits.hashes[row]) for hits in run.find(wanted)
             for place, row in zip(hits.wanted, hits.rows, strict=True)}  # fmt: skip
    assert found == {-7: -7, -4: -4, 2: 2, 11: 11, 20: 20}


@pytest.mark.usefixtures("small_batches")
def test_places_count_over_all_batches() -> None:
    run = opened(range(20))
    assert [run.place(hash_) for hash_ in (-100, -7, -6, 20, 21)] == [0, 0, 2, 18, 20]
    assert [run.hash_at(row) for row in (0, 5, 6, 19)] == [-7, -1, 2, 20]
    assert sum(piece.num_rows for piece in run.between(4, 13)) == 9


def test_no_rows_make_no_file() -> None:
    disk = SimulatedDisk()
    assert write_run(DiskFiles(disk, "state"), 0, "runs/a.arrow", ROWS, in_batches(sorted_rows(range(0)))) is None
    assert disk.files() == []


def test_every_flipped_bit_is_noticed_with_a_sentence() -> None:
    disk = SimulatedDisk()
    files, info = a_run(disk, range(6))
    for bit in range(0, info.bytes * 8, 97):
        disk.flip_bit("state/runs/a.arrow", bit)
        with pytest.raises(
            StateDamaged, match=r"^state file runs/a\.arrow is damaged: its checksum .* rebuild the view"
        ):
            open_run(files, info, ROWS)
        disk.flip_bit("state/runs/a.arrow", bit)
    assert open_run(files, info, ROWS).info == info


def test_a_run_that_is_shorter_or_gone_is_noticed() -> None:
    disk = SimulatedDisk()
    files, info = a_run(disk, range(6))
    disk.open("state/runs/a.arrow").truncate(100)
    with pytest.raises(StateDamaged, match=f"it has 100 bytes, and {info.bytes} were written"):
        open_run(files, info, ROWS)
    disk.delete("state/runs/a.arrow")
    with pytest.raises(StateDamaged, match="it is missing"):
        open_run(files, info, ROWS)


def test_a_run_with_other_columns_than_its_manifest_says_is_refused() -> None:
    files, info = a_run(SimulatedDisk(), range(6))
    with pytest.raises(StateDamaged, match="its columns are"):
        open_run(files, info, pa.schema([(HASH, pa.int64())]))


def test_a_write_that_fails_leaves_no_file() -> None:
    disk = SimulatedDisk()
    disk.fail(Fault(["write"]))
    with pytest.raises(StateUnavailable):
        a_run(disk, range(6))
    assert disk.files() == []
