"""What a command says: tables for people, JSON for scripts."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

# Wide enough that a pipe gets every row on one line, whatever the width of the terminal it was started from.
PIPE_COLUMNS = 1000

Cell = str | int | None


def console(stream: IO[str]) -> Console:
    return Console(file=stream, highlight=False, width=None if stream.isatty() else PIPE_COLUMNS)


def say(text: str) -> None:
    print(text)


def note(text: str) -> None:
    """Something a person should know and a script should not have to read."""
    print(f"headwater: {text}", file=sys.stderr)


def write_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False))


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """Columns of numbers are aligned to the right; a missing value is a hyphen."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | None) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text(shown(cell)) for cell in row])
    return table


def shown(cell: Cell) -> str:
    """
    >>> shown(12345), shown("orders"), shown(None)
    ('12,345', 'orders', '-')
    """
    if cell is None:
        return "-"
    return f"{cell:,}" if isinstance(cell, int) else cell


def ago(ms: int) -> str:
    """
    >>> ago(900), ago(75_000), ago(7_200_000), ago(200_000_000)
    ('0s', '1m 15s', '2h 0m', '2d 7h')
    """
    seconds = ms // 1000
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60}s"
    if seconds < 86400:
        return f"{seconds // 3600}h {seconds % 3600 // 60}m"
    return f"{seconds // 86400}d {seconds % 86400 // 3600}h"


def write_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    console(sys.stdout).print(plain_table(columns, rows))


def counted(count: int, noun: str) -> str:
    """
    >>> counted(1, "record"), counted(2000, "record")
    ('1 record', '2,000 records')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class Meter:
    """Shows how far a command has come; silent where the output is not a terminal."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress

    def advance(self, bytes_more: int, said: str) -> None:
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], advance=bytes_more, said=said)


@contextmanager
def meter(bytes_total: int | None) -> Iterator[Meter]:
    """A bar on standard error if it is a terminal; with an unknown total, a spinner and what was said."""
    if not sys.stderr.isatty():
        yield Meter()
        return
    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.fields[said]}")]
    if bytes_total:
        columns += [BarColumn(), TaskProgressColumn()]
    with Progress(*columns, console=console(sys.stderr), transient=True) as progress:
        progress.add_task("", total=bytes_total, said="")
        yield Meter(progress)
