"""Both runs, and a report of them."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.flow.large import any_split, broken

Begin = Callable[[str, int], Callable[[int], None]]


@dataclass
class Report:
    seed: int
    rows: int = 0
    rows_with_broken: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Why rows were set aside, and how many."""
    notes: list[str] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)


def run(report: Report, rows: int, rows_with_broken: int, begin: Begin) -> None:
    folder = Path(tempfile.mkdtemp(prefix="headwater-large-"))
    if rows:
        report.rows = rows
        fed, processed = begin("rows fed", rows), begin("rows in batches cut at random", rows)
        report.anomalies += any_split.run(rows, report.seed, folder / "split", fed=fed, processed=processed)
    if rows_with_broken:
        report.rows_with_broken = rows_with_broken
        fed = begin("rows fed, some broken", rows_with_broken)
        processed = begin("rows processed, some broken", rows_with_broken)
        found, reasons = broken.run(rows_with_broken, report.seed, folder / "broken", fed=fed, processed=processed)
        report.anomalies += found
        report.reasons = dict(reasons)
    if report.anomalies:
        report.notes.append(f"log, state and views are kept in {folder}")
    else:
        shutil.rmtree(folder)
