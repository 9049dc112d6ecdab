"""Each query beside one batch of Spark over the same events: what is kept from batch to batch is what one answers."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from examples.nexmark.batch import MOMENT, batch_rows, write_tables
from examples.nexmark.generator import events
from examples.nexmark.main import NUMBERS, app_of, side_input
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_app

SEED, EVENTS, PORTIONS = 1, 600, 3
STREAMS = ("q0", "q1", "q2", "q13", "q14", "q21", "q22")
FILES, PROCESSED = "q10", "q12"
COMPARED = tuple(f"q{number}" for number in NUMBERS if f"q{number}" != FILES)
Rows = Sequence[Mapping[str, Any]]


def comparable(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(str({name: _value(row[name]) for name in sorted(row)}) for row in rows)


def _value(value: Any) -> Any:
    """Records have times and decimals as texts of JSON."""
    if isinstance(value, str) and value.startswith("2026-") and "T" in value:
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, float | Decimal):
        return f"{float(value):.6f}"
    return value


def feed(tester: AppTester, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    for topic in dict.fromkeys(topic for topic, _ in rows):
        tester.feed(topic, [row for own, row in rows if own == topic])


def kept(
    queries: Sequence[str], folder: Path, *, seed: int = SEED, count: int = EVENTS
) -> tuple[dict[str, Rows], dict[str, Rows]]:
    """The results of queries, for events that come in portions; and those of one batch of Spark."""
    rows, found = [*events(seed, count)], dict[str, Rows]()
    with running_app(app_of([query for query in queries if query != PROCESSED]), folder / "data") as tester:
        tester.feed_rows("side_input", side_input())
        for part in range(PORTIONS):
            feed(tester, rows[part * count // PORTIONS : (part + 1) * count // PORTIONS])
            tester.run()
        tester.flush()
        for query in queries:
            if query not in (FILES, PROCESSED):
                found[query] = tester.values(query) if query in STREAMS else tester.rows(query)
        if PROCESSED in queries:
            found[PROCESSED] = processed(rows, folder / "processed")
        write_tables(folder / "tables", seed, count)
        return found, batch_rows(tester.session, folder / "tables", queries)


def processed(rows: Sequence[tuple[str, Mapping[str, Any]]], folder: Path) -> Rows:
    """What the windows by processing time have, for events that are processed at one moment."""
    with running_app(app_of([PROCESSED]), folder) as tester:
        feed(tester, rows)
        tester.run_at(MOMENT)
        return tester.rows(PROCESSED)


def different(found: Mapping[str, Rows], expected: Mapping[str, Rows]) -> list[Any]:
    """Queries whose results are others than expected, or that have none."""
    wrong: list[Any] = []
    for query, rows in found.items():
        ours, theirs = comparable(rows), comparable(expected[query])
        if ours != theirs or not theirs:
            wrong.append((query, len(ours), len(theirs), sorted({*ours} ^ {*theirs})[:4]))
    return wrong


@pytest.mark.timeout(1200)
def test_each_query_is_what_one_batch_of_spark_answers(tmp_path: Path) -> None:
    assert different(*kept(COMPARED, tmp_path)) == []


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [2, 3])
def test_all_of_them_are_for_more_events(tmp_path: Path, seed: int) -> None:
    assert different(*kept(COMPARED, tmp_path, seed=seed, count=3000)) == []


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_bids_become_files_by_day_and_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, expected = kept([FILES], tmp_path)
    found = [row for file in (tmp_path / "q10-files").rglob("*.parquet") for row in pq.read_table(file).to_pylist()]
    names = ("auction", "bidder", "price", "date_time", "extra", "dt", "hm")
    assert different({FILES: [{name: row[name] for name in names} for row in found]}, expected) == []
