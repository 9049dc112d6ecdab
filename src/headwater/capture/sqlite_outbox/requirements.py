"""Checks a SQLite database for a capture."""

import os
from collections.abc import Sequence
from pathlib import Path

from headwater.capture.finding import Finding
from headwater.capture.sqlite_outbox.source import connect
from headwater.capture.sqlite_outbox.tables import Table, quoted, tables
from headwater.errors import CaptureError


def check(path: Path, patterns: Sequence[str]) -> list[Finding]:
    try:
        database = connect(path)
    except CaptureError as error:
        return [Finding(False, str(error))]
    try:
        findings = [_writable(path)]
        (mode,) = database.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            said = f"its journal is {mode}: while the capture reads, no writer can commit; with a WAL both can proceed"
            findings.append(Finding(True, said, "PRAGMA journal_mode = WAL;", note=True))
        found = tables(database, patterns)
        if patterns and not found:
            findings.append(Finding(False, f"{path} has no table {', '.join(patterns)}"))
        return findings + [finding for table in found for finding in _about(table)]
    finally:
        database.close()


def _writable(path: Path) -> Finding:
    """A trigger writes as the user that fires it; the capture itself has to install triggers and empty the outbox."""
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return Finding(True, f"{path} and its folder can be written to")
    return Finding(False, f"{path} or its folder cannot be written to, and a capture installs triggers")


def _about(table: Table) -> list[Finding]:
    found = [Finding(True, f"table {table.name} can be captured")]
    if not table.key:
        said = f"table {table.name} has no primary key: its topic is not compacted, and its copy blocks writers"
        found.append(Finding(True, said, note=True))
    for index in table.expressions:
        said = (
            f"index {index} of table {table.name} is unique over an expression: "
            "rows that INSERT OR REPLACE deletes because of it are not captured"
        )
        found.append(Finding(True, said, f"DROP INDEX {quoted(index)}; -- or do not use REPLACE", note=True))
    return found
