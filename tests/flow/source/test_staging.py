from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest

from headwater.errors import UnavailableError
from headwater.flow.source.splitting import Range
from headwater.flow.source.staging import (
    POISONED_SCHEMA,
    Counts,
    clear_stage,
    read_stage,
    write_stage,
)
from headwater.record import TopicPartition

WHOLE = Range("orders-eu", 1, 0, 30)


def poisoned(offset: int) -> pa.RecordBatch:
    row = {"topic": "orders-eu", "partition": 1, "offset": offset, "value": b"{", "headers": [], "reason": "?"}
    return pa.RecordBatch.from_pylist([row], POISONED_SCHEMA)


def test_counts_and_poisoned_rows_are_read_as_written(tmp_path: Path) -> None:
    counts = Counts(rows=30, poisoned=1, bytes=99, event_time_max_us=5, lost=2)
    write_stage(tmp_path, WHOLE, counts, [poisoned(7)])
    [staged] = read_stage(tmp_path, [WHOLE])
    assert (staged.range, staged.counts) == (WHOLE, counts)
    assert staged.poisoned.column("offset").to_pylist() == [7]


def test_pieces_are_found_in_order(tmp_path: Path) -> None:
    for first, end in ((10, 30), (0, 10)):
        write_stage(tmp_path, WHOLE._replace(first=first, end=end), Counts(rows=end - first), [])
    assert [staged.counts.rows for staged in read_stage(tmp_path, [WHOLE])] == [10, 20]


@pytest.mark.parametrize("pieces", [[], [(0, 10)], [(0, 10), (20, 30)], [(0, 15), (10, 30)], [(0, 40)]])
def test_a_missing_piece_is_said(tmp_path: Path, pieces: list[tuple[int, int]]) -> None:
    for first, end in pieces:
        write_stage(tmp_path, WHOLE._replace(first=first, end=end), Counts(), [])
    with pytest.raises(UnavailableError, match="orders-eu-1-0-30"):
        read_stage(tmp_path, [WHOLE])


def test_a_range_that_was_cut_differently_before_is_counted_once(tmp_path: Path) -> None:
    for first, end in ((0, 10), (10, 30), (0, 15), (15, 30)):
        write_stage(tmp_path, WHOLE._replace(first=first, end=end), Counts(rows=end - first), [])
    assert [staged.range[2:] for staged in read_stage(tmp_path, [WHOLE])] == [(0, 15), (15, 30)]


def test_a_task_that_runs_again_writes_the_same_again(tmp_path: Path) -> None:
    write_stage(tmp_path, WHOLE, Counts(rows=30, poisoned=1), [poisoned(7)])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_stage(tmp_path, WHOLE, Counts(rows=30, poisoned=1), [poisoned(7)])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert len(before) == 2


def test_what_was_read_is_cleared_and_the_rest_stays(tmp_path: Path) -> None:
    later = WHOLE._replace(first=30, end=40)
    write_stage(tmp_path, WHOLE, Counts(rows=30, poisoned=1), [poisoned(7)])
    write_stage(tmp_path, later, Counts(rows=10), [])
    assert clear_stage(tmp_path, {TopicPartition("orders-eu", 1): 39}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["orders-eu-1-30-40.json"]


def test_attempts_that_write_at_the_same_time_do_not_meet(tmp_path: Path) -> None:
    one, together = Range("orders", 0, 0, 10), Barrier(8)

    def attempt() -> None:
        together.wait(timeout=60)
        write_stage(tmp_path, one, Counts(rows=10, poisoned=1), [poisoned(3)])

    with ThreadPoolExecutor(8) as attempts:
        for written in [attempts.submit(attempt) for _ in range(8)]:
            written.result()
    (found,) = read_stage(tmp_path, [one])
    assert (found.counts.rows, found.poisoned.num_rows) == (10, 1)


def test_what_an_attempt_left_that_was_ended_while_it_wrote_is_cleared_with_its_range(tmp_path: Path) -> None:
    for name in ("orders-0-0-10.json", "orders-0-0-10.poisoned.arrow", "orders-0-10-20.json"):
        (tmp_path / f"{name}.5f0c.new").write_bytes(b"half")
    assert clear_stage(tmp_path, {TopicPartition("orders", 0): 10}) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["orders-0-10-20.json.5f0c.new"]
