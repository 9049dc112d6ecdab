"""The queries of Nexmark beside Flink SQL, another program with an own reading of SQL, over the same events."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.flow.peers.environment import interpreter_of
from examples.nexmark.main import FOLDER, NUMBERS
from examples.nexmark.test_nexmark import kept
from headwater.flow.java import find_java
from tests.clients.brokers.process import NotAvailable

PROGRAM = Path(__file__).parents[3] / "benchmarks" / "flow" / "peers" / "flink_nexmark.py"
NOT_COMPARED = ("q10", "q12")
"""The rows of q10 are in files, and are compared with Spark's there; Flink emits no windows of q12 at the end."""
QUERIES = tuple(f"q{number}" for number in NUMBERS if f"q{number}" not in NOT_COMPARED)
SECONDS_MAX = 1500

pytestmark = [pytest.mark.torture, pytest.mark.timeout(3000)]


def flink_rows(folder: Path) -> dict[str, list[dict[str, str]]]:
    """What Flink has at the end of the tables in a folder: all values as texts."""
    try:
        python, java = interpreter_of("flink"), find_java()
    except NotAvailable as reason:
        pytest.skip(str(reason))
    command = [str(python), str(PROGRAM), "results", str(FOLDER / "flink.sql"), str(folder), *QUERIES]
    environment = {**os.environ, "JAVA_HOME": str(java)}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS_MAX, env=environment, check=False
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-4000:]
    files = {query: folder / "results" / f"{query}.json" for query in QUERIES}
    return {query: [json.loads(line) for line in file.read_text().splitlines()] for query, file in files.items()}


def comparable(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(str({name: _value(row[name]) for name in sorted(row)}) for row in rows)


def _value(value: Any) -> str:
    """A number or a time, whatever it is written as; else a text."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat()
    text = str(value)
    try:
        return f"{float(text):.6f}"
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None).isoformat()
    except ValueError:
        return text


def test_each_query_is_what_flink_answers(tmp_path: Path) -> None:
    ours, _ = kept(QUERIES, tmp_path)
    theirs = flink_rows(tmp_path / "tables")
    wrong = {query for query in QUERIES if comparable(ours[query]) != comparable(theirs[query]) or not ours[query]}
    assert wrong == set()
