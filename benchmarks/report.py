"""Show tables in the terminal, and write them as a page."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as TerminalTable

from benchmarks.tables import Table

WIDTH_MIN = 150
"""Narrower than this the widest table cannot be read; a terminal that is narrower wraps its lines."""

NAMES = ("broker", "source", "who", "into")
"""Columns with names of contenders."""

ABOUT = """\
# Benchmarks

Written by `make bench`; do not edit by hand. Each number is the median of several rounds, which go from one contender
to the next and around again, after a warm-up that is not counted; in brackets the smallest and the largest round. MB is
a million bytes of record values. Broker and client share the machine. Broker CPU is user and system time of the
broker's process for a gigabyte of values.

With acks=all headwater answers after the records are on disk (one flush for all who wait). Apache Kafka answers
acks=all from memory and trusts its replicas; "Kafka, flush.messages=1" is the same broker set to flush as well. acks=1
is answered from memory by both.

Flows run on Spark in this machine's cores, with the session that `headwater run` starts and 4 GiB for the JVM. Their
rows are JSON of 100 B with five fields: a string, a long, a decimal, a string and a timestamp. Their rates count the
seconds of the batches as Spark reports them, planning and checkpoint included, the start of the JVM not.
"""


def show(tables: Sequence[Table], notices: Sequence[str]) -> None:
    terminal = Console()
    console = terminal if terminal.width >= WIDTH_MIN else Console(width=WIDTH_MIN)
    for table in tables:
        shown = TerminalTable(title=table.title, caption=table.note, title_justify="left", caption_justify="left")
        for place, column in enumerate(table.columns):
            shown.add_column(column, justify="left" if place == 0 or column in NAMES else "right")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
        console.print()
    for notice in notices:
        console.print(notice)


def page(tables: Sequence[Table], notices: Sequence[str], *, day: str, machine: str) -> str:
    """The page in Markdown."""
    parts = [ABOUT, f"Measured on {day}: {machine}.\n", *(f"{notice}\n" for notice in notices)]
    for table in tables:
        lines = [row_of(table.columns), row_of(["---"] * len(table.columns)), *(row_of(row) for row in table.rows)]
        parts.append(f"## {table.title}\n\n{table.note}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def row_of(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
